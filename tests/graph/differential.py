"""Compares Braid's graphs with MediaPipe's on random graphs, packets and faults (make test-mediapipe).

differential.py --mediapipe-python .venv-mediapipe/bin/python --replay build/src/graph/graph_replay --cases 2000
"""

import argparse
import gzip
import json
import pathlib
import sys
import time

from compare import Runner, describe, meaning, minimise, waits_of
from generator import for_runners, generate

HERE = pathlib.Path(__file__).parent


class Sides:
    def __init__(self, arguments):
        self.real = Runner([arguments.mediapipe_python, str(HERE / "mediapipe_runner.py")])
        self.ours = [Runner([arguments.replay]), Runner([arguments.replay, "--threads"])]

    def real_answer(self, case):
        """The framework's answer; None when it differs from one time to the next."""
        answers = [self.real.ask(for_runners(case, num_threads=threads)) for threads in (1, 4, 2)]
        if answers[0] is None:
            return None
        waits = waits_of(case)
        stable = all(meaning(answer, waits) == meaning(answers[0], waits) for answer in answers)
        return answers[0] if stable else None

    def our_answers(self, case):
        return [runner.ask(for_runners(case)) for runner in self.ours]

    def difference(self, case, retries=0):
        """What differs, as (real answer, our answer); None when nothing does, "unstable" when nobody can say."""
        real = self.real_answer(case)
        if real is None:
            return "unstable"
        waits = waits_of(case)
        for ours in self.our_answers(case):
            if meaning(ours, waits) != meaning(real, waits):
                # What is rare in the framework shows itself when it is asked again.
                if all(self.real_answer(case) is not None for _ in range(retries)):
                    return real, ours
                return "unstable"
        return None

    def close(self):
        for runner in [self.real, *self.ours]:
            runner.close()


def record(sides, path, seeds):
    """Writes cases with the framework's answers; tests/test_graph_recorded.py compares with them."""
    with gzip.GzipFile(path, "w", mtime=0) as file:
        for seed in seeds:
            case = generate(seed)
            answers = [sides.real_answer(case) for _ in range(3)]
            if any(answer is None for answer in answers):
                continue
            line = {"seed": seed, "case": for_runners(case), "answer": answers[0]}
            file.write((json.dumps(line, separators=(",", ":")) + "\n").encode())


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
    counts = {"agree": 0, "unstable": 0, "differ": 0}
    for number, seed in enumerate(seeds, start=1):
        case = generate(seed)
        found = sides.difference(case, retries=3)
        if found is None:
            counts["agree"] += 1
        elif found == "unstable":
            counts["unstable"] += 1
        else:
            counts["differ"] += 1
            small = minimise(case, lambda attempt: isinstance(sides.difference(attempt, retries=1), tuple))
            print("\n" + describe(small, *(sides.difference(small) or found)), flush=True)
            if counts["differ"] >= arguments.stop_after:
                break
        if number % 100 == 0 or number == arguments.cases:
            seconds = time.monotonic() - begun
            print(f"{number} cases, {seconds:.0f} s: {counts}", flush=True)
    sides.close()
    print(f"{counts['agree']} agree, {counts['differ']} differ, {counts['unstable']} MediaPipe answers in several ways")
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
