"""Cost as a function of work: the curves, their samples, tables and plots. Pure functions."""

import dataclasses
import re

from harness import plot, ratios
from harness.ratios import Sample
from harness.report import number
from harness.workloads import CPU, P50, P99, Metric

MIB = 1 << 20
SIDES = {"peer": "Triton", "subject": "Braid"}
PROTOCOLS = {"grpc": "gRPC", "http": "HTTP"}
# The number of connections with a request in flight, on curves with many connections.
ACTIVE = 16
# Fewer idle connections do not show in a server's memory.
FEWEST_FOR_MEMORY = 500
# A limit that no server may set lower by default.
LARGEST_BODY = 1 << 30
MEMORY = 8 << 30

RATE = Metric("throughput", "requests", higher_is_better=True, unit="/s")
PER_CONNECTION = Metric("pss_kb_per_connection", "PSS an idle connection", unit="KiB")
READY = Metric("ready_s", "ready", unit="s")
PER_MODEL = Metric("pss_kb_per_model", "PSS a model", divisor=1024, unit="MiB")
RATE_ONE = Metric("throughput_one", "requests to one", higher_is_better=True, unit="/s")
CPU_ONE = Metric("cpu_us_one", "CPU/request to one", unit="us")
RATE_ALL = Metric("throughput_all", "requests to all in turn", higher_is_better=True, unit="/s")
CPU_ALL = Metric("cpu_us_all", "CPU/request to all in turn", unit="us")
BYTES_RATE = Metric("mib_per_s", "throughput", higher_is_better=True, unit="MiB/s")
CPU_PER_MIB = Metric("cpu_us_per_mib", "CPU/MiB", unit="us")
PEAK = Metric("peak_pss_kb", "peak PSS", divisor=1024, unit="MiB")


@dataclasses.dataclass(frozen=True)
class Point:
    value: int  # connections, models or bytes
    label: str
    tick: str = ""  # the label on the axis of a plot, if `label` is too long for it
    most_rounds: int = 0  # 0: all
    stretch: float = 1.0  # a factor for the duration


@dataclasses.dataclass(frozen=True)
class Curve:
    id: str
    kind: str  # "connections", "models" or "sizes"
    protocol: str  # "grpc" or "http"
    title: str
    x_title: str
    points: tuple
    metrics: tuple


_CONNECTIONS = tuple(Point(count, f"{count:,}") for count in (1, 10, 100, 1_000, 10_000))
# The peer takes minutes to start 300 interpreters.
_MODELS = (Point(1, "1"), Point(10, "10"), Point(100, "100"), Point(300, "300", most_rounds=1))
_SIZES = (
    Point(1 << 10, "1 KiB", "1K"),
    Point(16 << 10, "16 KiB", "16K"),
    Point(256 << 10, "256 KiB", "256K"),
    Point(1 << 20, "1 MiB", "1M"),
    Point(16 << 20, "16 MiB", "16M"),
    Point(64 << 20, "64 MiB", "64M", stretch=1.5),
    Point(256 << 20, "256 MiB", "256M", stretch=3),
)
CURVES = (
    *(
        Curve(f"connections-{protocol}", "connections", protocol, title, "open connections", _CONNECTIONS,
              (RATE, P50, P99, CPU, PER_CONNECTION))
        for protocol, title in PROTOCOLS.items()
    ),
    Curve("models", "models", "grpc", "gRPC, 16 in flight", "models", _MODELS,
          (READY, PER_MODEL, RATE_ONE, CPU_ONE, RATE_ALL, CPU_ALL)),
    *(
        Curve(f"sizes-{protocol}", "sizes", protocol, f"{title}, c=1", "bytes", _SIZES, (BYTES_RATE, CPU_PER_MIB, PEAK))
        for protocol, title in PROTOCOLS.items()
    ),
)  # fmt: skip

HEADINGS = {
    "connections": (
        "Connections",
        f"{ACTIVE} of the open connections (or all, if fewer are open) always have a request of 16 bytes to a Python model",
        "in flight. Each of the others asks once and stays open. A connection's memory is the growth of the server's PSS",
        "over the idle ones, without the kernel's buffers.",
    ),
    "models": (
        "Models",
        "Copies of one small Python model have one instance each. The time *ready* goes from the server's start until the",
        "last model is ready. The *PSS a model* is the server's memory at rest, divided by the number of models.",
    ),
    "sizes": (
        "Sizes",
        "A Python model sends a tensor back, one request after the other. A size is that of one direction. The servers'",
        "limits on message size are raised.",
    ),
}
# For each kind: (suffix of the file's name, title, lines). A line: (metric, its name in the legend, whether dashed).
PLOTS = {
    "connections": (
        ("rate", "Requests a second", ((RATE, "", False),)),
        ("cpu", "Server CPU a request, us", ((CPU, "", False),)),
    ),
    "models": (
        ("ready", "Start until all models are ready, s", ((READY, "", False),)),
        ("memory", "PSS a model, MiB", ((PER_MODEL, "", False),)),
        ("rate", "Requests a second", ((RATE_ONE, "to one", False), (RATE_ALL, "in turn", True))),
    ),
    "sizes": (
        ("rate", "MiB a second", ((BYTES_RATE, "", False),)),
        ("cpu", "Server CPU a MiB, us", ((CPU_PER_MIB, "", False),)),
    ),
}


def select(names):
    """Returns the curves of a comma-separated list of ids and kinds; all for an empty list. Raises ValueError."""
    wanted = {each.strip() for each in names.split(",") if each.strip()}
    if unknown := wanted - {name for curve in CURVES for name in (curve.id, curve.kind)}:
        raise ValueError(f"there is no curve {', '.join(sorted(unknown))}")
    return [curve for curve in CURVES if not wanted or {curve.id, curve.kind} & wanted]


# ---- samples


def connections_sample(sample, idle, pss_before_kb, pss_kb, closed):
    """Adds the memory of `idle` connections to `sample`; the server has closed `closed` of them."""
    values = dict(sample.values)
    if idle >= FEWEST_FOR_MEMORY:
        values[PER_CONNECTION.key] = (pss_kb - pss_before_kb) / idle
    if closed and not sample.errors:
        return Sample(values, closed, f"{closed} of {idle} idle connections were closed")
    return dataclasses.replace(sample, values=values)


def models_sample(count, ready_s, pss_kb, one, all_in_turn):
    """Combines `one` and `all_in_turn`, the samples of the load on one model and on all of them."""
    values = {READY.key: ready_s, PER_MODEL.key: pss_kb / count}
    for end, load in (("one", one), ("all", all_in_turn)):
        if not load.usable:
            return Sample(values, load.errors, load.error)
        values |= {f"{key}_{end}": load.values[key] for key in ("throughput", "cpu_us")}
    return Sample(values)


def sizes_sample(report, size, peak_pss_kb):
    """Makes a sample of the load generator's `report`. Requests count by their share within the window, because few large ones fit."""
    if report["errors"]:
        return Sample({}, report["errors"], report["first_error"])
    if not report["requests_in_parts"]:
        return Sample({}, 1, "no request was answered within the time")
    mib = report["requests_in_parts"] * size / MIB
    return Sample({
        BYTES_RATE.key: mib / report["seconds"],
        CPU_PER_MIB.key: report["server_cpu_cores"] * report["seconds"] * 1e6 / mib,
        PEAK.key: max(peak_pss_kb, report["peak_pss_kb"]),
    })  # fmt: skip


def word(error):
    """Returns a table's word for a failed sample: whether the server refused, or an error occurred."""
    return "refused" if re.match(r"HTTP 4\d\d|gRPC [38]:", error) else "failed"


# ---- the page


def _ratio(metric, rounds):
    spread = ratios.spread(ratios.round_ratios(rounds, metric))
    if spread is None:
        return "-"
    median = number(spread.median)
    return f"{median} ({number(spread.low)}-{number(spread.high)})" if len(rounds) > 1 else median


def _median(metric, rounds, side):
    spread = ratios.side_spread([each[side] for each in rounds if side in each], metric)
    return None if spread is None else spread.median / metric.divisor


def table(curve, points):
    """Returns lines of Markdown. `points`: {value: [{side: Sample}, by round], or the reason for none}."""
    lines = [
        f"| {curve.x_title} | | " + " | ".join(f"{metric.title}, {metric.unit}" for metric in curve.metrics) + " |",
        "| --- | --- |" + " --- |" * len(curve.metrics),
    ]
    for point in curve.points:
        rounds = points.get(point.value)
        if isinstance(rounds, str):
            lines.append(f"| {point.label} | {rounds} |" + " |" * len(curve.metrics))
            continue
        if not rounds:
            continue
        label = point.label
        for side, name in SIDES.items():
            samples = [each[side] for each in rounds if side in each]
            bad = [sample for sample in samples if not sample.usable]
            if len(bad) == len(samples):
                cells = [word(bad[0].error) if bad else "-", *[""] * (len(curve.metrics) - 1)]
            else:
                medians = [_median(metric, rounds, side) for metric in curve.metrics]
                cells = ["-" if value is None else number(value) for value in medians]
            lines.append(f"| {label} | {name} | " + " | ".join(cells) + " |")
            label = ""
        lines.append("| | ratio | " + " | ".join(_ratio(metric, rounds) for metric in curve.metrics) + " |")
    return lines


def plots(curves, results):
    """Returns {file name: SVG} for curves of one kind. `results`: {curve id: points as in table()}."""
    kind = curves[0].kind
    found = {}
    for end, title, shown in PLOTS[kind]:
        lines = []
        for side, name in SIDES.items():
            for index, curve in enumerate(curves):
                for metric, what, dashed in shown:
                    values = [
                        (point.value, _median(metric, rounds, side))
                        for point in curve.points
                        if isinstance(rounds := results[curve.id].get(point.value, ""), list)
                    ]
                    legend = f"{name} {what or (PROTOCOLS[curve.protocol] if len(curves) > 1 else '')}".strip()
                    known = tuple((x, y) for x, y in values if y is not None and y > 0)
                    lines.append(plot.Line(legend, known, side, dashed or index > 0))
        labels = {point.value: point.tick or point.label for point in curves[0].points}
        if drawn := plot.line_plot(title, curves[0].x_title, lines, labels):
            found[f"curves-{kind}-{end}.svg"] = drawn
    return found


def _troubles(curve, points):
    return [
        f"- {curve.title}, {point.label}, round {index + 1}, {SIDES[side]}: {sample.error}"
        for point in curve.points
        if isinstance(points.get(point.value), list)
        for index, sides in enumerate(points[point.value])
        for side, sample in sides.items()
        if not sample.usable
    ]


def document(results, facts, images="images"):
    """Returns (the page, {file name: SVG}). `results` is as in plots(); `images` is the folder of the SVGs."""
    lines = ["# How cost grows with work", ""]
    lines += ["`bench/run-curves` writes this page; [performance.md](performance.md) says how to read it.", ""]
    lines += ["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in facts), ""]
    lines += [
        "Braid and Triton run in turns, with a fresh server for each sample. Figures are medians over rounds. A ratio is",
        "Braid / Triton within a round: median (smallest-largest). Above 1 is better for requests and MiB a second,",
        "below 1 for everything else.",
    ]
    files = {}
    for kind, (heading, *text) in HEADINGS.items():
        curves = [curve for curve in CURVES if curve.kind == kind and results.get(curve.id)]
        if not curves:
            continue
        lines += ["", f"## {heading}", "", *text]
        once = [
            point.label for point in curves[0].points if point.most_rounds == 1 and point.value in results[curves[0].id]
        ]
        if once:
            lines += ["", f"One round only, since it takes long: {', '.join(once)} {curves[0].x_title}."]
        drawn = plots(curves, results)
        files |= drawn
        titles = {f"curves-{kind}-{end}.svg": title for end, title, _ in PLOTS[kind]}
        lines += [""] if drawn else []
        lines += [f"![{titles[name]}, by {curves[0].x_title}]({images}/{name})" for name in drawn]
        for curve in curves:
            lines += ["", f"### {heading}, {curve.title}", "", *table(curve, results[curve.id])]
            if wrong := _troubles(curve, results[curve.id]):
                lines += ["", "Without a figure:", "", *wrong]
    return "\n".join(lines) + "\n", files


def failed(results):
    """Whether the subject failed in any sample, or a side has no figure for a whole curve."""
    for points in results.values():
        samples = [sides for rounds in points.values() if isinstance(rounds, list) for sides in rounds]
        if any("subject" in sides and not sides["subject"].usable for sides in samples):
            return True
        for side in SIDES:
            of_side = [sides[side] for sides in samples if side in sides]
            if of_side and not any(sample.usable for sample in of_side):
                return True
    return False
