"""The requests, the page and the scaling of the bench's comparisons with other servers. Starts no server."""

import importlib.machinery
import importlib.util
import json
import pathlib
import sys

import numpy as np
import pytest

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))

from harness import comparison, others, stages  # noqa: E402
from harness.ratios import Sample  # noqa: E402

sys.path.append(str(others.APPS))
import functions  # noqa: E402


def script(name):
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(BENCH / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def sample(throughput, error=""):
    values = {"throughput": throughput, "p50_us": 10, "p99_us": 20, "cpu_us": 5, "pss_kb": 2048}
    return Sample(values, 1 if error else 0, error)


# --- requests


def test_a_pair_is_compared():
    request = others.plain("add_sub")
    pair = json.loads(request.body)
    total, difference = functions.add_sub(np.array(pair["a"]), np.array(pair["b"]))
    assert request.right(json.dumps({"sum": total.tolist(), "diff": difference.tolist()}))
    assert not request.right(json.dumps({"sum": total.tolist(), "diff": total.tolist()}))


def test_a_row_is_compared_with_the_network():
    request = others.v2("mlp")
    row = json.loads(request.body)["inputs"][0]["data"]
    answer = functions.Network()(np.array([row], np.float32))[0]
    assert np.ptp(answer) > 0.01, "an answer that differs from any constant"
    for values, right in ((answer, True), (answer + 0.01, False)):
        assert request.right(json.dumps({"outputs": [{"data": values.tolist()}]})) == right


def test_all_tokens_of_a_stream_are_needed():
    request = others.plain("tokens")
    tokens = list(functions.tokens())
    assert request.right("".join(tokens).encode())
    assert not request.right("".join(tokens[:-1]).encode())


def test_large_tensors_are_compared_byte_by_byte():
    request = others.v2("identity")
    head = int(dict(request.headers)["Inference-Header-Content-Length"])
    tensor = request.body[head:]
    assert len(tensor) == 1 << 20
    assert json.loads(request.body[:head])["inputs"][0]["parameters"]["binary_data_size"] == len(tensor)
    assert request.right(b"{}" + tensor)
    assert not request.right(b"{}" + tensor[:-1] + b"x")


@pytest.mark.parametrize("other", others.OTHERS, ids=lambda other: other.name)
def test_every_server_has_a_pinned_version_and_a_command_for_each_workload(other, tmp_path):
    assert all("==" in package for package in other.packages)
    side = others.OtherSide(other, tmp_path / "bin", str(tmp_path))
    for workload in others.WORKLOADS:
        (tmp_path / "repository" / workload.id).mkdir(parents=True)
        command = " ".join(side.command(tmp_path / "repository", 8000, 8001, 8002, "tag"))
        (tmp_path / "repository" / workload.id).rmdir()
        assert "8000" in command
        assert "{" not in command


def test_a_workload_that_a_server_cannot_do_is_left_out(tmp_path):
    sides = [
        others.OtherSide(other, tmp_path, str(tmp_path))
        for other in others.OTHERS
        if other.name in ("KServe", "FastAPI")
    ]

    def take(workload, side, _):
        return sample(1.0) if side.request(workload.id) else None

    results = comparison.run_rounds(others.WORKLOADS, sides, 1, None, take)
    assert set(results["add_sub"][0]) == {"FastAPI", "KServe"}
    assert set(results["tokens"][0]) == {"FastAPI"}


# --- pages


def test_the_page_has_ratios_within_rounds_and_failures():
    results = {
        "add_sub": [
            {"Braid": sample(200.0), "KServe": sample(100.0)},
            {"Braid": sample(900.0), "KServe": sample(300.0)},
            {"Braid": sample(100.0), "KServe": sample(1.0, "3 refused, 0 broken")},
        ],
        "tokens": [{"Braid": sample(5.0)}],
    }
    page = others.page(results, ["Braid", "KServe"], [("Date", "today")])
    (row,) = (line for line in page.splitlines() if line.startswith("| KServe |"))
    assert row.endswith("| 2.00 | 2.50 (2.00-3.00) |")
    assert "- add_sub, KServe: 3 refused, 0 broken" in page
    assert "In no figure of this page." in page
    assert "- **KServe**: " in page
    assert "- **LitServe**: " not in page


def test_the_page_says_where_another_server_is_better():
    small = Sample({"throughput": 150.0, "p50_us": 9, "p99_us": 30, "cpu_us": 5, "pss_kb": 1024})
    page = others.page({"mlp": [{"Braid": sample(100.0), "FastAPI": small}]}, ["Braid", "FastAPI"], [])
    (line,) = (line for line in page.splitlines() if line.startswith("- FastAPI, "))
    assert line.endswith(": throughput (150 /s beside 100), p50 (9.00 us beside 10.0), memory (1.00 MiB beside 2.00)")


def test_scaling_names_full_threads():
    scaling = script("run-scaling")
    before = {("brd-py", 1): stages.Use(cpu_us=0), ("brd-py", 2): stages.Use(cpu_us=0), ("idle", 3): stages.Use()}
    after = {
        ("brd-py", 1): stages.Use(cpu_us=2_000_000),
        ("brd-py", 2): stages.Use(cpu_us=1_000_000),
        ("idle", 3): stages.Use(cpu_us=100),
        ("new", 4): stages.Use(cpu_us=1_000_000),
    }
    rows = scaling._busy(before, after, 2.0)
    assert rows == [("brd-py", 2, 1.5, 1.0), ("new", 1, 0.5, 0.5)]
    assert scaling._threads(rows) == "brd-py 1.5 (2, busiest 1.0), new 0.5"


def test_scaling_sets_instances(tmp_path):
    scaling = script("run-scaling")
    for case in scaling.CASES:
        for model in case.workload.models:
            config = tmp_path / model / "config.pbtxt"
            config.parent.mkdir(exist_ok=True)
            config.write_text((BENCH / "models" / model / "config.pbtxt").read_text())
            scaling._instances(tmp_path, model, 8)
            assert "count: 8 }" in config.read_text()
