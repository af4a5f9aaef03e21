"""Latency under an open load: the rates, the meaning of samples, and the page. Pure functions.

A *report* is the JSON object of the load generator. A round is {side: {"capacity": N, key: report}}. N is requests per
second, or None if that could not be measured. A key is (side, share) or CLOSED: the rate is a share of that side's capacity.
"""

import statistics

SIDES = {"peer": "peer", "subject": "Braid", "floor": "floor"}
SHARES = (0.3, 0.6, 0.8, 0.95)
PROTOCOLS = {"grpc": "gRPC", "http": "HTTP, binary"}
QUANTILES = {"p50": "p50", "p99": "p99", "p99_9": "p99.9"}
# The side whose capacity a rate is a share of.
OWN = "own"
PEERS = "the peer's"
# The closed load that measures a server's capacity first, with a fixed number of requests in flight.
CLOSED = "closed"
# The columns of the page.
COLUMNS = {
    ("peer", OWN): "peer",
    ("subject", PEERS): "Braid, at the peer's rate",
    ("subject", OWN): "Braid, at that share of its own",
    ("floor", OWN): "floor, at that share of its own",
}


def rates(whose, capacity):
    """Returns {key: requests per second}, without rates of an unknown capacity."""
    return {(whose, share): share * capacity for share in SHARES} if capacity else {}


def failed_report(text):
    """Returns the report for a sample without one."""
    return {"requests": 0, "errors": 1, "unanswered": 0, "rate_held": True, "first_error": text}


def usable(report):
    """Whether the report's latencies count. An unanswered request does not change those of the others."""
    return report["requests"] > 0 and report["errors"] == report["unanswered"]


def figures(report):
    """Returns quantiles in microseconds."""
    return ", ".join(f"{title} {report['latency_us'][key]:.0f} us" for key, title in QUANTILES.items())


def cell(rounds, side, key):
    """Returns quantiles in microseconds (medians over the rounds that have them), and counts of rates not held and requests unanswered."""
    reports = [found[side][key] for found in rounds if key in found.get(side, {})]
    good = [report for report in reports if usable(report)]
    text = "-"
    if good:
        text = " / ".join(
            f"{statistics.median(report['latency_us'][quantile] for report in good):.0f}" for quantile in QUANTILES
        )
    counts = {
        # Far above a server's capacity, possibly no request of the window was sent; then there are no figures.
        "not held": sum(1 for report in reports if not report["rate_held"]),
        "left a request unanswered": sum(1 for report in reports if report["unanswered"]),
        "failed": sum(1 for report in reports if report["errors"] > report["unanswered"]),
    }
    notes = [f"{count} of {len(reports)} {what}" for what, count in counts.items() if count]
    return text + (f" ({', '.join(notes)})" if notes else "")


def capacity(rounds, side):
    """Returns requests per second with a fixed number in flight, as median over rounds; None if no round has it."""
    found = [each[side]["capacity"] for each in rounds if each.get(side, {}).get("capacity")]
    return statistics.median(found) if found else None


def capacity_line(rounds):
    peer, subject = capacity(rounds, "peer"), capacity(rounds, "subject")
    ratios = [
        each["subject"]["capacity"] / each["peer"]["capacity"]
        for each in rounds
        if each["subject"]["capacity"] and each["peer"]["capacity"]
    ]
    capacities = {"peer": peer, "subject": subject, "floor": capacity(rounds, "floor")}
    said = [
        f"{SIDES[side]} {value:.0f}/s" if value else f"{SIDES[side]} -"
        for side, value in capacities.items()
        if any(side in each for each in rounds)
    ]
    times = f" ({statistics.median(ratios):.1f} times)" if ratios else ""
    return f"16 in flight: {', '.join(said)}{times}."


def columns(rounds):
    """Returns the columns of the sides that were measured, with their titles."""
    return {column: title for column, title in COLUMNS.items() if any(column[0] in each for each in rounds)}


def troubles(results):
    """Returns lines about samples without figures and about unanswered requests. `results`: {protocol: rounds}."""
    lines = []
    for protocol, rounds in results.items():
        for index, found in enumerate(rounds):
            for side, samples in found.items():
                for key, report in samples.items():
                    if key == "capacity" or not report["errors"]:
                        continue
                    what = "16 in flight" if key == CLOSED else f"{key[1]:.0%} of {key[0]}"
                    lines.append(
                        f"- {PROTOCOLS[protocol]}, round {index + 1}, {SIDES[side]}, {what}: {report['errors']} errors, of "
                        f"which {report['unanswered']} were left unanswered. {report['first_error']}"
                    )
    return lines


def failed(results):
    """Whether the run failed: the subject had an error in any sample, or a cell of the page is empty."""
    for rounds in results.values():
        for found in rounds:
            if any(report["errors"] for key, report in found["subject"].items() if key != "capacity"):
                return True
        for side, whose in columns(rounds):
            for share in SHARES:
                reports = [found[side][whose, share] for found in rounds if (whose, share) in found[side]]
                if not any(usable(report) or not report["rate_held"] for report in reports):
                    return True
    return False


def page(results, facts):
    lines = [
        "# Latency under open load",
        "",
        "`bench/run-latency` writes this page; [performance.md](performance.md) says how to read it.",
        "",
    ]
    lines += [f"- {name}: {text}" for name, text in facts]
    lines += [
        "",
        "Microseconds, p50 / p99 / p99.9, of the answered requests. A rate is *not held* if requests are unsent at the end",
        "that were due more than 100 ms before it.",
    ]
    for protocol, rounds in results.items():
        lines += ["", f"## {PROTOCOLS[protocol]}", "", capacity_line(rounds), ""]
        shown = columns(rounds)
        lines += ["| load | " + " | ".join(shown.values()) + " |", "|" + " --- |" * (len(shown) + 1)]
        lines += [
            f"| {share:.0%} | " + " | ".join(cell(rounds, side, (whose, share)) for side, whose in shown) + " |"
            for share in SHARES
        ]
    if wrong := troubles(results):
        lines += ["", "## Failed samples", "", *wrong]
    return "\n".join(lines) + "\n"
