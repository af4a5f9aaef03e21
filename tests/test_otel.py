"""A real OpenTelemetry collector accepts Braid's traces; the tests check its output."""

import json

import pytest
import yaml
from harness.programs import Program
from harness.public_clients import need
from harness.repository import config, per_request
from harness.server import ROOT
from harness.waiting import wait_until

CONFIG = ROOT / "deploy" / "otel" / "collector.yaml"


def config_for(file):
    """Returns the trace configuration of deploy/otel, on a free port, with output to a file."""
    settings = yaml.safe_load(CONFIG.read_text())
    settings["receivers"] = {"otlp": settings["receivers"]["otlp"]}
    settings["receivers"]["otlp"]["protocols"]["http"]["endpoint"] = "127.0.0.1:0"
    settings["exporters"] = {"file": {"path": str(file), "flush_interval": "100ms"}}
    settings["service"]["pipelines"] = {"traces": {**settings["service"]["pipelines"]["traces"], "exporters": ["file"]}}
    settings["service"]["telemetry"] = {"metrics": {"level": "none"}}
    return yaml.safe_dump(settings)


ASKS = per_request(
    """
    tensor = pb_utils.Tensor("IN", get(request, "IN"))
    asked = pb_utils.InferenceRequest(
        inputs=[tensor], requested_output_names=["OUT"], model_name="answers", trace=request.trace()
    )
    return respond(OUT=pb_utils.get_output_tensor_by_name(asked.exec(), "OUT").as_numpy())
    """
)


class Collector(Program):
    """The collector as a process, and its output of spans."""

    def __init__(self, program, folder):
        self._spans = folder / "spans.json"
        (folder / "config.yaml").write_text(config_for(self._spans))
        super().__init__([program, f"--config={folder / 'config.yaml'}"], folder)

    def spans(self):
        """Returns [(attributes of the resource, span)] of all spans so far."""
        if not self._spans.exists():
            return []
        found = []
        for line in self._spans.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                break  # incomplete
            for resource in json.loads(line)["resourceSpans"]:
                attributes = {each["key"]: each["value"] for each in resource["resource"]["attributes"]}
                for scope in resource["scopeSpans"]:
                    found += [(attributes, span) for span in scope["spans"]]
        return found


@pytest.fixture
def collector(tmp_path):
    with Collector(need("otelcol") / "otelcol", tmp_path) as collector:
        yield collector


def test_a_trace_arrives_with_parents_and_children(collector, repository, serve):
    tensors = [("IN", "FP32", [2])], [("OUT", "FP32", [2])]
    repository.add("asks", ASKS, config("asks", *tensors))
    repository.add_identity("answers", dims=[2])
    server = serve(
        repository,
        "--trace-config=mode=opentelemetry",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=1",
        f"--trace-config=opentelemetry,url=127.0.0.1:{collector.port}/v1/traces",
        "--trace-config=opentelemetry,resource=service.name=shop",
        "--trace-config=opentelemetry,bsp_schedule_delay=10",
    )
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    status, answer = server.json(
        "POST",
        "/v2/models/asks/infer",
        {"id": "seven", "inputs": [{"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2]}]},
        {"traceparent": f"00-{trace}-{parent}-01"},
    )
    assert (status, answer["outputs"][0]["data"]) == (200, [1, 2])

    def whole():
        spans = [span for _, span in collector.spans() if span["traceId"] == trace]
        return spans if len(spans) == 7 else None

    spans = wait_until(whole, 20.0, "the spans of both models")
    by_id = {span["spanId"]: span for span in spans}
    assert len(by_id) == 7

    def above(span):
        """Returns the names of a span's ancestors, outermost first."""
        over = by_id.get(span["parentSpanId"])
        return [*above(over), over["name"]] if over else []

    root = next(span for span in spans if span["name"] == "InferRequest")
    assert root["parentSpanId"] == parent
    assert sorted((above(span), span["name"]) for span in spans) == [
        ([], "InferRequest"),
        (["InferRequest"], "asks"),
        (["InferRequest", "asks"], "compute"),
        (["InferRequest", "asks"], "queue"),
        (["InferRequest", "asks", "compute"], "answers"),
        (["InferRequest", "asks", "compute", "answers"], "compute"),
        (["InferRequest", "asks", "compute", "answers"], "queue"),
    ]
    for span in spans:
        begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert int(root["startTimeUnixNano"]) <= begin <= end <= int(root["endTimeUnixNano"])
    assert {resource["service.name"]["stringValue"] for resource, _ in collector.spans()} == {"shop"}
    asks = next(span for span in spans if span["name"] == "asks")
    attributes = {each["key"]: each["value"] for each in asks["attributes"]}
    assert attributes["triton.request_id"] == {"stringValue": "seven"}


def test_what_waits_is_sent_when_the_server_stops(collector, repository, serve):
    repository.add_identity("answers", dims=[2])
    server = serve(
        repository,
        "--trace-config=mode=opentelemetry",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=1",
        f"--trace-config=opentelemetry,url=127.0.0.1:{collector.port}/v1/traces",
        "--trace-config=opentelemetry,bsp_schedule_delay=60000",
    )
    body = {"inputs": [{"name": "IN", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}
    for _ in range(20):
        assert server.json("POST", "/v2/models/answers/infer", body)[0] == 200
    assert collector.spans() == []
    server.stop()

    def roots():
        found = [span for _, span in collector.spans() if span["name"] == "InferRequest"]
        return found if len(found) >= 20 else None

    found = wait_until(roots, 20.0, "the traces of 20 requests")
    assert len({span["traceId"] for span in found}) == len(found) == 20
