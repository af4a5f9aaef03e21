"""gRPC's public clients for Node and for Java. Other tests use those of C++ and Python, and Go's in grpcurl."""

import json
import subprocess

import numpy as np
import pytest
from harness.public_clients import (
    ERROR,
    add_models,
    add_sub_request,
    array_request,
    call,
    grpc_java,
    grpc_js,
    text_of,
    text_request,
)
from harness.server import BINARY
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2


@pytest.fixture(scope="module")
def models(module_repository):
    return add_models(module_repository)


@pytest.fixture(scope="module", params=["grpc-js", "grpc-java"])
def client(request, tmp_path_factory):
    return grpc_js() if request.param == "grpc-js" else grpc_java(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def server(client, models, module_serve):
    # After the check for the client: without one, no server is needed.
    return module_serve(models, "--grpc-header-forward-pattern=x-forward-.*")


def test_unary_calls(server, client):
    live, ready, metadata, inference = client.calls(
        server.grpc,
        call("ServerLive", service_pb2.ServerLiveRequest()),
        call("ModelReady", service_pb2.ModelReadyRequest(name="add_sub")),
        call("ModelMetadata", service_pb2.ModelMetadataRequest(name="add_sub")),
        call("ModelInfer", add_sub_request(id="one")),
    )
    assert live.response.live
    assert ready.response.ready
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.response.inputs] == [
        ("INPUT0", "FP32", [4]),
        ("INPUT1", "FP32", [4]),
    ]
    answer = inference.response
    assert (answer.model_name, answer.model_version, answer.id) == ("add_sub", "1", "one")
    assert [(t.name, t.datatype, list(t.shape)) for t in answer.outputs] == [
        ("OUTPUT0", "FP32", [4]),
        ("OUTPUT1", "FP32", [4]),
    ]
    values = [np.frombuffer(raw, np.float32).tolist() for raw in answer.raw_output_contents]
    assert values == [[11, 22, 33, 44], [-9, -18, -27, -36]]


def test_fifty_calls_at_once(server, client):
    sent = [np.arange(number, number + 1000, dtype=np.float32) for number in range(50)]
    (results,) = client.calls(
        server.grpc, call("ModelInfer", *(array_request(each, id=str(n)) for n, each in enumerate(sent)))
    )
    assert len(results) == 50
    for number, (result, array) in enumerate(zip(results, sent, strict=True)):
        assert result.response.id == str(number)
        assert np.array_equal(np.frombuffer(result.response.raw_output_contents[0], np.float32), array)


def test_a_deadline(server, client, models):
    late, next_one = client.calls(
        server.grpc,
        call("ModelInfer", text_request("patient", "late"), deadline_ms=1000),
        call("ModelInfer", array_request(np.ones(3, np.float32))),
    )
    assert late.code == "DEADLINE_EXCEEDED"
    assert 900 < late.ms < 10_000
    wait_until((models.path / "patient" / "late-cancelled").exists, what="the end of the model's work")
    assert next_one.response.outputs[0].shape == [3]


def test_a_cancelled_stream(server, client, models):
    folder = models.path / "patient"
    cancelled, next_one = client.calls(
        server.grpc,
        call(
            "ModelStreamInfer",
            text_request("headers", "x", id="before"),
            text_request("patient", "cut"),
            cancel_when=str(folder / "cut-started"),
        ),
        call("ModelInfer", array_request(np.ones(3, np.float32))),
    )
    assert cancelled.code == "CANCELLED"
    wait_until((folder / "cut-cancelled").exists, what="the end of the model's work")
    assert next_one.response.outputs[0].shape == [3]


def test_metadata(server, client):
    (result,) = client.calls(
        server.grpc,
        call(
            "ModelInfer",
            text_request("headers", "x"),
            metadata={"x-forward-text": "a, b", "x-forward-bin": "äöü", "x-other": "not for models"},
        ),
    )
    assert json.loads(text_of(result.response)) == {"x-forward-text": "a, b", "x-forward-bin": "äöü"}


@pytest.mark.parametrize("options", [{}, {"compressed": True}], ids=["plain", "gzip"])
def test_a_large_message(server, client, options):
    sent = np.arange(8 * 2**20 // 4, dtype=np.float32)
    (result,) = client.calls(server.grpc, call("ModelInfer", array_request(sent)), **options)
    assert result.response.raw_output_contents[0] == sent.tobytes()


def test_errors(server, client):
    failed, unknown, wrong = client.calls(
        server.grpc,
        call("ModelInfer", text_request("failing", "x")),
        call("ModelInfer", text_request("nope", "x")),
        call("ModelInfer", array_request(np.ones((2, 2), np.float32))),
    )
    assert (failed.code, failed.details) == ("NOT_FOUND", ERROR)
    assert unknown.code == "NOT_FOUND"
    assert "Request for unknown model: 'nope' is not found" in unknown.details
    assert wrong.code == "INVALID_ARGUMENT"
    assert "unexpected shape for input 'IN' for model 'echo'" in wrong.details


def test_a_stream(server, client):
    requests = [text_request("headers", "x", id=str(number)) for number in range(20)]
    requests.insert(10, text_request("failing", "x", id="failing"))
    (stream,) = client.calls(server.grpc, call("ModelStreamInfer", *requests))
    assert (stream.code, stream.details.replace("OK", "")) == ("OK", "")
    ids = [each.infer_response.id for each in stream.responses]
    assert ids == [each.id for each in requests]
    assert [each.error_message for each in stream.responses] == [""] * 10 + [ERROR] + [""] * 10


def test_a_stream_of_more_than_the_window_holds(server, client):
    request = text_request("repeat", "1000")
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    (stream,) = client.calls(server.grpc, call("ModelStreamInfer", request))
    assert stream.code == "OK"
    *answers, last = [each.infer_response for each in stream.responses]
    assert [text_of(each) for each in answers] == [f"{number} " + "x" * 5000 for number in range(1000)]
    assert last.parameters["triton_final_response"].bool_param


def test_tls(client, models, serve, tmp_path):
    subprocess.run([BINARY.parent / "tests" / "native" / "make_certificates", tmp_path], check=True)
    options = [
        "--grpc-use-ssl",
        f"--grpc-server-cert={tmp_path}/server.pem",
        f"--grpc-server-key={tmp_path}/server.key",
    ]
    server = serve(models, *options)
    sent = np.arange(2**20, dtype=np.float32)
    large, failed = client.calls(
        server.grpc,
        call("ModelInfer", array_request(sent)),
        call("ModelInfer", text_request("failing", "x")),
        ca=str(tmp_path / "root.pem"),
    )
    assert large.response.raw_output_contents[0] == sent.tobytes()
    assert (failed.code, failed.details) == ("NOT_FOUND", ERROR)


def test_pings_during_a_call(models, serve):
    # Only Node's: Java's client pings every ten seconds at most.
    client = grpc_js()
    inference = call("ModelInfer", text_request("slow", "x"))
    (refused,) = client.calls(serve(models).grpc, inference, keepalive_ms=20)
    assert refused.code == "RESOURCE_EXHAUSTED"
    server = serve(models, "--grpc-http2-min-recv-ping-interval-without-data=1")
    (result,) = client.calls(server.grpc, inference, keepalive_ms=20)
    assert text_of(result.response) == "x"
