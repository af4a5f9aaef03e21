"""Graphs of the core calculators do what MediaPipe itself did with them.

tests/graph/recorded.jsonl.gz holds its answers to random cases (scripts/test-mediapipe --record); each runs here on the
caller's thread, and with every node on threads.
"""

import gzip
import json
import pathlib
import subprocess
import sys

import pytest
from harness.server import BINARY

FOLDER = pathlib.Path(__file__).parent / "graph"
sys.path.insert(0, str(FOLDER))

from compare import agrees, waits_of  # noqa: E402

REPLAY = BINARY.parent / "src" / "graph" / "graph_replay"


@pytest.fixture(scope="module")
def recorded():
    with gzip.open(FOLDER / "recorded.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("options", [[], ["--threads"]], ids=["callers_thread", "threads"])
def test_answers_are_those_of_mediapipe(recorded, options):
    assert len(recorded) > 200
    assert REPLAY.exists(), f"{REPLAY} is not built (BRAID_TESTS)"
    cases = "".join(json.dumps(line["case"]) + "\n" for line in recorded)
    done = subprocess.run([REPLAY, *options], input=cases, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(recorded)
    for line, answer in zip(recorded, answers, strict=True):
        waits = waits_of(line["case"])
        assert agrees(line["answer"], answer, waits), f"seed {line['seed']}: {line['case']}"
