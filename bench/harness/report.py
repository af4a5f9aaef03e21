"""The tables, as Markdown."""

from harness import ratios, workloads

# The metrics with targets; the others have a separate table.
_MAIN = (workloads.THROUGHPUT, workloads.P50, workloads.CPU)


def number(value):
    """Formats a number with three significant digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread_cell(spread, divisor=1.0):
    if spread is None:
        return "-"
    median, low, high = (number(each / divisor) for each in (spread.median, spread.low, spread.high))
    return f"{median} ({low}-{high})"


def _bound(ratio):
    if ratio.target is None:
        return "-"
    return f"{'>=' if ratio.metric.higher_is_better else '<='} {ratio.target:g}"


def _ratio_cell(ratio):
    return f"{spread_cell(ratio.spread)} {ratio.verdict}".strip()


def markdown_table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _name(workload):
    return f"{workload.id} {workload.title}"


def _target_table(table, results):
    head = ["Workload"]
    for metric in _MAIN:
        head += [metric.title, "target"]
    rows = []
    for workload in table:
        by_metric = {each.metric: each for each in ratios.ratios(workload, results[workload.id])}
        row = [_name(workload)]
        for metric in _MAIN:
            row += [_ratio_cell(by_metric[metric]), _bound(by_metric[metric])]
        rows.append([*row, ratios.overall(workload, results[workload.id]) or "no target"])
    return markdown_table([*head, "result"], rows)


def _other_table(table, results):
    metrics = [each for each in workloads.LOAD_METRICS if each not in _MAIN]
    rows = []
    for workload in table:
        by_metric = {each.metric: each for each in ratios.ratios(workload, results[workload.id])}
        rows.append([workload.id, *(_ratio_cell(by_metric[each]) for each in metrics)])
    return markdown_table(["Workload", *(each.title for each in metrics)], rows)


def _absolute_table(table, results, sides):
    """Makes a table of figures with their units; `table` has workloads with the same metrics."""
    metrics = table[0].metrics
    rows = []
    for workload in table:
        for side in sides:
            samples = [each[side] for each in results[workload.id] if side in each]
            cells = [spread_cell(ratios.side_spread(samples, each), each.divisor) for each in metrics]
            # With two sides, a table of ratios has the titles.
            name = workload.id if len(sides) == 2 else _name(workload)
            rows.append([name, side, *cells, str(sum(each.errors for each in samples))])
    return markdown_table(["Workload", "side", *(f"{each.title}, {each.unit}" for each in metrics), "errors"], rows)


def _start_table(table, results):
    rows = []
    for workload in table:
        by_metric = ratios.ratios(workload, results[workload.id])
        cells = [_ratio_cell(each) + (f" {_bound(each)}" if each.target else "") for each in by_metric]
        rows.append([_name(workload), *cells])
    return markdown_table(["Workload", *(each.title for each in workloads.START_METRICS)], rows)


def _errors(table, results):
    lines = []
    for workload in table:
        for index, sides in enumerate(results[workload.id]):
            for side, sample in sides.items():
                if not sample.usable:
                    lines.append(f"- {workload.id}, round {index + 1}, {side}: {sample.errors} errors. {sample.error}")
    return lines


def document(table, results, sides, facts):
    """Returns the whole page. `results` maps workload ids to a list of {side: Sample}; `facts` is a list of (name, text)."""
    table = [each for each in table if results.get(each.id)]
    load = [each for each in table if isinstance(each, workloads.LoadWorkload)]
    start = [each for each in table if isinstance(each, workloads.StartWorkload)]
    lines = ["# Benchmarks", "", "`bench/run` writes this page; `bench/README.md` says how to repeat it.", ""]
    lines += markdown_table(["", ""], facts)
    errors = _errors(table, results)
    if errors:
        lines += ["", "## Failed samples", "", *errors]
    if len(sides) == 2:
        lines += [
            "",
            "A ratio is subject / peer within a round: median (smallest-largest). Above 1 is better for throughput, below 1",
            "for everything else. A target is met if the median meets it.",
        ]
        if load:
            lines += ["", "## Ratios against targets", "", *_target_table(load, results)]
            lines += ["", "## Other ratios", "", *_other_table(load, results)]
        if start:
            lines += ["", "## Start and memory", "", *_start_table(start, results)]
    lines += ["", "## Figures of this machine", ""]
    lines += ["Median (smallest-largest) over rounds. Compare figures of one run only."]
    for group in (load, start):
        if group:
            lines += ["", *_absolute_table(group, results, sides)]
    return "\n".join(lines) + "\n"


def floor_document(table, results, facts):
    """Returns the page of bench/run-floor. The sides of `results` are "peer", here the floor, and "subject"."""
    head = ["Workload"]
    for metric in _MAIN:
        head += [f"{metric.title}, {metric.unit}: floor", "Braid", "Braid / floor"]
    rows = []
    for workload in table:
        by_metric = {each.metric: each for each in ratios.ratios(workload, results[workload.id])}
        row = [_name(workload)]
        for metric in _MAIN:
            for side in ("peer", "subject"):
                found = ratios.side_spread([each[side] for each in results[workload.id] if side in each], metric)
                row.append(number(found.median / metric.divisor) if found else "-")
            ratio = by_metric[metric]
            row.append(_ratio_cell(ratio) + (f" {_bound(ratio)}" if ratio.target else ""))
        rows.append(row)
    lines = [
        "# Beside the floor",
        "",
        "`bench/run-floor` writes this page; `bench/README.md` says how to repeat it.",
        "",
    ]
    lines += markdown_table(["", ""], facts)
    errors = _errors(table, results)
    if errors:
        lines += ["", "## Failed samples", "", *errors]
    lines += [
        "",
        "The floor (`bench/floor`) is the least that a server with a Python worker costs: the same sockets, HTTP/2 library, shared",
        "memory and wake-ups, and one copy of each tensor. It has no scheduler, checks, statistics, cancellation, limits or",
        "errors, and its model is a function of arrays instead of a `TritonPythonModel`. CPU/request counts the whole process",
        "tree. A ratio is Braid / floor within a round: median (smallest-largest).",
        "",
        *markdown_table(head, rows),
    ]
    return "\n".join(lines) + "\n"
