"""Features only of gRPC: reflection, health, streams and their order (15.4), restrictions, cancellation."""

import json
import queue
import threading
import time

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from harness.clients import strings
from harness.repository import config, per_request
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [1])]

# Waits for the file that the request names, if any.
WAITS = per_request(
    """
    name = get(request, "IN")[0].decode()
    if name.startswith("wait-"):
        open(os.path.join(self.args["model_repository"], "STARTED"), "w").close()
        while not os.path.exists(os.path.join(self.args["model_repository"], name)):
            time.sleep(0.005)
    if name == "error":
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("as asked", pb_utils.TritonError.NOT_FOUND))
    return respond(OUT=get(request, "IN"))
    """
)


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    for name in ("slow", "quick", "waiter"):
        module_repository.add(name, WAITS, config(name, TEXT, OUT))
    module_repository.add(
        "headers",
        per_request("return respond(OUT=np.array([request.parameters().encode()], dtype=object))"),
        config("headers", TEXT, OUT),
    )
    return module_serve(module_repository, "--grpc-header-forward-pattern=x-forward-.*")


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(model, text, **fields):
    message = service_pb2.ModelInferRequest(model_name=model, **fields)
    message.inputs.add(name="IN", datatype="BYTES", shape=[1]).contents.bytes_contents.append(text.encode())
    return message


# ---- reflection and health -----------------------------------------------------------------------


def test_reflection_lists_the_services(server):
    with grpc.insecure_channel(server.grpc) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(database.get_services())
        file = database.FindFileContainingSymbol("inference.GRPCInferenceService")
        methods = {m.name for s in file.service for m in s.method}
        assert {"ModelInfer", "ModelStreamInfer", "ServerLive", "RepositoryIndex"} <= methods


def test_health(server):
    with grpc.insecure_channel(server.grpc) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_methods_that_do_not_exist_are_unimplemented(server):
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/Nope")
        with pytest.raises(grpc.RpcError) as error:
            call(b"", timeout=10)
        assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_garbage_is_refused_and_the_server_lives(server, stub):
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for garbage in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x3a\x80\x80\x80\x80\x08", bytes(range(256))):
            with pytest.raises(grpc.RpcError):
                call(garbage, timeout=10)
    assert stub.ServerLive(service_pb2.ServerLiveRequest()).live


# ---- unary ---------------------------------------------------------------------------------------


def test_response_carries_raw_contents_only(stub):
    response = stub.ModelInfer(request("quick", "x", id="i7"))
    assert response.model_name == "quick"
    assert response.model_version == "1"
    assert response.id == "i7"
    assert list(response.raw_output_contents) == [b"\x01\0\0\0x"]
    assert not response.outputs[0].HasField("contents")


def test_status_and_text_of_an_error(stub):
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(request("quick", "error"))
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert error.value.details() == "as asked"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (
            "sequence_id",
            service_pb2.InferParameter(bool_param=True),
            "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
        ),
        (
            "sequence_start",
            service_pb2.InferParameter(int64_param=1),
            "invalid value type for 'sequence_start' parameter",
        ),
        ("priority", service_pb2.InferParameter(string_param="x"), "invalid value type for 'priority' parameter"),
        ("timeout", service_pb2.InferParameter(string_param="x"), "invalid value type for 'timeout' parameter"),
    ],
)
def test_wrong_type_of_a_reserved_parameter(stub, key, value, text):
    message = request("quick", "x")
    message.parameters[key].CopyFrom(value)
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(message)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert text in error.value.details()


def test_deadline_ends_the_call_at_once(server, stub, module_repository):
    start = time.monotonic()
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(request("waiter", "wait-deadline"), timeout=0.5)
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - start < 3
    (module_repository.path / "waiter" / "wait-deadline").touch()
    assert stub.ModelInfer(request("waiter", "x"), timeout=20).raw_output_contents


def test_request_cancelled_in_the_queue_never_runs(server, stub, module_repository):
    folder = module_repository.path / "waiter"
    (folder / "STARTED").unlink(missing_ok=True)
    held = stub.ModelInfer.future(request("waiter", "wait-cancel"))
    wait_until((folder / "STARTED").exists, 20, "the first request")
    queued = stub.ModelInfer.future(request("waiter", "x"))
    pending = 'nv_inference_pending_request_count{model="waiter",version="1"}'
    wait_until(lambda: server.metric_values()[pending] == 1, 20, "the second request")
    canceled = 'nv_inference_request_failure{model="waiter",reason="CANCELED",version="1"}'
    before = server.metric_values()[canceled]
    queued.cancel()
    wait_until(lambda: server.metric_values()[canceled] == before + 1, 10, "the cancelled request to be counted")
    (folder / "wait-cancel").touch()
    held.result(20)


def test_forwarded_headers_become_parameters(stub):
    response = stub.ModelInfer(
        request("headers", "x"), metadata=[("x-forward-user", "anna"), ("x-other", "no"), ("x-forward-b", "2")]
    )
    seen = json.loads(response.raw_output_contents[0][4:])
    assert list(seen.items()) == [("x-forward-b", "2"), ("x-forward-user", "anna")]


@pytest.mark.parametrize("value", [" anna", "anna ", "a\\ ", "a, b", " ", ""])
def test_values_of_metadata_may_begin_and_end_with_blanks(stub, value):
    response = stub.ModelInfer(request("headers", "x"), metadata=[("x-forward-user", value)])
    assert json.loads(response.raw_output_contents[0][4:]) == {"x-forward-user": value}


def test_forwarded_binary_metadata_is_what_the_client_gave(stub):
    text = "äöü and no base64"
    response = stub.ModelInfer(request("headers", "x"), metadata=[("x-forward-bin", text.encode())])
    assert json.loads(response.raw_output_contents[0][4:]) == {"x-forward-bin": text}


def test_ten_million_strings(server, stub, module_repository):
    # The requests are counted, not run: no model here takes that many. The refusal must arrive within seconds.
    message = service_pb2.ModelInferRequest(model_name="quick")
    tensor = message.inputs.add(name="IN", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.extend([b"a"] * 2_000_000)
    start = time.monotonic()
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(message)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert time.monotonic() - start < 20


# ---- streams -------------------------------------------------------------------------------------


class Stream:
    """A ModelStreamInfer call that is fed by a queue."""

    def __init__(self, stub, metadata=None):
        self._queue = queue.SimpleQueue()
        self.call = stub.ModelStreamInfer(iter(self._queue.get, None), metadata=metadata)

    def send(self, message):
        self._queue.put(message)

    def done_writing(self):
        self._queue.put(None)

    def take(self, count):
        return [next(self.call) for _ in range(count)]


def test_stream_answers_in_the_order_of_the_requests(stub, module_repository):
    stream = Stream(stub)
    stream.send(request("slow", "wait-order", id="first"))
    for number in range(5):
        stream.send(request("quick", "x", id=f"later-{number}"))
    # The fast requests are done long before the slow one may end.
    timer = threading.Timer(0.3, (module_repository.path / "slow" / "wait-order").touch)
    timer.start()
    ids = [r.infer_response.id for r in stream.take(6)]
    assert ids == ["first", *(f"later-{n}" for n in range(5))]
    stream.done_writing()
    assert list(stream.call) == []
    assert stream.call.code() == grpc.StatusCode.OK


def test_every_stream_response_says_whether_it_is_the_last(stub):
    stream = Stream(stub)
    stream.send(request("quick", "x", id="a"))
    (answer,) = stream.take(1)
    assert answer.error_message == ""
    assert answer.infer_response.parameters["triton_final_response"].bool_param is True
    assert answer.infer_response.id == "a"
    stream.done_writing()
    assert list(stream.call) == []


def test_stream_errors_are_in_band(stub):
    stream = Stream(stub)
    stream.send(request("quick", "error", id="e"))
    stream.send(request("nope", "x", id="n"))
    stream.send(request("quick", "x", id="g"))
    failed, unknown, good = stream.take(3)
    assert failed.error_message == "as asked"
    assert failed.infer_response.id == "e"
    assert not failed.infer_response.outputs
    assert "Request for unknown model: 'nope' is not found" in unknown.error_message
    assert good.error_message == ""
    assert good.infer_response.id == "g"
    stream.done_writing()
    assert list(stream.call) == []
    assert stream.call.code() == grpc.StatusCode.OK


def test_stream_can_end_with_the_status_of_its_first_error(stub):
    stream = Stream(stub, metadata=[("triton_grpc_error", "true")])
    stream.send(request("quick", "x", id="a"))
    assert stream.take(1)[0].infer_response.id == "a"
    stream.send(request("quick", "error", id="e"))
    with pytest.raises(grpc.RpcError) as error:
        list(stream.call)
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert error.value.details() == "as asked"
    stream.done_writing()


def test_half_close_waits_for_pending_responses(stub, module_repository):
    stream = Stream(stub)
    stream.send(request("slow", "wait-half", id="pending"))
    stream.done_writing()
    threading.Timer(0.2, (module_repository.path / "slow" / "wait-half").touch).start()
    assert [r.infer_response.id for r in stream.call] == ["pending"]
    assert stream.call.code() == grpc.StatusCode.OK


def test_cancelled_stream(stub, module_repository):
    stream = Stream(stub)
    stream.send(request("slow", "wait-cut", id="cut"))
    threading.Timer(0.2, stream.call.cancel).start()
    with pytest.raises(grpc.RpcError) as error:
        list(stream.call)
    assert error.value.code() == grpc.StatusCode.CANCELLED
    (module_repository.path / "slow" / "wait-cut").touch()
    stream.done_writing()
    assert stub.ModelInfer(request("slow", "x"), timeout=20).raw_output_contents


def test_stream_through_the_public_client(server, connect):
    client = connect("grpc", server).raw
    answers = queue.SimpleQueue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    module = __import__("tritonclient.grpc", fromlist=["InferInput"])
    for number in range(20):
        tensor = module.InferInput("IN", [1], "BYTES")
        tensor.set_data_from_numpy(strings(f"text {number}"))
        client.async_stream_infer("quick", [tensor], request_id=str(number))
    for number in range(20):
        result, error = answers.get(timeout=20)
        assert error is None
        assert result.as_numpy("OUT")[0].decode() == f"text {number}"
    client.stop_stream()


def test_many_streams_at_once(stub):
    streams = [Stream(stub) for _ in range(20)]
    for number in range(10):
        for place, stream in enumerate(streams):
            stream.send(request("quick", f"{place}-{number}", id=f"{place}-{number}"))
    for place, stream in enumerate(streams):
        stream.done_writing()
        assert [r.infer_response.id for r in stream.call] == [f"{place}-{n}" for n in range(10)]


# ---- restrictions --------------------------------------------------------------------------------


def test_restricted_protocol(repository, serve):
    repository.add_identity("a", "FP32", [1])
    server = serve(repository, "--grpc-restricted-protocol=model-repository,inference:admin=secret")
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
        for metadata in ([], [("triton-grpc-protocol-admin", "wrong")]):
            with pytest.raises(grpc.RpcError) as error:
                stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(), metadata=metadata)
            assert error.value.code() == grpc.StatusCode.UNAVAILABLE
            assert error.value.details() == (
                "This protocol is restricted, expecting header 'triton-grpc-protocol-admin'"
            )
        right = [("triton-grpc-protocol-admin", "secret")]
        assert stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(), metadata=right).models
        with pytest.raises(grpc.RpcError) as error:
            list(stub.ModelStreamInfer(iter([service_pb2.ModelInferRequest(model_name="a")])))
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    assert server.request("POST", "/v2/repository/index")[0] == 200


def test_big_messages_pass(repository, serve, connect):
    repository.add_identity("big")
    client = connect("grpc", serve(repository))
    sent = np.arange(16 * 2**20 // 4, dtype=np.float32)
    assert np.array_equal(client.infer("big", {"IN": sent}).as_numpy("OUT"), sent)
