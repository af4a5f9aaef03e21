"""Graphs of the core calculators produce the same results as MediaPipe.

tests/graph/recorded.jsonl.gz has MediaPipe's answers to random cases (scripts/test-mediapipe --record). Each case runs
here on the caller's thread, and with every node on threads.
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

DEPEND_ON_SPEED = ("FixedSizeInputStreamHandler", "PacketPresenceCalculator")
REPLAY = BINARY.parent / "src" / "graph" / "graph_replay"


@pytest.fixture(scope="module")
def recorded():
    with gzip.open(FOLDER / "recorded.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def play(lines, options):
    """Returns the answers to the cases of recorded lines, in order."""
    cases = "".join(json.dumps(line["case"]) + "\n" for line in lines)
    done = subprocess.run([REPLAY, *options], input=cases, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    return answers


def differing(lines, options):
    """Returns the lines whose cases are answered differently now."""
    played = zip(lines, play(lines, options), strict=True)
    return [line for line, answer in played if not agrees(line["answer"], answer, waits_of(line["case"]))]


@pytest.mark.parametrize("options", [[], ["--threads"]], ids=["callers_thread", "threads"])
def test_answers_are_those_of_mediapipe(recorded, options):
    assert len(recorded) > 200
    assert REPLAY.exists(), f"{REPLAY} is not built (BRAID_TESTS)"
    different = differing(recorded, options)
    # With threads, the recorded answer of some cases is one of several. The speed of a node decides which simultaneous
    # packets a FixedSizeInputStreamHandler drops. It also decides which times are seen by a node that is called for
    # times without packets.
    for _ in range(50 if options else 0):
        retried = [line for line in different if any(name in line["case"]["graph"] for name in DEPEND_ON_SPEED)]
        if not retried:
            break
        still = differing(retried, options)
        different = [line for line in different if line not in retried or line in still]
    assert not different, "\n".join(f"seed {line['seed']}: {line['case']}" for line in different)
