"""Statistics (17.4) and metrics (18)."""

import concurrent.futures
import queue

import numpy as np
import pytest
from harness.clients import strings
from harness.ensembles import ensemble, step
from harness.repository import config, per_request
from harness.waiting import wait_until

ROWS = [("IN", "FP32", [2])]
OUT = [("OUT", "FP32", [2])]
FAILING = per_request("return pb_utils.InferenceResponse(error=pb_utils.TritonError('no'))")


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


def test_metrics_of_the_nodes_of_an_ensemble(repository, serve, connect):
    repository.add_identity("first", dims=[2])
    repository.add("failing", FAILING, config("failing", ROWS, OUT))
    good = [step("first", {"IN": "X"}, {"OUT": "t"}), step("first", {"IN": "t"}, {"OUT": "Y"})]
    ensemble(repository, "good", good, [("X", "FP32", [2])], [("Y", "FP32", [2])])
    bad = [step("failing", {"IN": "X"}, {"OUT": "t"}), step("first", {"IN": "t"}, {"OUT": "Y"})]
    ensemble(repository, "bad", bad, [("X", "FP32", [2])], [("Y", "FP32", [2])])
    server = serve(repository)
    client = connect("http", server)
    for _ in range(2):
        client.infer("good", {"X": np.zeros(2, dtype=np.float32)})
        with client.fails("INTERNAL", "in ensemble 'bad', no"):
            client.infer("bad", {"X": np.zeros(2, dtype=np.float32)})
    values = {name: value for name, value in server.metric_values().items() if name.startswith("braid_node_")}

    def counts(model, node):
        labels = f'{{model="{model}",node="{node}",version="1"}}'
        return [values[f"braid_node_{name}{labels}"] for name in ("started", "ended", "failed")]

    assert counts("good", "first_1") == counts("good", "first_2") == [2, 2, 0]
    assert counts("bad", "failing") == [2, 2, 2]
    assert counts("bad", "first") == [0, 0, 0]
    assert values['braid_node_duration_us{model="good",node="first_1",version="1"}'] > 0
    assert len(values) == 4 * 4


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


def test_every_model_says_how_long_it_took_to_load(server):
    values = server.metric_values()
    for model, labels in (("rows", ""), ("failing", ',team="blue"')):
        seconds = values[f'nv_model_load_duration_secs{{model="{model}"{labels},version="1"}}']
        assert 0 < seconds < 60


def test_without_a_gpu_no_memory_is_pinned(server):
    values = server.metric_values()
    assert values["nv_pinned_memory_pool_total_bytes"] == 0
    assert values["nv_pinned_memory_pool_used_bytes"] == 0


def test_summaries_and_histograms_are_off(server):
    assert not any("summary" in name or "histogram" in name for name in server.metric_values())


STREAM = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([number] * 2, np.float32))]))
            sender.send(flags=1)
"""


def test_summaries_and_histograms(repository, serve, connect):
    repository.add_identity("rows", dims=[2])
    decoupled = "model_transaction_policy { decoupled: true } "
    buckets = "histogram_options { buckets: [0.5, 60000] }"
    identifier = 'metric_identifier { family: "nv_inference_first_response_histogram_ms" }'
    for name, extra in (
        ("stream", decoupled),
        ("tuned", decoupled + f"model_metrics {{ metric_control: [ {{ {identifier} {buckets} }} ] }}"),
    ):
        repository.add(name, STREAM, config(name, ROWS, OUT, extra=extra))
    options = ["summary_latencies=true", "summary_quantiles=0.5:0.05, 0.9:0.01", "histogram_latencies=true"]
    options += ["counter_latencies=false"]
    server = serve(repository, *[f"--metrics-config={option}" for option in options])
    array = np.zeros(2, dtype=np.float32)
    connect("http", server).infer("rows", {"IN": array})
    client = connect("grpc", server)
    answers = queue.SimpleQueue()
    client.raw.start_stream(lambda result, error: answers.put(error))
    for model in ("stream", "tuned"):
        client.raw.async_stream_infer(model, [client.input("IN", array)])
    for _ in range(6):
        assert answers.get(timeout=10) is None
    client.raw.stop_stream()
    values = server.metric_values()
    for part in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        name = f"nv_inference_{part}_summary_us"
        assert values[f'{name}_count{{model="rows",version="1"}}'] == 1
        assert f'{name}{{model="rows",version="1",quantile="0.9"}}' in values
        assert f'{name}{{model="rows",version="1",quantile="0.99"}}' not in values
    assert values['nv_inference_request_summary_us_sum{model="rows",version="1"}'] > 0
    assert not any("_duration_us" in name for name in values)
    name = "nv_inference_first_response_histogram_ms"
    assert values[f'{name}_count{{model="stream",version="1"}}'] == 1
    assert values[f'{name}_bucket{{model="stream",version="1",le="5000"}}'] == 1
    assert values[f'{name}_bucket{{model="tuned",version="1",le="60000"}}'] == 1
    assert f'{name}_bucket{{model="tuned",version="1",le="100"}}' not in values
    assert values[f'{name}_count{{model="rows",version="1"}}'] == 1


def test_a_model_cannot_set_what_is_not_there(repository, serve, connect):
    first = "nv_inference_first_response_histogram_ms"
    for name, family in (("rows", "nv_speed"), ("bare", first)):
        extra = f'model_metrics {{ metric_control: [ {{ metric_identifier {{ family: "{family}" }} }} ] }}'
        repository.add_identity(name, dims=[2], extra=extra)
    server = serve(repository, "--exit-on-error=false", ready=False)
    server.wait_for_log("metric family 'nv_speed' has no options")
    server.wait_for_log(
        f"model_metrics of model 'bare': histogram_options of metric family '{first}' must list 'buckets'"
    )
    client = connect("http", server)
    wait_until(lambda: client.raw.is_model_ready("rows"), what="the model to be ready")
    assert not client.raw.is_model_ready("bare")
