"""Compares Braid's graphs with MediaPipe's on random graphs, packets and faults (make test-mediapipe).

differential.py --mediapipe-python .venv-mediapipe/bin/python --replay build/src/graph/graph_replay --cases 2000
"""

import argparse
import gzip
import json
import pathlib
import sys
import time

from compare import Runner, agrees, describe, meaning, minimise, signature, waits_of
from generator import for_runners, generate

HERE = pathlib.Path(__file__).parent


class Sides:
    def __init__(self, arguments):
        self.real = Runner([arguments.mediapipe_python, str(HERE / "mediapipe_runner.py")])
        self.ours = [Runner([arguments.replay]), Runner([arguments.replay, "--threads"])]

    def real_answer(self, case):
        """Returns the framework's answer; None if it varies between runs, or cannot be compared."""
        answers = [self.real.ask(for_runners(case, num_threads=threads)) for threads in (1, 4, 2)]
        # A packet at PostStream after others is an error in the framework, but not in Braid.
        if answers[0] is None or answers[0]["end"]["kind"] == "not alone":
            return None
        waits = waits_of(case)
        stable = all(meaning(answer, waits) == meaning(answers[0], waits) for answer in answers)
        return answers[0] if stable else None

    def our_answers(self, case):
        return [runner.ask(for_runners(case)) for runner in self.ours]

    def difference(self, case, retries=0):
        """Returns a difference as (real answer, our answer), or None. "unstable": the framework's answers vary.
        "order": a flow limiter drops other packets when nodes run on threads instead of the caller's thread."""
        real = self.real_answer(case)
        if real is None:
            return "unstable"
        waits = waits_of(case)
        differing = [ours for ours in self.our_answers(case) if not agrees(real, ours, waits)]
        if not differing:
            return None
        # Further runs of the framework reveal its rare answers.
        if not all(self.real_answer(case) is not None for _ in range(retries)):
            return "unstable"
        limits = any(node["calculator"] == "FlowLimiterCalculator" for node in case["nodes"])
        return "order" if limits and len(differing) < len(self.ours) else (real, differing[0])

    def still_differs(self, found):
        def differs(case):
            again = self.difference(case, retries=1)
            return isinstance(again, tuple) and signature(again) == signature(found)

        return differs

    def close(self):
        for runner in [self.real, *self.ours]:
            runner.close()


def record(sides, path, seeds):
    """Writes cases with the framework's answers; tests/test_graph_recorded.py compares with them. Omits cases that
    Braid answers differently now, and lists them."""
    differing = []
    with gzip.GzipFile(path, "w", mtime=0) as file:
        for seed in seeds:
            case = generate(seed)
            answers = [sides.real_answer(case) for _ in range(3)]
            if any(answer is None for answer in answers):
                continue
            waits = waits_of(case)
            if not all(agrees(answers[0], ours, waits) for ours in sides.our_answers(case)):
                differing.append(seed)
                continue
            line = {"seed": seed, "case": for_runners(case), "answer": answers[0]}
            file.write((json.dumps(line, separators=(",", ":")) + "\n").encode())
    print(f"left out, since Braid differs: {differing}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mediapipe-python", required=True, help="a Python that has the mediapipe wheel")
    parser.add_argument("--replay", required=True, help="graph_replay")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--stop-after", type=int, default=3, help="differences")
    parser.add_argument("--record", metavar="FILE", help="write the cases with MediaPipe's answers instead")
    arguments = parser.parse_args()
    sides = Sides(arguments)
    seeds = range(arguments.seed, arguments.seed + arguments.cases)
    if arguments.record:
        record(sides, arguments.record, seeds)
        sides.close()
        return 0

    begun = time.monotonic()
    counts = {"agree": 0, "unstable": 0, "order": 0, "differ": 0}
    for number, seed in enumerate(seeds, start=1):
        case = generate(seed)
        found = sides.difference(case, retries=3)
        if found is None:
            counts["agree"] += 1
        elif isinstance(found, str):
            counts[found] += 1
        else:
            counts["differ"] += 1
            small = minimise(case, sides.still_differs(found))
            again = sides.difference(small)
            print("\n" + describe(small, *(again if isinstance(again, tuple) else found)), flush=True)
            if counts["differ"] >= arguments.stop_after:
                break
        if number % 100 == 0 or number == arguments.cases:
            seconds = time.monotonic() - begun
            print(f"{number} cases, {seconds:.0f} s: {counts}", flush=True)
    sides.close()
    print(
        f"{counts['agree']} agree, {counts['differ']} differ, {counts['unstable']} MediaPipe answers in several ways, "
        f"{counts['order']} depend on the order in which Braid's nodes run"
    )
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
