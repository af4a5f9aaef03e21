"""`braid bench` against a real server: its figures match the server's counts, and it detects faults."""

import csv
import json
import re
import signal
import subprocess

import pytest
from harness import graphs
from harness.chat_models import add_chat
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.server import BINARY
from harness.waiting import wait_until

# Refuses a step that does not follow the previous one of its sequence. A sequence has 3 to 5 steps, or those of the
# data.
STEPS = per_request(
    """
    start, end, ready, sequence, value = (get(request, name).reshape(-1)[0] for name in ("START", "END", "READY", "ID", "IN"))
    self.seen = getattr(self, "seen", {})
    if bool(start) == (sequence in self.seen):
        raise pb_utils.TritonModelException(f"sequence {sequence}: a start of {start} at step {self.seen.get(sequence, 0)}")
    self.seen[sequence] = self.seen.get(sequence, 0) + 1
    step = self.seen[sequence]
    if end:
        del self.seen[sequence]
    return respond(OUT=np.array([[step]], dtype=np.int32))
    """
)
CONTROLS = """
sequence_batching {
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "END" control [ { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } ] },
    { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } ] },
    { name: "ID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] }
  ]
}
"""
REPEAT = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(4):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([number], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    module_repository.add_identity("echo", "INT32", dims=(4,), max_batch_size=8)
    add_chat(module_repository)
    module_repository.add_identity("large", "FP32", dims=(-1,))
    module_repository.add_identity("a b%", "INT32", dims=(4,))
    module_repository.add(
        "steps",
        STEPS,
        config("steps", [("IN", "INT32", [1])], [("OUT", "INT32", [1])], max_batch_size=1, extra=CONTROLS),
    )
    module_repository.add(
        "repeat",
        REPEAT,
        config("repeat", [("IN", "INT32", [1])], [("OUT", "INT32", [1])])
        + "model_transaction_policy { decoupled: true }",
    )
    return module_serve(module_repository)


def bench(server, protocol, *arguments, timeout=60):
    address = getattr(server, "grpc" if protocol == "grpc" else "http") if server else "127.0.0.1:9"
    return subprocess.run(
        [BINARY, "bench", "-u", address, "-i", protocol, *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        check=False,
    )


def measurements(done, exit_code=0):
    assert done.returncode == exit_code, done.stderr + done.stdout
    return json.loads(done.stdout)["measurements"]


def counted(server, model):
    statistics = server.json("GET", f"/v2/models/{model}/stats")[1]["model_stats"][0]
    return statistics["inference_stats"]["success"]["count"], statistics["inference_count"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_counts_are_the_servers(server, protocol):
    before = counted(server, "echo")
    levels = measurements(
        bench(
            server,
            protocol,
            "-m",
            "echo",
            "-b",
            2,
            "--concurrency-range",
            "1:5:4",
            "--request-count",
            120,
            "--format",
            "json",
        )
    )
    after = counted(server, "echo")
    assert [level["concurrency"] for level in levels] == [1, 5]
    assert [level["requests"] for level in levels] == [120, 120]
    assert [level["server"]["requests"] for level in levels] == [120, 120]
    assert [level["server"]["inferences"] for level in levels] == [240, 240]
    assert (after[0] - before[0], after[1] - before[1]) == (240, 480)
    for level in levels:
        latency = level["latency_us"]
        assert (
            0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p95"] <= latency["p99"] <= latency["max"]
        )
        assert level["inferences_per_s"] == pytest.approx(2 * level["requests_per_s"])
        assert level["errors"] == {}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_an_open_dimension_is_one(server, protocol):
    done = bench(server, protocol, "-m", "large", "--request-count", 10, "--format", "json")
    (level,) = measurements(done)
    assert level["errors"] == {}
    assert done.stderr.count("braid bench: IN has the shape [-1]: using [1]; change it with --shape IN:...\n") == 1


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_graph_is_asked_with_a_datatype_of_ones_own(tmp_path, protocol):
    source = """
        from pyovms import Tensor

        class OvmsPythonModel:
            def execute(self, inputs):
                return [Tensor("out", inputs[0].data, inputs[0].shape, inputs[0].datatype)]
    """
    (tmp_path / "data.json").write_text(
        json.dumps({"data": [{"in": [1, 2]}], "validation_data": [{"out": [1, 2]}]}), encoding="utf-8"
    )
    with OvmsServer(graphs.config(graphs.single(tmp_path, "same", source)), workdir=tmp_path) as server:
        options = ("-m", "same", "--request-count", 10, "--format", "json")
        (level,) = measurements(bench(server, protocol, *options, "--datatype", "in:FP32"))
        assert level["errors"] == {}
        (level,) = measurements(bench(server, protocol, *options, "--input-data", tmp_path / "data.json", "--validate"))
        assert level["errors"] == {}
        refused = bench(server, protocol, *options)
        assert refused.returncode == 2
        assert "--datatype in:FP32" in refused.stderr


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_large_tensors_in_shared_memory_and_without(server, protocol):
    for memory in ("none", "system"):
        (level,) = measurements(
            bench(
                server,
                protocol,
                "-m",
                "large",
                "--shape",
                "IN:300000",
                "--request-count",
                20,
                "--concurrency-range",
                3,
                "--shared-memory",
                memory,
                "--output-shared-memory-size",
                1200000,
                "--format",
                "json",
            )  # fmt: skip
        )
        assert level["requests"] == level["server"]["requests"] == 20
        assert (level["megabytes_sent_per_s"] * level["seconds"] > 20) == (memory == "none")
    assert server.json("GET", "/v2/systemsharedmemory/status")[1] == []


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_model_may_have_any_name(server, protocol):
    (level,) = measurements(bench(server, protocol, "-m", "a b%", "--request-count", 3, "--format", "json"))
    assert level["errors"] == {}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_rate_is_held(server, protocol):
    (level,) = measurements(
        bench(
            server,
            protocol,
            "-m",
            "echo",
            "--request-rate-range",
            50,
            "--request-distribution",
            "poisson",
            "-p",
            600,
            "-r",
            1,
            "--format",
            "json",
        )  # fmt: skip
    )
    assert level["rate"] == 50
    assert 8 <= level["requests"] <= 70


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("memory", ["none", "system"])
def test_wrong_answers_are_found(server, tmp_path, protocol, memory):
    steps = [{"IN": [1, 2, 3, 4]}, {"IN": {"content": [5, 6, 7, 8]}}]
    data = {"data": steps, "validation_data": [{"OUT": list(step.values())[0]} for step in steps]}
    file = tmp_path / "data.json"
    arguments = ["-m", "echo", "--input-data", file, "--validate", "--request-count", 10, "--shared-memory", memory]
    file.write_text(json.dumps(data))
    assert measurements(bench(server, protocol, *arguments, "--format", "json"))[0]["requests"] == 10
    data["validation_data"][1] = {"OUT": [5, 6, 99, 8]}
    file.write_text(json.dumps(data))
    done = bench(server, protocol, *arguments)
    assert done.returncode == 1
    assert "5 x validation: output OUT: element 2 is 7, expected 99" in done.stdout


@pytest.mark.parametrize(("protocol", "more"), [("http", []), ("grpc", []), ("grpc", ["--streaming"])])
def test_sequences_have_their_steps(server, protocol, more):
    before = counted(server, "steps")[0]
    (level,) = measurements(
        bench(
            server,
            protocol,
            "-m",
            "steps",
            "--sequence-length",
            4,
            "--sequence-length-variation",
            25,
            "--concurrency-range",
            3,
            "--request-count",
            60,
            "--format",
            "json",
            "--sequence-id-range",
            "1000:1006",
            *more,
        )  # fmt: skip
    )
    assert level["errors"] == {}
    # Open sequences are ended: one more request for each.
    assert 60 <= level["requests"] <= 63
    assert counted(server, "steps")[0] - before == level["requests"]


def test_sequences_of_a_data_file_are_its_streams(server, tmp_path):
    streams = [[{"IN": [0]}] * 3, [{"IN": [0]}] * 5]
    expected = [[{"OUT": [step + 1]} for step in range(len(stream))] for stream in streams]
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"data": streams, "validation_data": expected}))
    (level,) = measurements(
        bench(
            server,
            "http",
            "-m",
            "steps",
            "--input-data",
            file,
            "--validate",
            "--request-count",
            16,
            "--format",
            "json",
            "--start-sequence-id",
            5000,
        )  # fmt: skip
    )
    assert level["errors"] == {}
    assert level["requests"] == 16


def test_streams_count_responses(server):
    done = bench(
        server, "grpc", "-m", "repeat", "--streaming", "--concurrency-range", 3, "--request-count", 30, "--format", "json"
    )  # fmt: skip
    (level,) = measurements(done)
    assert level["requests"] == 30
    assert level["responses_per_s"] == pytest.approx(4 * level["requests_per_s"])
    assert 0 < level["first_response_us"]["p50"] <= level["latency_us"]["p50"]
    assert level["between_responses_us"]["mean"] > 0


def test_decoupled_models_want_streams(server):
    done = bench(server, "http", "-m", "repeat")
    assert done.returncode == 2
    assert "add -i grpc --streaming" in done.stderr


def test_chat_completions_are_measured_by_their_tokens(server, tmp_path):
    arguments = ["-m", "chat", "--concurrency-range", 3, "--request-count", 30, "--format", "json"]
    before = counted(server, "chat")[0]
    (level,) = measurements(bench(server, "openai", *arguments, "--string-data", "a-b c"))
    assert level["errors"] == {}
    assert level["requests"] == level["server"]["requests"] == counted(server, "chat")[0] - before == 30
    assert level["tokens_per_s"] == pytest.approx(6 * level["requests_per_s"])
    assert 0 < level["first_token_us"]["p50"] <= level["first_token_us"]["p99"]
    assert level["first_token_us"]["p50"] <= level["latency_us"]["p50"]
    assert level["between_tokens_us"]["mean"] > 0
    # The fields of a data file, and parameters.
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "a b c d e f"}]
    file = tmp_path / "data.json"
    file.write_text(json.dumps({"data": [{"messages": messages, "max_tokens": 8}, {"messages": messages[1:]}]}))
    (level,) = measurements(bench(server, "openai", *arguments, "--input-data", file))
    assert 8 < level["tokens_per_s"] / level["requests_per_s"] < 9
    table = tmp_path / "table.csv"
    done = bench(
        server, "openai", "-m", "chat", "--request-rate-range", 40, "-p", 500, "-r", 1, "-f", table,
        "--request-parameter", "max_tokens=2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert float(row["Tokens/Second"]) == pytest.approx(2 * float(row["Inferences/Second"]), rel=0.01)
    assert re.search(r"\n +tokens/s +[\d.]+\n +first token( +\d+){5}\n +between( +\d+){5}\n", done.stdout)


def test_errors_of_chat_completions(server):
    done = bench(server, "openai", "-m", "chat", "--string-data", "fail", "--request-count", 5)
    assert done.returncode == 1
    assert "5 x out of words" in done.stdout
    done = bench(server, "openai", "-m", "chat", "--request-parameter", "n=2", "--request-count", 5)
    assert done.returncode == 1
    assert "5 x HTTP 400: " in done.stdout
    done = bench(server, "openai", "-m", "echo")
    assert done.returncode == 1
    assert done.stderr == "braid bench: model echo is not served by OpenAI's API; served: chat\n"
    done = bench(server, "openai", "-m", "chat", "--shape", "messages:2")
    assert done.returncode == 2
    assert "--shape does not apply to -i openai: a request has no tensors" in done.stderr


def test_files(server, tmp_path):
    page, table = tmp_path / "report.html", tmp_path / "table.csv"
    done = bench(
        server, "grpc", "-m", "echo", "--concurrency-range", "1:3", "-p", 500, "-r", 1, "-f", table, "--report", page
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["Concurrency"] for row in rows] == ["1", "2", "3"]
    assert all(float(row["Inferences/Second"]) > 0 and float(row["p99 latency"]) > 0 for row in rows)
    html = page.read_text()
    assert html.count("<svg") >= 2 + 3 * 2
    assert not re.search(r"(src|href)=|https?://|@import", html)
    assert [line.split()[0] for line in done.stdout.splitlines() if re.match(r" +[123] +\d", line)] == [
        "1",
        "2",
        "3",
    ] * 2


def test_a_file_that_cannot_be_written(server):
    done = bench(server, "http", "-m", "echo", "-p", 100, "-r", 1, "-f", "/dev/full")
    assert done.returncode == 1
    assert "cannot write /dev/full" in done.stderr


def test_comparison(server, tmp_path):
    done = bench(
        server, "http", "-m", "echo", "--compare", server.http, "--rounds", 3, "-p", 500, "--format", "json",
        "--report", tmp_path / "report.html",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (comparison,) = json.loads(done.stdout)["comparisons"]
    ratios = comparison["throughput"]
    assert 0 < ratios["least"] <= ratios["median"] <= ratios["greatest"]
    assert comparison["first"]["requests"] > 0
    assert comparison["second"]["requests"] > 0


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("load", [["--request-count", "100000000"], ["-p", "100", "-s", "0.1", "-r", "10000", "-v"]])
def test_an_interrupt_ends_with_what_was_measured(server, protocol, load):
    command = [
        BINARY,
        "bench",
        "-u",
        getattr(server, protocol),
        "-i",
        protocol,
        "-m",
        "echo",
        "--format",
        "json",
        *load,
    ]
    before = counted(server, "echo")[0]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: counted(server, "echo")[0] > before + 500, 20, "requests")
        if "-v" in load:
            assert "measurement 1: " in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0, err
    report = json.loads(out)
    assert report["interrupted"]
    assert report["measurements"][0]["requests"] > 0


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_server_that_dies_is_told_by_errors(repository, serve, protocol):
    # Slow enough to be killed before the last request.
    source = per_request("time.sleep(0.005)\nreturn respond(OUT=get(request, 'IN'))")
    repository.add("echo", source, config(None, [("IN", "INT32", [4])], [("OUT", "INT32", [4])]))
    server = serve(repository)
    command = [BINARY, "bench", "-u", getattr(server, protocol), "-i", protocol, "-m", "echo", "--format", "json"]
    process = subprocess.Popen(
        [*command, "--request-count", "400", "--concurrency-range", "4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: counted(server, "echo")[0] > 100, 20, "requests")
        server.kill()
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1, err
    (level,) = json.loads(out)["measurements"]
    assert level["requests"] >= 100
    assert any("closed the connection" in text or "broke" in text for text in level["errors"]), level["errors"]
    assert any("Connection refused" in text for text in level["errors"]), level["errors"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_model_that_is_not_there(server, protocol):
    done = bench(server, protocol, "-m", "nope")
    assert done.returncode == 1
    assert "ready models: a b%, chat, echo, large, repeat, steps" in done.stderr


def test_no_server():
    done = bench(None, "http", "-m", "echo")
    assert done.returncode == 1
    assert "cannot connect to 127.0.0.1:9" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-b", "9"], "batches of at most 8, got 9"),
        (["--shape", "NO:1"], "has no input NO; it has IN"),
        (["--input-data", "nowhere.json"], "expected random, zero, a file or a folder"),
        (["--validate"], '"validation_data"'),
        (["--async"], "--async is not supported: requests are always asynchronous"),
        (["--concurrency-range", "3:1"], "END is below START"),
    ],
)
def test_wrong_use(server, arguments, text):
    done = bench(server, "http", "-m", "echo", *arguments)
    assert done.returncode == 2
    assert text in done.stderr
