"""Statistics (17.4), metrics (18) and the log's switches (17.3)."""

import concurrent.futures

import numpy as np
import pytest
from harness.clients import strings
from harness.repository import config, per_request

ROWS = [("IN", "FP32", [2])]
OUT = [("OUT", "FP32", [2])]
FAILING = per_request("return pb_utils.InferenceResponse(error=pb_utils.TritonError('no'))")
LOGS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.say("initialize")

    def say(self, where):
        log = pb_utils.Logger
        log.log_info(f"{where}-info")
        log.log_warn(f"{where}-warning")
        log.log_error(f"{where}-error")
        log.log_verbose(f"{where}-verbose")

    def execute(self, requests):
        self.say("execute")
        self.say("execute")
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(2, np.float32))]) for _ in requests]

    def finalize(self):
        self.say("finalize")
"""


@pytest.fixture
def server(repository, serve):
    repository.add_identity("rows", dims=[2], max_batch_size=8, extra="dynamic_batching { }")
    repository.add("failing", FAILING, config("failing", ROWS, OUT, extra='metric_tags { key: "team" value: "blue" }'))
    return serve(repository)


def statistics(server, model):
    status, body = server.json("GET", f"/v2/models/{model}/stats")
    assert status == 200
    assert len(body["model_stats"]) == 1
    return body["model_stats"][0]


def test_statistics_count_requests_rows_and_executions(server, client):
    for _ in range(3):
        client.infer("rows", {"IN": np.zeros((4, 2), dtype=np.float32)})
        # Visible no later than the response.
    stats = statistics(server, "rows")
    assert stats["name"] == "rows"
    assert stats["version"] == "1"
    assert stats["inference_count"] == 12
    assert stats["execution_count"] == 3
    assert stats["last_inference"] > 1_600_000_000_000
    assert stats["inference_stats"]["success"]["count"] == 3
    assert stats["inference_stats"]["success"]["ns"] > 0
    assert stats["inference_stats"]["fail"]["count"] == 0
    for part in ("queue", "compute_input", "compute_infer", "compute_output"):
        assert stats["inference_stats"][part]["count"] == 3
    assert [(b["batch_size"], b["compute_infer"]["count"]) for b in stats["batch_stats"]] == [(4, 3)]


def test_statistics_are_there_with_each_response(server, client):
    for number in range(1, 30):
        client.infer("rows", {"IN": np.zeros((1, 2), dtype=np.float32)})
        assert statistics(server, "rows")["inference_stats"]["success"]["count"] == number


def test_statistics_count_failures(server, client):
    for _ in range(2):
        with client.fails("INTERNAL", "no"):
            client.infer("failing", {"IN": np.zeros(2, dtype=np.float32)})
    stats = statistics(server, "failing")["inference_stats"]
    assert stats["fail"]["count"] == 2
    assert stats["success"]["count"] == 0


def test_statistics_of_all_models(server, connect):
    names = {m["name"] for m in server.json("GET", "/v2/models/stats")[1]["model_stats"]}
    assert names == {"rows", "failing"}
    grpc = connect("grpc", server).raw.get_inference_statistics()
    assert {m.name for m in grpc.model_stats} == names


def test_statistics_have_the_documented_fields(server):
    stats = statistics(server, "rows")
    assert set(stats) >= {
        "name",
        "version",
        "last_inference",
        "inference_count",
        "execution_count",
        "inference_stats",
        "response_stats",
        "batch_stats",
        "memory_usage",
    }
    assert set(stats["inference_stats"]) == {
        "success",
        "fail",
        "queue",
        "compute_input",
        "compute_infer",
        "compute_output",
        "cache_hit",
        "cache_miss",
    }


def test_statistics_of_an_unknown_model(server):
    status, body = server.json("GET", "/v2/models/nope/stats")
    assert status in (400, 404)
    assert "'nope'" in body["error"]


# ---- metrics -------------------------------------------------------------------------------------


def test_metrics_are_there_from_the_load(server):
    values = server.metric_values()
    for name in (
        "nv_inference_request_success",
        "nv_inference_count",
        "nv_inference_exec_count",
        "nv_inference_request_duration_us",
        "nv_inference_queue_duration_us",
        "nv_inference_compute_input_duration_us",
        "nv_inference_compute_infer_duration_us",
        "nv_inference_compute_output_duration_us",
        "nv_inference_pending_request_count",
    ):
        assert values[f'{name}{{model="rows",version="1"}}'] == 0, name
    for reason in ("BACKEND", "CANCELED", "OTHER", "REJECTED"):
        assert values[f'nv_inference_request_failure{{model="rows",reason="{reason}",version="1"}}'] == 0
    assert any(name.startswith("nv_cpu_memory_total_bytes") for name in values)
    assert not any(name.startswith("nv_gpu") for name in values)


def test_metrics_follow_requests(server, client):
    client.infer("rows", {"IN": np.zeros((4, 2), dtype=np.float32)})
    with client.fails("INTERNAL"):
        client.infer("failing", {"IN": np.zeros(2, dtype=np.float32)})
    values = server.metric_values()
    assert values['nv_inference_request_success{model="rows",version="1"}'] == 1
    assert values['nv_inference_count{model="rows",version="1"}'] == 4
    assert values['nv_inference_exec_count{model="rows",version="1"}'] == 1
    assert values['nv_inference_compute_infer_duration_us{model="rows",version="1"}'] > 0
    assert values['nv_inference_request_failure{model="failing",reason="BACKEND",team="blue",version="1"}'] == 1


def test_metrics_are_in_the_text_format(server):
    status, headers, body = server.request("GET", "/metrics", address=server.metrics)
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    lines = body.decode().splitlines()
    assert "# TYPE nv_inference_request_success counter" in lines
    assert 'nv_inference_request_success{model="rows",version="1"} 0' in lines
    assert any(line.startswith("# HELP nv_inference_request_success ") for line in lines)


def test_metrics_vanish_with_their_model(repository, serve, connect):
    repository.add_identity("rows", dims=[2])
    server = serve(repository, "--model-control-mode=explicit", "--load-model=rows")
    client = connect("http", server)
    client.infer("rows", {"IN": np.zeros(2, dtype=np.float32)})
    key = 'nv_inference_request_success{model="rows",version="1"}'
    assert server.metric_values()[key] == 1
    client.raw.unload_model("rows")
    from harness.waiting import wait_until

    wait_until(lambda: key not in server.metric_values(), 10, "the end of the series")
    client.raw.load_model("rows")
    assert server.metric_values()[key] == 0


def test_metrics_can_be_switched_off(repository, serve):
    repository.add_identity("rows", dims=[2])
    server = serve(repository, "--allow-metrics=false")
    assert not server.metrics


def test_metrics_can_be_read_while_a_model_runs(repository, serve, connect):
    source = per_request(
        """
        import urllib.request
        address = get(request, "ADDRESS")[0].decode()
        text = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read()
        return respond(OUT=np.array([text], dtype=object))
        """
    )
    repository.add("reader", source, config("reader", [("ADDRESS", "STRING", [1])], [("OUT", "STRING", [1])]))
    server = serve(repository)
    answer = connect("grpc", server).infer("reader", {"ADDRESS": strings(server.metrics)}).as_numpy("OUT")[0]
    assert b'nv_inference_pending_request_count{model="reader",version="1"}' in answer


def test_counters_are_exact_under_load(server, connect):
    def hundred(protocol):
        client = connect(protocol, server)
        for _ in range(100):
            client.infer("rows", {"IN": np.zeros((1, 2), dtype=np.float32)})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(hundred, ["http", "grpc"] * 4))
    stats = statistics(server, "rows")
    assert stats["inference_stats"]["success"]["count"] == 800
    assert stats["inference_count"] == 800
    assert sum(b["batch_size"] * b["compute_infer"]["count"] for b in stats["batch_stats"]) == 800
    values = server.metric_values()
    assert values['nv_inference_request_success{model="rows",version="1"}'] == 800
    assert values['nv_inference_pending_request_count{model="rows",version="1"}'] == 0


# ---- the log and its switches --------------------------------------------------------------------


def count(server, word):
    return sum(word in line for line in server.log.splitlines())


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_model_logs_reach_the_log_with_their_level(repository, serve, connect, protocol):
    repository.add("logs", LOGS, config("logs", ROWS, OUT))
    server = serve(repository)
    client = connect(protocol, server)
    client.infer("logs", {"IN": np.zeros(2, dtype=np.float32)})
    server.stop()
    for level, letter in (("info", "I"), ("warning", "W"), ("error", "E")):
        assert count(server, f"-{level}") == 4
        assert all(line.startswith(letter) for line in server.log.splitlines() if f"-{level}" in line)
        assert all(" model.py:" in line for line in server.log.splitlines() if f"-{level}" in line)
    assert count(server, "-verbose") == 0


def test_verbose_can_be_switched_on_later(repository, serve, connect):
    repository.add("logs", LOGS, config("logs", ROWS, OUT))
    server = serve(repository)
    client = connect("http", server)
    answer = client.raw.update_log_settings({"log_verbose_level": 1})
    assert answer["log_verbose_level"] == 1
    client.infer("logs", {"IN": np.zeros(2, dtype=np.float32)})
    server.stop()
    assert sum("-verbose" in line and " model.py:" in line for line in server.log.splitlines()) == 3


def test_all_levels_can_be_switched_off_later(repository, serve, connect):
    repository.add("logs", LOGS, config("logs", ROWS, OUT))
    server = serve(repository)
    client = connect("grpc", server)
    client.raw.update_log_settings({"log_info": False, "log_warning": False, "log_error": False})
    client.infer("logs", {"IN": np.zeros(2, dtype=np.float32)})
    server.stop()
    for level in ("info", "warning", "error"):
        assert count(server, f"-{level}") == 1


def test_log_settings(server):
    assert server.json("GET", "/v2/logging") == (
        200,
        {
            "log_file": "",
            "log_info": True,
            "log_warning": True,
            "log_error": True,
            "log_verbose_level": 0,
            "log_format": "default",
        },
    )
    assert server.json("POST", "/v2/logging", {"log_format": "ISO8601"})[1]["log_format"] == "ISO8601"
    assert server.json("POST", "/v2/logging", {"log_file": "/tmp/x"}) == (
        501,
        {"error": "log file location can not be updated through network protocol"},
    )
    status, body = server.json("POST", "/v2/logging", {"log_format": "fancy"})
    assert (status, body["error"]) == (503, "invalid argument for --log_format, got: fancy")
    status, body = server.json("POST", "/v2/logging", {"log_info": "yes"})
    assert status == 500
    assert "attempt to access JSON non-boolean as boolean" in body["error"]
