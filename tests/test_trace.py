"""Tracing (17.2): settings, files, and export to an OpenTelemetry collector."""

import contextlib
import http.server
import json
import threading

import numpy as np
import pytest
import tritonclient.grpc
from harness.repository import config, per_request
from harness.waiting import wait_until

IN = {"IN": np.array([1.5, 2], dtype=np.float32)}
# Returns the context of its trace.
CONTEXT = per_request("return respond(OUT=np.array([str(request.trace().get_context())], dtype=object))")
FULL = {
    "trace_level": ["TIMESTAMPS"],
    "trace_rate": "1",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_mode": "triton",
}
ORDER = ["REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"]
ORDER += ["REQUEST_END"]


STEPS = """
ensemble_scheduling {
  step [
    { model_name: "same" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "MID" } },
    { model_name: "other" model_version: -1 input_map { key: "IN" value: "MID" } output_map { key: "OUT" value: "OUT" } }
  ]
}
"""


# Calls "same" twice: as a part of its request's trace, and separately.
CALLER = per_request(
    """
    def call(**more):
        tensor = pb_utils.Tensor("IN", get(request, "IN"))
        asked = pb_utils.InferenceRequest(
            inputs=[tensor], requested_output_names=["OUT"], model_name="same", **more
        )
        return pb_utils.get_output_tensor_by_name(asked.exec(), "OUT").as_numpy()

    call(request_id="apart")
    return respond(OUT=call(trace=request.trace()))
    """
)


def add_ensemble(repository):
    text = config("both", [("IN", "FP32", [2])], [("OUT", "FP32", [2])], backend=None)
    repository.add("both", None, text + 'platform: "ensemble"\n' + STEPS)


def add_models(repository):
    repository.add_identity("same", dims=[2])
    repository.add_identity("other", dims=[2])
    add_ensemble(repository)
    repository.add("caller", CALLER, config("caller", [("IN", "FP32", [2])], [("OUT", "FP32", [2])]))
    repository.add("context", CONTEXT, config("context", [("IN", "FP32", [2])], [("OUT", "STRING", [1])]))
    stream = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                for number in range(2):
                    out = pb_utils.Tensor("OUT", np.array([number], np.float32))
                    sender.send(pb_utils.InferenceResponse([out]))
                sender.send(flags=1)
    """
    text = config(
        "stream",
        [("IN", "FP32", [2])],
        [("OUT", "FP32", [1])],
        extra="model_transaction_policy { decoupled: true }",
    )
    repository.add("stream", stream, text)
    echo = per_request("return respond(text_output=get(request, 'text_input'))")
    text = config("text", [("text_input", "STRING", [1])], [("text_output", "STRING", [1])])
    repository.add("text", echo, text)


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    return tmp_path_factory.mktemp("traces") / "trace.json"


@pytest.fixture(scope="module")
def server(module_repository, module_serve, trace_file):
    add_models(module_repository)
    return module_serve(module_repository, "--trace-config=triton,file=" + str(trace_file), "--trace-config", "rate=1")


@pytest.fixture
def timestamps(server):
    """Turns the tracing of timestamps on for the test."""
    assert server.json("POST", "/v2/trace/setting", {"trace_level": ["TIMESTAMPS"]})[0] == 200
    yield
    reset = dict.fromkeys(["trace_level", "trace_rate", "trace_count", "log_frequency"])
    for path in ("/v2/trace/setting", "/v2/models/same/trace/setting"):
        assert server.json("POST", path, reset)[0] == 200


def read(path):
    """Returns traces by id, each with all its entries merged."""
    traces = {}
    text = path.read_text() if path.exists() else ""  # empty until the first are written
    for entry in json.loads(text or "[]"):
        trace = traces.setdefault(entry.pop("id"), {"timestamps": {}, "tensors": []})
        for stamp in entry.pop("timestamps", []):
            trace["timestamps"][stamp["name"]] = stamp["ns"]
        if "tensor" in entry:
            trace["tensors"].append((entry.pop("activity"), entry.pop("tensor")))
        trace.update(entry)
    return traces


def trace_of(path, request_id):
    def look():
        found = [t for t in read(path).values() if t.get("request_id") == request_id and "parent_id" not in t]
        return found[0] if found else None

    return wait_until(look, 10, f"the trace of {request_id}")


# ---- settings ------------------------------------------------------------------------------------


def test_settings_of_a_server_without_tracing(repository, serve):
    repository.add_identity("same", dims=[2])
    server = serve(repository)
    assert server.json("GET", "/v2/trace/setting") == (
        200,
        {
            "trace_level": ["OFF"],
            "trace_rate": "1000",
            "trace_count": "-1",
            "log_frequency": "0",
            "trace_file": "",
            "trace_mode": "triton",
        },
    )
    status, body = server.json("POST", "/v2/trace/setting", {"trace_level": ["TIMESTAMPS"]})
    assert status == 400
    assert "--trace-config triton,file=" in body["error"]


def test_settings_of_a_model_cover_the_global_ones(server, timestamps, trace_file, client):
    whole = {**FULL, "trace_file": str(trace_file)}
    answer = settings(client, "same", {"trace_rate": "5", "log_frequency": 4, "trace_level": ["TENSORS"]})
    assert answer == {**whole, "trace_rate": "5", "log_frequency": "4", "trace_level": ["TENSORS"]}
    assert settings(client, "other") == whole
    assert settings(client, "", {"trace_count": "9"}) == {**whole, "trace_count": "9"}
    assert settings(client, "same")["trace_count"] == "9"
    answer = settings(client, "same", {"trace_rate": None, "log_frequency": None, "trace_level": None})
    assert answer == {**whole, "trace_count": "9"}
    assert settings(client, "", {"trace_count": None}) == whole


def settings(client, model, changes=None):
    if changes is None:
        answer = client.raw.get_trace_settings(model_name=model or None)
    else:
        if client.protocol == "grpc":
            changes = {k: str(v) if isinstance(v, int) else v for k, v in changes.items()}
        answer = client.raw.update_trace_settings(model_name=model or None, settings=changes)
    if client.protocol == "http":
        return answer
    values = {name: list(setting.value) for name, setting in answer.settings.items()}
    return {name: value if name == "trace_level" else value[0] for name, value in values.items()}


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"trace_file": "/tmp/x"}, 501, "trace file location can not be updated through network protocol"),
        ({"trace_rate": ["1", "2"]}, 400, "expect only 1 value for 'trace_rate'"),
        ({"trace_count": "many"}, 400, "Unable to parse 'trace_count', got: many"),
        ({"trace_level": ["ALL"]}, 400, "unknown trace level 'ALL'"),
        ({"trace_colour": "red"}, 400, "unknown trace setting 'trace_colour'"),
        ({"trace_rate": True}, 500, "attempt to access JSON non-string as string"),
    ],
)
def test_settings_that_cannot_be(server, change, status, text):
    before = server.json("GET", "/v2/trace/setting")
    answer, body = server.json("POST", "/v2/trace/setting", {"trace_count": "77", **change})
    assert answer == status
    assert text in body["error"]
    assert server.json("GET", "/v2/trace/setting") == before


def test_grpc_says_so_too(server, connect):
    client = connect("grpc", server)
    with client.fails("INVALID_ARG", "expect only 1 value for 'trace_rate'"):
        client.raw.update_trace_settings(settings={"trace_rate": ["1", "2"]})
    with client.fails("UNSUPPORTED", "trace file location can not be updated through network protocol"):
        client.raw.update_trace_settings(settings={"trace_file": "x"})


def test_settings_of_an_unknown_model(server):
    for method in ("GET", "POST"):
        status, body = server.json(method, "/v2/models/nope/trace/setting", {} if method == "POST" else None)
        assert status in (400, 404)
        assert "'nope'" in body["error"]


def test_the_api_can_be_restricted(repository, serve):
    repository.add_identity("same", dims=[2])
    server = serve(repository, "--http-restricted-api=trace:key=secret")
    assert server.request("GET", "/v2/trace/setting")[0] == 403
    assert server.request("GET", "/v2/trace/setting", headers={"key": "secret"})[0] == 200


# ---- files ---------------------------------------------------------------------------------------


def test_a_trace_has_its_times_in_order(timestamps, trace_file, client):
    client.infer("same", IN, request_id=f"times-{client.protocol}")
    trace = trace_of(trace_file, f"times-{client.protocol}")
    assert (trace["model_name"], trace["model_version"]) == ("same", 1)
    assert "parent_id" not in trace
    first = {"http": "HTTP_RECV", "grpc": "GRPC_WAITREAD"}[client.protocol]
    last = {"http": "HTTP_SEND", "grpc": "GRPC_SEND"}[client.protocol]
    names = [f"{first}_START", f"{first}_END", *ORDER, f"{last}_START", f"{last}_END"]
    assert set(trace["timestamps"]) == set(names)
    times = [trace["timestamps"][name] for name in names]
    assert times == sorted(times)
    assert trace["tensors"] == []


def test_the_steps_of_an_ensemble_are_children(timestamps, trace_file, client):
    client.infer("both", IN, request_id=f"both-{client.protocol}")
    trace_of(trace_file, f"both-{client.protocol}")
    traces = {i: t for i, t in read(trace_file).items() if t.get("request_id") == f"both-{client.protocol}"}
    parent = next(i for i, t in traces.items() if t["model_name"] == "both")
    assert {t["model_name"]: t.get("parent_id") for t in traces.values()} == {
        "both": None,
        "same": parent,
        "other": parent,
    }
    for trace in traces.values():
        times = trace["timestamps"]
        assert traces[parent]["timestamps"]["REQUEST_START"] <= times["REQUEST_START"] <= times["REQUEST_END"]
        assert times["REQUEST_END"] <= traces[parent]["timestamps"]["REQUEST_END"]
        if trace["model_name"] != "both":
            assert set(times) == set(ORDER)


def test_a_models_calls_are_children(timestamps, trace_file, client):
    client.infer("caller", IN, request_id=f"calls-{client.protocol}")
    trace_of(trace_file, f"calls-{client.protocol}")
    traces = read(trace_file)
    parent = next(i for i, t in traces.items() if t.get("request_id") == f"calls-{client.protocol}")
    assert traces[parent]["model_name"] == "caller"
    children = [t for t in traces.values() if t.get("parent_id") == parent]
    assert [t["model_name"] for t in children] == ["same"]
    times = children[0]["timestamps"]
    assert set(times) == set(ORDER)
    assert traces[parent]["timestamps"]["COMPUTE_START"] <= times["REQUEST_START"]
    assert times["REQUEST_END"] <= traces[parent]["timestamps"]["REQUEST_END"]


@pytest.mark.parametrize("kind", ["generate", "generate_stream"])
def test_generate_is_traced(server, timestamps, trace_file, kind):
    assert server.request("POST", f"/v2/models/same/{kind}", json.dumps({"id": kind, "IN": [1, 2]}))[0] == 200
    assert set(trace_of(trace_file, kind)["timestamps"]) >= set(ORDER)


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_is_traced(server, timestamps, trace_file, stream):
    mark = f"completion-{stream}"
    body = json.dumps({"model": "text", "prompt": "x", "stream": stream})
    assert server.request("POST", "/v1/completions", body, {"x-request-id": mark})[0] == 200
    assert set(trace_of(trace_file, mark)["timestamps"]) >= set(ORDER)


def test_a_stream_is_traced(server, timestamps, trace_file):
    done = threading.Semaphore(0)
    with contextlib.closing(tritonclient.grpc.InferenceServerClient(server.grpc)) as client:
        client.start_stream(lambda result, error: done.release())
        tensor = tritonclient.grpc.InferInput("IN", [2], "FP32")
        tensor.set_data_from_numpy(IN["IN"])
        client.async_stream_infer("stream", [tensor], request_id="streamed")
        for _ in range(2):
            assert done.acquire(timeout=10)
        client.stop_stream()
    assert set(trace_of(trace_file, "streamed")["timestamps"]) >= set(ORDER)


def test_a_failed_request_is_traced(server, timestamps, trace_file, connect):
    client = connect("http", server)
    with client.fails("INVALID_ARG"):
        client.infer("same", {"IN": np.zeros(3, np.float32)}, request_id="refused")
    assert "REQUEST_END" in trace_of(trace_file, "refused")["timestamps"]


def test_a_long_id_is_written_in_part(server, timestamps, trace_file, connect):
    connect("grpc", server).infer("same", {"IN": np.zeros(2, np.float32)}, request_id="r" * 70_000)
    trace_of(trace_file, "r" * 512 + "... (70000 bytes)")


def test_tensors_are_written_when_wanted(server, timestamps, trace_file, connect):
    client = connect("http", server)
    settings(client, "same", {"trace_level": ["TENSORS"]})
    client.infer("same", IN, request_id="contents")
    trace = trace_of(trace_file, "contents")
    contents = {"data": "1.5,2", "shape": "2", "dtype": "FP32"}
    assert trace["tensors"] == [
        ("TENSOR_QUEUE_INPUT", {"name": "IN", **contents}),
        ("TENSOR_BACKEND_INPUT", {"name": "IN", **contents}),
        ("TENSOR_BACKEND_OUTPUT", {"name": "OUT", **contents}),
    ]
    assert trace["timestamps"] == {}


def test_rate_and_count(server, timestamps, trace_file, connect):
    client = connect("http", server)
    before = len(read(trace_file))
    settings(client, "same", {"trace_rate": "3", "trace_count": "2"})
    for number in range(12):
        client.infer("same", IN, request_id=f"rate-{number}")
    assert settings(client, "same")["trace_count"] == "0"
    trace_of(trace_file, "rate-5")
    found = {t["request_id"] for t in read(trace_file).values() if t.get("request_id", "").startswith("rate-")}
    assert found == {"rate-2", "rate-5"}
    assert len(read(trace_file)) == before + 2


def test_log_frequency_counts_traces_into_files(server, timestamps, trace_file, connect):
    client = connect("http", server)
    settings(client, "same", {"log_frequency": "2"})
    for number in range(5):
        client.infer("same", IN, request_id=f"indexed-{number}")

    def indexed():
        files = sorted(trace_file.parent.glob(trace_file.name + ".*"))
        return [sorted(t["request_id"] for t in read(f).values()) for f in files]

    pairs = [["indexed-0", "indexed-1"], ["indexed-2", "indexed-3"]]
    wait_until(lambda: indexed() == pairs, 10, "two files")
    # The remaining traces are written when the setting ends.
    settings(client, "same", {"log_frequency": None})
    wait_until(lambda: indexed() == [*pairs, ["indexed-4"]], 10, "the third file")


def test_a_model_has_no_context_in_triton_mode(server, timestamps, connect):
    assert connect("http", server).infer("context", IN).as_numpy("OUT")[0] == b"None"


def test_all_is_written_when_the_server_stops(repository, serve, connect, tmp_path):
    repository.add_identity("same", dims=[2])
    path = tmp_path / "out.json"
    server = serve(
        repository, "--trace-file", path, "--trace-level=TIMESTAMPS", "--trace-rate=1", "--trace-log-frequency=100"
    )
    for number in range(3):
        connect("http", server).infer("same", IN, request_id=f"n{number}")
    server.stop()
    assert not path.exists()
    assert [t["request_id"] for t in read(tmp_path / "out.json.0").values()] == ["n0", "n1", "n2"]


# ---- OpenTelemetry -------------------------------------------------------------------------------


class Collector:
    """Accepts OTLP over HTTP and keeps the spans."""

    def __init__(self):
        self.spans = []
        self.resources = []
        self.status = 200
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == "/v1/traces"
                assert self.headers["Content-Type"] == "application/json"
                for resource in body["resourceSpans"]:
                    collector.resources.append(resource["resource"])
                    for scope in resource["scopeSpans"]:
                        collector.spans.extend(scope["spans"])
                self.send_response(collector.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"127.0.0.1:{self.server.server_address[1]}/v1/traces"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def trace(self, request_id):
        """Returns the spans of a request's trace, by name."""

        def look():
            for span in list(self.spans):
                values = {a["key"]: a["value"] for a in span.get("attributes", [])}
                if values.get("triton.request_id") == {"stringValue": request_id}:
                    return {s["name"]: s for s in self.spans if s["traceId"] == span["traceId"]}
            return None

        return wait_until(look, 10, f"the spans of {request_id}")


@pytest.fixture(scope="module")
def collector():
    with contextlib.closing(Collector()) as one:
        yield one


OPENTELEMETRY = ["--trace-config=mode=opentelemetry", "--trace-config=level=TIMESTAMPS"]
OPENTELEMETRY += ["--trace-config=opentelemetry,bsp_schedule_delay=10"]


@pytest.fixture(scope="module")
def exporting(module_serve, tmp_path_factory, collector):
    from harness.repository import Repository

    repository = Repository(tmp_path_factory.mktemp("exporting") / "models")
    add_models(repository)
    return module_serve(
        repository,
        *OPENTELEMETRY,
        "--trace-config=rate=1",
        f"--trace-config=opentelemetry,url=http://{collector.url}",
        "--trace-config=opentelemetry,resource=service.name=my-service",
        "--trace-config=opentelemetry,resource=zone=7",
    )


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_spans_of_a_request(exporting, collector, connect, protocol):
    client = connect(protocol, exporting)
    client.infer("same", IN, request_id=f"spans-{protocol}")
    spans = collector.trace(f"spans-{protocol}")
    assert set(spans) == {"InferRequest", "same", "queue", "compute"}
    root, model, queue, compute = (spans[name] for name in ("InferRequest", "same", "queue", "compute"))
    assert "parentSpanId" not in root
    assert model["parentSpanId"] == root["spanId"]
    assert queue["parentSpanId"] == compute["parentSpanId"] == model["spanId"]
    for inner, outer in ((model, root), (queue, model), (compute, model)):
        assert int(outer["startTimeUnixNano"]) <= int(inner["startTimeUnixNano"])
        assert int(inner["endTimeUnixNano"]) <= int(outer["endTimeUnixNano"])
    import time

    assert abs(int(root["startTimeUnixNano"]) / 1e9 - time.time()) < 60
    assert [e["name"] for e in compute["events"]] == ORDER[2:6]
    attributes = {a["key"]: a["value"]["stringValue"] for a in collector.resources[-1]["attributes"]}
    assert attributes == {"service.name": "my-service", "zone": "7"}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_clients_trace_goes_on_into_the_model(exporting, collector, connect, protocol):
    client = connect(protocol, exporting)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"traceparent": parent, "tracestate": "vendor=1"}
    answer = client.infer("context", IN, request_id=f"joined-{protocol}", headers=headers).as_numpy("OUT")[0]
    context = json.loads(answer)
    spans = collector.trace(f"joined-{protocol}")
    assert spans["InferRequest"]["traceId"] == "0af7651916cd43dd8448eb211c80319c"
    assert spans["InferRequest"]["parentSpanId"] == "b7ad6b7169203331"
    assert context["traceparent"] == f"00-0af7651916cd43dd8448eb211c80319c-{spans['compute']['spanId']}-01"
    assert context["tracestate"] == "vendor=1"


def test_spans_of_an_ensemble_hang_together(exporting, collector, connect):
    connect("http", exporting).infer("both", IN, request_id="spans-both")

    def whole():
        spans = [s for s in collector.spans if s["traceId"] == trace_id]
        return spans if len(spans) == 8 else None

    trace_id = collector.trace("spans-both")["InferRequest"]["traceId"]
    spans = wait_until(whole, 10, "all spans")
    by_id = {s["spanId"]: s for s in spans}
    parents = {s["name"]: by_id[s["parentSpanId"]]["name"] for s in spans if s["name"] in ("both", "same", "other")}
    assert parents == {"both": "InferRequest", "same": "both", "other": "both"}


def test_spans_of_a_call_lie_under_the_callers_execution(exporting, collector, connect):
    connect("http", exporting).infer("caller", IN, request_id="spans-caller")
    trace_id = collector.trace("spans-caller")["InferRequest"]["traceId"]

    def parent():
        spans = {s["spanId"]: s for s in collector.spans if s["traceId"] == trace_id}
        called = [s for s in spans.values() if s["name"] == "same"]
        return spans[called[0]["parentSpanId"]] if called else None

    compute = wait_until(parent, 10, "the call's span")
    assert compute["name"] == "compute"
    assert compute["parentSpanId"] == collector.trace("spans-caller")["caller"]["spanId"]


def test_a_client_that_does_not_sample_is_heeded(exporting, collector, connect):
    client = connect("http", exporting)
    headers = {"traceparent": "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
    assert client.infer("context", IN, headers=headers).as_numpy("OUT")[0] == b"None"


def test_rate_zero_traces_what_clients_trace_alone(exporting, collector, connect):
    client = connect("http", exporting)
    settings(client, "context", {"trace_rate": "0"})
    assert client.infer("context", IN).as_numpy("OUT")[0] == b"None"
    headers = {"traceparent": "00-2af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert b"2af7651916cd43dd8448eb211c80319c" in client.infer("context", IN, headers=headers).as_numpy("OUT")[0]
    settings(client, "context", {"trace_rate": None})


def test_a_collector_that_is_away_harms_nobody(repository, serve, connect):
    repository.add_identity("same", dims=[2])
    server = serve(repository, *OPENTELEMETRY, "--trace-config=rate=1", "--trace-config=opentelemetry,url=127.0.0.1:1")
    client = connect("grpc", server)
    for _ in range(20):
        client.infer("same", IN)
    server.wait_for_log(r"W.*traces did not reach the collector at http://127\.0\.0\.1:1/v1/traces: ")
    client.infer("same", IN)


def test_a_collector_that_refuses_is_named(repository, serve, connect, collector):
    repository.add_identity("same", dims=[2])
    collector.status = 503
    try:
        server = serve(
            repository, *OPENTELEMETRY, "--trace-config=rate=1", f"--trace-config=opentelemetry,url={collector.url}"
        )
        connect("http", server).infer("same", IN)
        server.wait_for_log(r"did not reach the collector .*: it answered with status 503")
    finally:
        collector.status = 200
