"""The examples of docs/graphs-calculators.md load, and work as the page says."""

import json
import re
import subprocess

import pytest
from harness.server import BINARY, ROOT

REPLAY = BINARY.parent / "src" / "graph" / "graph_replay"
PAGE = ROOT / "docs" / "graphs-calculators.md"

# By the first words of an example: side packets, steps, and the output as (time, value).
EXAMPLES = {
    "# What `wanted` allows": (
        {},
        [["add", "image", 1, {"int": 5}], ["add", "wanted", 1, {"bool": False}]]
        + [["add", "image", 2, {"int": 6}], ["add", "wanted", 2, {"bool": True}], ["add", "from_model", 2, {"int": 7}]],
        {"to_model": [(2, 6)], "past_model": [(1, 5)], "result": [(1, 5), (2, 7)]},
    ),
    "# A tracker gets": (
        {},
        [["add", "image", 1, {"int": 5}], ["add", "objects", 1, {"int": 6}]]
        + [["add", "image", 2, {"int": 7}], ["add", "objects", 2, {"int": 8}]],
        {"previous": [(2, 6)]},
    ),
    "# One picture at a time": (
        {},
        [["add", "image", at, {"int": at}] for at in (1, 2, 3)] + [["add", "result", 1, {"int": 0}]],
        {"admitted": [(1, 1), (3, 3)]},
    ),
    "# A number of the graph's own": (
        {"threshold": {"int": 3}},
        [["add", "image", 4, {"int": 5}]],
        {"limits": [(4, 10)], "thresholds": [(4, 3)]},
    ),
}


def blocks():
    return re.findall(r"^```proto\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


def streams(field, nodes):
    ports = re.findall(rf'^  {field}: "(.*)"$', "".join(nodes), flags=re.MULTILINE)
    return dict.fromkeys(port.rsplit(":", 1)[-1] for port in ports)


def test_all_examples_of_the_page_are_known():
    assert [[name for name in EXAMPLES if block.startswith(name)] for block in blocks()] == [
        [name] for name in EXAMPLES
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    assert REPLAY.exists(), f"{REPLAY} is not built (BRAID_TESTS)"
    side_packets, steps, expected = EXAMPLES[name]
    block = next(block for block in blocks() if block.startswith(name))
    nodes = re.findall(r"^node \{\n.*?^\}\n", block, flags=re.MULTILINE | re.DOTALL)
    # Packets of Python nodes come from outside here; streams without a producer are inputs.
    nodes = [node for node in nodes if "PythonExecutorCalculator" not in node]
    outputs = streams("output_stream", nodes)
    inputs = [stream for stream in streams("input_stream", nodes) if stream not in outputs]
    lines = [f'input_stream: "{stream}"\n' for stream in inputs] + [f'output_stream: "{name}"\n' for name in outputs]
    lines += re.findall(r"^input_side_packet.*\n", block, flags=re.MULTILINE)
    case = {
        "graph": "".join(lines + nodes),
        "outputs": list(outputs),
        "side_packets": side_packets,
        "steps": [part for step in steps for part in (step, ["idle"])],
    }
    done = subprocess.run([REPLAY], input=json.dumps(case) + "\n", capture_output=True, text=True, timeout=30)
    answer = json.loads(done.stdout)
    assert answer["end"] == {"kind": "ok"}, answer
    got = {
        output: [(at, next(iter(value.values()))) for at, value, _ in packets]
        for output, packets in answer["outputs"].items()
    }
    assert got == expected
