"""Texts of models and clients with special characters of the formats that they are written to: they stay plain text."""

import json
import re

import grpc
import pytest
from harness.repository import config
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

HOSTILE = "a\n\r\t\"\\'<script>${x}{{y}}%00%0A\x1b[31m\x7f\u2028\u202e# "
FORGED = "\nforged_metric 7\n# HELP x\r\nSet-Cookie: forged=1\r\n\r\nE0101 forged.cc:1] forged"
TEXT = HOSTILE + FORGED
MODEL = f"""
import numpy as np
import triton_python_backend_utils as pb_utils

TEXT = {TEXT!r}

class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily("hostile", TEXT, pb_utils.MetricFamily.GAUGE)
        self.metric = self.family.Metric(labels={{"text": TEXT}})

    def execute(self, requests):
        return [self.one(pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()[0].decode()) for r in requests]

    def one(self, how):
        if how == "error":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(TEXT))
        if how == "surrogates":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("a\\ud800b"))
        if how == "log":
            pb_utils.Logger.log_error(TEXT)
            print(TEXT, flush=True)
        if how == "labels":
            for labels in ({{"a\\nb": "x"}}, {{"a": "\\ud800"}}, {{"a}} 1\\nb": "x"}}):
                try:
                    self.family.Metric(labels=labels)
                except Exception:
                    continue
                raise ValueError("such a label was taken")
        answer = np.array([TEXT], dtype=object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", answer)], parameters={{"text": TEXT}})
"""


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    return tmp_path_factory.mktemp("traces") / "trace.json"


@pytest.fixture(scope="module")
def server(module_repository, module_serve, trace_file):
    module_repository.add("m", MODEL, config("m", [("IN", "STRING", [1])], [("OUT", "STRING", [1])]))
    options = (f"triton,file={trace_file}", "level=TIMESTAMPS", "level=TENSORS", "rate=1")
    return module_serve(
        module_repository, *(f"--trace-config={option}" for option in options), "--http-header-forward-pattern=x-.*"
    )


def body(how, **more):
    return {**more, "inputs": [{"name": "IN", "shape": [1], "datatype": "BYTES", "data": [how]}]}


def test_metrics_are_those_that_there_are(server):
    status, _, page = server.request("GET", "/metrics", address=server.metrics)
    assert status == 200
    text = page.decode()
    assert "\nforged_metric" not in text
    lines = [line for line in text.split("\n") if "hostile" in line]
    escaped = TEXT.replace("\\", "\\\\").replace("\n", "\\n")
    quoted = escaped.replace('"', '\\"')
    assert lines == [f"# HELP hostile {escaped}", "# TYPE hostile gauge", f'hostile{{text="{quoted}"}} 0']
    assert server.json("POST", "/v2/models/m/infer", body("labels"))[0] == 200


def test_errors_are_told_to_the_letter(server):
    status, headers, answer = server.request("POST", "/v2/models/m/infer", json.dumps(body("error")))
    assert status == 500
    assert "Set-Cookie" not in headers
    assert json.loads(answer) == {"error": TEXT}
    request = service_pb2.ModelInferRequest(model_name="m")
    request.inputs.add(name="IN", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"error")
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelInfer(request, timeout=20)
        assert error.value.details() == TEXT
        assert {key for key, _ in error.value.trailing_metadata()} <= {"grpc-message", "grpc-status"}
        assert next(stub.ModelStreamInfer(iter([request]), timeout=20)).error_message == TEXT


def test_what_is_no_unicode_ends_its_request_alone(server):
    status, _, answer = server.request("POST", "/v2/models/m/infer", json.dumps(body("surrogates")))
    assert status == 500
    assert json.loads(answer)["error"]
    assert server.json("POST", "/v2/models/m/infer", body("answer"))[0] == 200


def test_answers_and_events(server):
    status, headers, answer = server.request("POST", "/v2/models/m/infer", json.dumps(body("answer", id=TEXT)))
    assert status == 200
    assert "Set-Cookie" not in headers
    value = json.loads(answer)
    assert (value["id"], value["parameters"]["text"], value["outputs"][0]["data"]) == (TEXT, TEXT, [TEXT])
    _, _, events = server.request("POST", "/v2/models/m/generate_stream", json.dumps({"IN": "answer"}))
    lines = [line for line in events.decode().split("\n") if line.strip()]
    assert len(lines) == 1
    assert json.loads(lines[0].removeprefix("data: "))["OUT"] == TEXT


def test_no_line_of_the_log_can_be_forged(server):
    assert server.json("POST", "/v2/models/m/infer", body("log"))[0] == 200
    server.wait_for_log(r"\] a\n    \\r\\t")
    server.wait_for_log(r"\] forged")
    log = server.log
    assert not re.search(r"^(E0101|forged_metric|Set-Cookie)", log, re.MULTILINE)
    assert not any(character in log for character in "\x1b\x7f\u2028\u202e\r")
    status, _, answer = server.request("GET", "/console/api/log", address=server.metrics)
    assert status == 200
    json.loads(answer)


def test_traces_have_what_was_said(server, trace_file):
    assert server.json("POST", "/v2/models/m/infer", body("error", id=TEXT))[0] == 500
    assert server.json("POST", "/v2/models/m/infer", body("answer", id=TEXT + "2"))[0] == 200

    def look():
        try:
            entries = json.loads(trace_file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):  # not there yet, or being written
            return False
        return {TEXT, TEXT + "2"} <= {entry.get("request_id") for entry in entries}

    wait_until(look, 10, "the traces")
    assert trace_file.stat().st_mode & 0o777 == 0o600


def test_names_of_clients_are_repeated_as_texts(server):
    bad = "\udc80".encode(errors="surrogateescape")
    for name in (TEXT.encode(), b"a" + bad + b'"\n'):
        quoted = "".join(f"%{byte:02x}" for byte in name)
        status, headers, answer = server.request("GET", f"/v2/models/{quoted}")
        assert status in (400, 404)
        assert "Set-Cookie" not in headers
        assert "error" in json.loads(answer)
    value = body("answer")
    value["inputs"][0]["name"] = TEXT
    answer = server.json("POST", "/v2/models/m/infer", value)
    assert answer == (400, {"error": f"unexpected inference input '{TEXT}' for model 'm'"})
