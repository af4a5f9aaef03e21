"""Ratios and verdicts of measured rounds. Pure functions: no clock, no process, no file."""

import dataclasses
import statistics

MET = "met"
MISSED = "missed"
FAILED = "failed"
NO_TARGET = ""


@dataclasses.dataclass(frozen=True)
class Sample:
    """One side of one round: its figures by metric key, and its error."""

    values: dict
    errors: int = 0
    error: str = ""

    @property
    def usable(self):
        return self.errors == 0 and bool(self.values)


@dataclasses.dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Subject / peer of one metric. Without a round that has both sides, `spread` is None."""

    metric: object
    spread: Spread | None
    target: float | None
    verdict: str


def spread(values):
    """Returns median, smallest and largest; None for no values."""
    return Spread(statistics.median(values), min(values), max(values)) if values else None


def side_spread(samples, metric):
    return spread([each.values[metric.key] for each in samples if each.usable and metric.key in each.values])


def round_ratios(rounds, metric):
    """Returns subject / peer of each round in which both sides have the figure. `rounds` has {side: Sample} per round."""
    ratios = []
    for sides in rounds:
        subject, peer = sides.get("subject"), sides.get("peer")
        if not (subject and peer and subject.usable and peer.usable):
            continue
        if subject.values.get(metric.key) is None or not peer.values.get(metric.key):
            continue
        ratios.append(subject.values[metric.key] / peer.values[metric.key])
    return ratios


def verdict(metric, ratio, target):
    """Whether the median of the rounds keeps the target."""
    if target is None:
        return NO_TARGET
    if ratio is None:
        return MISSED
    kept = ratio.median >= target if metric.higher_is_better else ratio.median <= target
    return MET if kept else MISSED


def ratios(workload, rounds):
    """Returns a Ratio for each metric of the workload, in its order."""
    targets = dict(workload.targets)
    result = []
    for metric in workload.metrics:
        ratio = spread(round_ratios(rounds, metric))
        target = targets.get(metric.key)
        result.append(Ratio(metric, ratio, target, verdict(metric, ratio, target)))
    return result


def overall(workload, rounds):
    """Returns one word for a workload: failed if any request of any round failed, else whether all targets are met."""
    if any(not sample.usable for sides in rounds for sample in sides.values()):
        return FAILED
    verdicts = {each.verdict for each in ratios(workload, rounds)} - {NO_TARGET}
    if not verdicts:
        return NO_TARGET
    return MISSED if MISSED in verdicts else MET


def order(sides, round_index):
    """Returns A B in one round and B A in the next, so that a drift of the machine favours neither side."""
    return list(sides) if round_index % 2 == 0 else list(reversed(sides))
