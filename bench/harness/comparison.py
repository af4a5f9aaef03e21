"""Rounds of workloads on two sides that take turns."""

import dataclasses
import json
import pathlib
import sys

from harness import measure, ratios, report


@dataclasses.dataclass(frozen=True)
class Settings:
    root: pathlib.Path
    models: pathlib.Path
    loadgen: pathlib.Path
    duration: float
    warmup: float


def _progress(workload, side, sample):
    if not sample.values:
        return f"{workload.id:4} {side:8} failed: {sample.error}"
    figures = [
        f"{metric.title} {report.number(sample.values[metric.key] / metric.divisor)} {metric.unit}"
        for metric in workload.metrics
    ]
    trouble = f"; {sample.errors} errors: {sample.error}" if sample.errors else ""
    return f"{workload.id:4} {side:8} " + ", ".join(figures) + trouble


def run_rounds(table, sides, rounds, settings, take=measure.measure):
    """Measures the workloads of `table`; returns {workload id: [{side: Sample}]}, with an entry for each round.

    `take` makes a sample, or returns None for a side that cannot do the workload.
    """
    results = {workload.id: [] for workload in table}
    by_name = {side.name: side for side in sides}
    for index in range(rounds):
        for workload in table:
            samples = {}
            for name in ratios.order(by_name, index):
                sample = take(workload, by_name[name], settings)
                if sample is None:
                    continue
                samples[name] = sample
                text = _progress(workload, name, sample)
                print(f"round {index + 1}/{rounds} {text}", file=sys.stderr, flush=True)
            results[workload.id].append(samples)
    return results


def failed(results):
    """Whether any sample had an error."""
    return any(not sample.usable for rounds in results.values() for sides in rounds for sample in sides.values())


def write_json(path, facts, results):
    samples = {
        key: [{side: dataclasses.asdict(sample) for side, sample in sides.items()} for sides in rounds]
        for key, rounds in results.items()
    }
    path.write_text(json.dumps({"facts": dict(facts), "results": samples}, indent=1) + "\n", encoding="utf-8")
