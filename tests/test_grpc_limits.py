"""Misuse of the gRPC port by one client, without effect on others."""

import json
import os
import signal
import struct
import time

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from harness import http2
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.repository import config
from harness.waiting import wait_until
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

LIVE = b"/inference.GRPCInferenceService/ServerLive"
INFER = b"/inference.GRPCInferenceService/ModelInfer"
REFUSED_STREAM = 7


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    module_repository.add_identity("echo")
    return module_serve(
        module_repository,
        "--grpc-max-input-size=1000000",
        "--grpc-max-concurrent-streams=200",
        "--max-connections=1000",
    )


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.fixture(autouse=True)
def others_are_served(server, stub):
    yield
    assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=10).live


def threads_of(server):
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


def test_a_client_that_opens_and_resets_is_sent_away(server):
    with http2.Connection(server.grpc) as connection:
        head = http2.call_head(LIVE)
        for first in range(1, 8000, 400):
            connection.send(
                b"".join(
                    http2.frame(http2.HEADERS, http2.END_HEADERS, stream, head)
                    + http2.frame(http2.RST_STREAM, 0, stream, struct.pack(">I", 8))
                    for stream in range(first, first + 400, 2)
                )
            )
        # The server closes with GOAWAY, which is lost if it crosses data that the client still sends.
        errors = [payload[4:8] for kind, _, _, payload in connection.frames() if kind == http2.GOAWAY]
        assert b"\0\0\0\0" not in errors


def test_a_client_that_opens_and_has_the_server_reset_is_sent_away(server):
    """A client whose streams are reset by the server, for windows that grow beyond 2^31 - 1, is disconnected."""
    with http2.Connection(server.grpc) as connection:
        head = http2.call_head(LIVE)
        answers = connection.frames()
        reset = 0
        for first in range(1, 8000, 200):
            streams = range(first, first + 200, 2)
            connection.send(
                b"".join(
                    http2.frame(http2.HEADERS, http2.END_HEADERS, stream, head)
                    + http2.frame(http2.WINDOW_UPDATE, 0, stream, struct.pack(">I", 2**31 - 1))
                    for stream in streams
                )
            )
            for kind, _, stream, payload in answers:
                reset += kind == http2.RST_STREAM
                if kind == http2.GOAWAY:
                    assert payload[4:8] == struct.pack(">I", 2)
                if kind == http2.RST_STREAM and stream == streams[-1]:
                    break
            else:
                break  # closed
        assert 1000 <= reset < 3000


def test_a_head_without_an_end_is_cut_off(server):
    with http2.Connection(server.grpc) as connection:
        flood = http2.frame(http2.HEADERS, 0, 1, http2.call_head(LIVE))
        flood += http2.frame(http2.CONTINUATION, 0, 1, http2.field(b"x", b"y" * 1000)) * 100
        connection.send(flood)
        assert all(stream == 0 for _, _, stream, _ in connection.frames())


def test_large_metadata_is_refused_by_name(stub):
    with pytest.raises(grpc.RpcError) as error:
        stub.ServerLive(service_pb2.ServerLiveRequest(), metadata=[("x", "y" * 40000)], timeout=10)
    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.value.details() == "the metadata of the call has more than 32768 bytes"


def test_many_fields_are_refused(stub):
    with pytest.raises(grpc.RpcError) as error:
        stub.ServerLive(service_pb2.ServerLiveRequest(), metadata=[("x", "y")] * 300, timeout=10)
    assert error.value.details() == "the metadata of the call has more than 256 fields"


@pytest.mark.parametrize(
    "frame",
    [
        http2.frame(http2.PING, 0, 0, b"12345678"),
        http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)),
    ],
    ids=["pings", "settings"],
)
def test_a_client_that_has_us_answer_and_does_not_read_is_sent_away(server, frame):
    with http2.Connection(server.grpc) as connection:
        while connection.send(frame * 1000):
            pass


def test_a_call_that_is_reset_before_it_began_harms_no_other(server):
    # As gRPC's C core does if a deadline expires before the call's headers were sent.
    with http2.Connection(server.grpc) as connection:
        head = http2.call_head(LIVE)
        connection.send(
            http2.frame(http2.HEADERS, http2.END_HEADERS, 1, head)
            + http2.frame(http2.RST_STREAM, 0, 3, struct.pack(">I", 8))
            + http2.frame(http2.HEADERS, http2.END_HEADERS, 5, head)
        )
        for stream in (1, 5):
            connection.send(http2.frame(http2.DATA, http2.END_STREAM, stream, bytes(5)))
            assert connection.wait_for(http2.DATA, stream) == b"\0\0\0\0\x02\x08\x01"


@pytest.mark.parametrize(
    ("timeout", "status"),
    [(b"99999999H", b"0"), (b"99999999M", b"0"), (b"10S", b"0"), (b"0m", b"4"), (b"soon", b"3"), (b"123456789S", b"3")],
)
def test_a_timeout_is_what_it_says_or_refused(server, timeout, status):
    with http2.Connection(server.grpc) as connection:
        head = http2.call_head(INFER, (b"grpc-timeout", timeout))
        connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, head))
        if status != b"0":
            assert http2.STATUS + b"\x01" + status in connection.wait_for(http2.HEADERS, 1)
            return
        message = infer_request(1).SerializeToString()
        body = b"\0" + struct.pack(">I", len(message)) + message
        connection.send(http2.frame(http2.DATA, http2.END_STREAM, 1, body))
        assert b"\x0a\x04echo" in connection.wait_for(http2.DATA, 1)


def test_a_message_of_2_gib_is_refused_by_its_length(server):
    with http2.Connection(server.grpc) as connection:
        connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.call_head(INFER)))
        connection.send(http2.frame(http2.DATA, 0, 1, b"\0" + struct.pack(">I", 1 << 31)))
        assert http2.STATUS + b"\x018" in connection.wait_for(http2.HEADERS, 1)  # RESOURCE_EXHAUSTED


def infer_request(values):
    request = service_pb2.ModelInferRequest(model_name="echo")
    request.inputs.add(name="IN", datatype="FP32", shape=[values])
    request.raw_input_contents.append(bytes(4 * values))
    return request


def test_a_message_over_the_limit_is_refused_whole_or_inflated(stub):
    request = infer_request(1 << 20)
    for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelInfer(request, compression=compression, timeout=20)
        assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "1000000" in error.value.details()


def test_a_small_message_that_inflates_to_much_costs_no_memory(server, stub):
    request = infer_request(2 << 20)
    before = resident_bytes(server)
    for call in [stub.ModelInfer.future(request, compression=grpc.Compression.Gzip, timeout=60) for _ in range(15)]:
        assert call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert resident_bytes(server) - before < 64 << 20


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_streams_beyond_the_limit_wait_for_others_and_need_no_threads(server, stub):
    before = threads_of(server)
    with http2.Connection(server.grpc) as connection:
        head = http2.call_head(b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        for stream in range(1, 601, 2):
            connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, head))
        # 200 are open; further ones are refused.
        assert struct.unpack(">I", connection.wait_for(http2.RST_STREAM, 599))[0] == REFUSED_STREAM
        assert threads_of(server) <= before + 2
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        with grpc.insecure_channel(server.grpc) as channel:
            answers = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
                iter([request]), timeout=10
            )
            names = [service.name for service in next(answers).list_services_response.service]
        assert "grpc.reflection.v1.ServerReflection" in names


def test_connections_beyond_the_limit_are_closed_and_counted(repository, serve):
    repository.add_identity("echo")
    server = serve(repository, "--max-connections=20", "--max-connections-per-address=10")
    log_before = server.log.count("--max-connections-per-address")
    wait_until(lambda: server.metric_values()["braid_connections"] == 0, 10, "the end of the first connections")
    open_ones = [http2.Connection(server.grpc) for _ in range(10)]
    try:
        for connection in open_ones:
            connection.wait_for(http2.SETTINGS)
        for _ in range(5):
            with http2.Connection(server.grpc) as refused:
                assert list(refused.frames()) == []
        # The metrics have their own port and connections.
        values = server.metric_values()
        assert values["braid_connections"] == 10
        assert values['braid_overload_refused_total{limit="max-connections-per-address"}'] == 5
        assert values['braid_overload_refused_total{limit="max-connections"}'] == 0
        assert server.log.count("--max-connections-per-address: one address has 10 connections open") == log_before + 1
    finally:
        for connection in open_ones:
            connection.socket.close()
    wait_until(lambda: server.metric_values()["braid_connections"] == 0, 10, "the end of the connections")
    assert server.request("GET", "/v2/health/live")[0] == 200


def test_another_protocol_on_the_port_is_closed(server):
    with http2.Connection(server.grpc, first=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") as connection:
        assert {kind for kind, *_ in connection.frames()} <= {http2.SETTINGS, http2.WINDOW_UPDATE, http2.GOAWAY}


def test_hundreds_of_idle_connections_cost_little(server):
    before = resident_bytes(server)
    idle = [http2.Connection(server.grpc) for _ in range(500)]
    try:
        for connection in idle:
            connection.wait_for(http2.SETTINGS)
        assert resident_bytes(server) - before < 500 * 64 * 1024
    finally:
        for connection in idle:
            connection.socket.close()
    wait_until(lambda: server.metric_values()["braid_connections"] < 5, 10, "the end of the connections")


def test_connections_that_end_with_what_they_send_are_closed(server):
    connections = [http2.Connection(server.grpc) for _ in range(50)]
    for connection in connections:
        connection.wait_for(http2.SETTINGS)
    # So that the server finds the last bytes, which need no answer, and the end together.
    os.kill(server.process.pid, signal.SIGSTOP)
    for connection in connections:
        connection.send(http2.frame(http2.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)))
        connection.socket.close()
    os.kill(server.process.pid, signal.SIGCONT)
    wait_until(lambda: server.metric_values()["braid_connections"] < 5, 10, "the end of the connections")


def test_a_connection_without_calls_is_asked_to_close_and_others_are_not(repository, serve):
    repository.add_identity("echo")
    server = serve(repository, "--grpc-max-connection-idle=400")
    with http2.Connection(server.grpc) as idle, http2.Connection(server.grpc) as busy:
        head = http2.call_head(b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        busy.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, head))
        assert idle.goaway() == (0, b"max_idle")
        assert list(idle.frames()) == []
        # Its call is still open, and is answered.
        busy.send(http2.frame(http2.DATA, http2.END_STREAM, 1))
        assert http2.STATUS + b"\x010" in busy.wait_for(http2.HEADERS, 1)


def test_limits_are_set_and_counted_by_the_names_of_their_options(repository, serve):
    repository.add_identity("echo")
    server = serve(
        repository,
        "--max-header-fields=20",
        "--http-max-header-size=2000",
        "--http-max-input-size=1000",
        "--grpc-max-input-size=1000",
        "--grpc-max-metadata-size=2000",
        "--grpc-max-concurrent-streams=3",
        "--grpc-max-resets-per-second=4",
        "--http-max-connection-idle=300",
    )
    assert server.request("GET", "/v2/health/live", headers={f"x-{i}": "y" for i in range(30)})[0] == 431
    assert server.request("GET", "/v2/health/live", headers={"x": "y" * 2000})[0] == 431
    assert server.request("POST", "/v2/models/echo/infer", b" " * 1001)[0] == 413
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for more in ([("x", "y")] * 30, [("x", "y" * 2000)]):
            with pytest.raises(grpc.RpcError) as error:
                stub.ServerLive(service_pb2.ServerLiveRequest(), metadata=more, timeout=10)
            assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelInfer(infer_request(300), timeout=10)
        assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    head = http2.call_head(LIVE)
    with http2.Connection(server.grpc) as connection:
        for stream in (1, 3, 5, 7):
            connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, head))
        assert struct.unpack(">I", connection.wait_for(http2.RST_STREAM, 7))[0] == REFUSED_STREAM
    with http2.Connection(server.grpc) as connection:
        for stream in range(1, 201, 2):
            connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, head))
            connection.send(http2.frame(http2.RST_STREAM, 0, stream, struct.pack(">I", 8)))
        list(connection.frames())
    with http2.Connection(server.http, first=b"") as idle:
        assert list(idle.frames()) == []
    values = server.metric_values()
    counted = {
        name.split('"')[1]: value
        for name, value in values.items()
        if name.startswith("braid_overload_refused_total") and value
    }
    assert counted == {
        "max-header-fields": 2,
        "http-max-header-size": 1,
        "http-max-input-size": 1,
        "grpc-max-input-size": 1,
        "grpc-max-metadata-size": 1,
        "grpc-max-concurrent-streams": 1,
        "grpc-max-resets-per-second": 1,
    }
    assert server.log.count("refusing clients that exceed the limit --") == len(counted)


# ---- Long texts of a client or a model -------------------------------------------------------------

LONG_NAME = "n" * (12 << 20)
REPEATED = "n" * 512 + "... (12582912 bytes)"
LONG_ERROR = "e" * 66_000
RAISES = f"""
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError({LONG_ERROR!r})) for _ in requests]
"""


def failed(call, request):
    with pytest.raises(grpc.RpcError) as error:
        call(request, timeout=20)
    return error.value.code(), error.value.details()


def test_errors_about_long_names_end_and_hold_nothing(repository, serve, tmp_path):
    repository.add_identity("echo")
    rule = {"identities": ["anonymous"], "apis": ["health", "metrics"]}
    (tmp_path / "policy.json").write_text(json.dumps({"rules": [rule]}))
    (tmp_path / "tokens").write_text("")
    server = serve(
        repository,
        f"--memory-max-bytes={128 << 20}",
        f"--token-file={tmp_path / 'tokens'}",
        f"--policy-file={tmp_path / 'policy.json'}",
    )
    before = resident_bytes(server)
    with grpc.insecure_channel(server.grpc) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        for _ in range(6):
            told = failed(check, health_pb2.HealthCheckRequest(service=LONG_NAME))
            assert told == (grpc.StatusCode.NOT_FOUND, f"unknown service '{REPEATED}'")
        # For a model without rights, whose name is in the text.
        code, text = failed(
            service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelMetadata,
            service_pb2.ModelMetadataRequest(name=LONG_NAME),
        )
        assert code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
        assert len(text) < 4096
        wait_until(lambda: server.metric_values()["braid_memory_used_bytes"] < 8 << 20, 10, "what the calls held")
        # A message and its copy during parsing, and the memory that the allocator keeps of both.
        assert resident_bytes(server) - before < 100 << 20
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < 5


def test_a_long_error_of_a_model_is_cut_in_trailers_alone(repository, serve, connect):
    repository.add("raises", RAISES, config("raises", [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])]))
    server = serve(repository)
    request = infer_request(1)
    request.model_name = "raises"
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        _, text = failed(stub.ModelInfer, request)
        assert text.startswith(LONG_ERROR[:4000])
        assert text.endswith("e... (66000 bytes)")
        assert len(text) == 4096
        assert next(stub.ModelStreamInfer(iter([request]), timeout=20)).error_message == LONG_ERROR
        # Other calls continue on each connection and stream.
        assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=10).live
    inputs = [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [1]}]
    assert server.json("POST", "/v2/models/raises/infer", {"inputs": inputs})[1] == {"error": LONG_ERROR}


def test_what_a_client_calls_things_is_repeated_in_part(server, stub):
    name = "n" * 70_000
    repeated = "n" * 512 + "... (70000 bytes)"
    unknown = f"Request for unknown model: '{repeated}' is not found"
    assert failed(stub.ModelMetadata, service_pb2.ModelMetadataRequest(name=name))[1] == unknown
    request = infer_request(1)
    request.model_name = name
    assert failed(stub.ModelInfer, request)[1] == unknown
    assert next(stub.ModelStreamInfer(iter([request]), timeout=20)).error_message == unknown
    request = infer_request(1)
    request.inputs[0].name = name
    unexpected = f"unexpected inference input '{repeated}' for model 'echo'"
    for text in (
        failed(stub.ModelInfer, request)[1],
        next(stub.ModelStreamInfer(iter([request]), timeout=20)).error_message,
        server.json("POST", "/v2/models/echo/infer", {"inputs": [json_input(name)]})[1]["error"],
    ):
        assert text == unexpected
    request = infer_request(1)
    request.id = name
    request.inputs[0].shape[0] = 2
    assert failed(stub.ModelInfer, request)[1].startswith(f"[request id: {repeated}] ")
    body = {"id": name, "inputs": [json_input("IN", [2])]}
    assert len(server.json("POST", "/v2/models/echo/infer", body)[1]["error"]) < 1000
    for more in ({"parameters": {name: {}}}, {"outputs": [{"name": name}]}, {"inputs": [json_input("IN"), {name: 1}]}):
        status, answer = server.json("POST", "/v2/models/echo/infer", {"inputs": [json_input("IN")], **more})
        assert status == 400
        assert len(answer["error"]) < 1000
    reflection = reflection_pb2.ServerReflectionRequest(file_by_filename=name)
    with grpc.insecure_channel(server.grpc) as channel:
        calls = reflection_pb2_grpc.ServerReflectionStub(channel)
        answer = next(calls.ServerReflectionInfo(iter([reflection]), timeout=10))
    assert answer.error_response.error_message == f"file '{repeated}' not found"


def json_input(name, shape=(1,)):
    return {"name": name, "datatype": "FP32", "shape": list(shape), "data": [1]}


# Fields that end a request before other fields are read.
CHOICES = {"version", "model_version", "version_label", "version_choice", "repository_name", "metadata_field"}
LEFT_OUT = [set(), CHOICES, {*CHOICES, "parameters"}, {*CHOICES, "parameters", "outputs"}]


def filled(message, text, name, left_out):
    """Fills a request's text fields with `text`, and fields that name a model with `name`."""
    for field in message.DESCRIPTOR.fields:
        if field.name in left_out or field.cpp_type not in (field.CPPTYPE_STRING, field.CPPTYPE_MESSAGE):
            continue
        value = getattr(message, field.name)
        if field.cpp_type == field.CPPTYPE_STRING:
            named = field.name in ("name", "model_name") and message.DESCRIPTOR.name.endswith(("Request", "ModelSpec"))
            one = name if named else text
            one = one.encode() if field.type == field.TYPE_BYTES else one
            setattr(message, field.name, one) if not field.is_repeated else value.append(one)
        elif field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                filled(value[text], text, name, left_out)
        elif field.message_type.file.name == method_file(message) or field.message_type.name == "ModelSpec":
            filled(value.add() if field.is_repeated else value, text, name, left_out)
    return message


def method_file(message):
    return message.DESCRIPTOR.file.name


@pytest.mark.parametrize("name", ["echo", "n" * 70_000], ids=["known", "unknown"])
def test_no_method_repeats_a_long_text_whole(repository, serve, tmp_path, name):
    repository.add_identity("echo")
    options = ["--model-control-mode=explicit", "--load-model=*", f"--trace-config=triton,file={tmp_path / 'trace'}"]
    server = serve(repository, *options, "--trace-config=level=TIMESTAMPS")
    told = set()
    with grpc.insecure_channel(server.grpc) as channel:
        described = ProtoReflectionDescriptorDatabase(channel)
        pool = descriptor_pool.DescriptorPool(described)
        methods = [
            (f"/{service}/{method.name}", message_factory.GetMessageClass(method.input_type))
            for service in described.get_services()
            if "reflection" not in service
            for method in pool.FindServiceByName(service).methods
        ]
        for path, request in sorted(methods, key=lambda method: "Unload" in method[0]):
            for left_out in LEFT_OUT:
                message = filled(request(), "n" * 70_000, name, left_out).SerializeToString()
                try:
                    answer = channel.unary_unary(path)(message, timeout=20)
                except grpc.RpcError as error:
                    assert error.code() != grpc.StatusCode.DEADLINE_EXCEEDED, path
                    answer = error.details().encode()
                    assert len(answer) < 2048, path
                    told.add(path)
                # A stream's answers contain the id of the request.
                assert "Stream" in path or b"n" * 600 not in answer, path
    assert len(told) > 15
    assert all(len(line) < 4096 for line in server.log.splitlines())


def test_servables_of_a_config_repeat_in_part_too(tmp_path):
    model = models.entry("dummy", models.save(models.add(), tmp_path / "dummy"))
    name = "n" * 70_000
    good = {"name": "b", "datatype": "FP32", "shape": [1, 10], "data": [0] * 10}
    told = []
    with OvmsServer({"model_config_list": [model]}, workdir=tmp_path) as server:
        for body in (
            {"inputs": [{**good, "name": name}]},
            {"inputs": [{**good, "datatype": name}]},
            {"inputs": [good], "outputs": [{"name": name}]},
            {"inputs": [good], "parameters": {name: [], "x": 1}},
            {"inputs": [{**good, "parameters": {"shared_memory_region": name}}]},
            {"inputs": [good, {**good, "name": name}]},
        ):
            told.append(server.request("POST", "/v2/models/dummy/infer", json.dumps(body)))
        for body in (
            {"inputs": {name: [[1]]}},
            {"instances": [{name: 1}]},
            {"signature_name": name, "instances": [[1]]},
        ):
            told.append(server.request("POST", "/v1/models/dummy:predict", json.dumps(body)))
        assert all(len(answer) < 2048 for status, _, answer in told if status != 200)
        assert [status for status, *_ in told].count(200) <= 2
        with grpc.insecure_channel(server.grpc) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            for fields in ({"name": name}, {"datatype": name}):
                request = service_pb2.ModelInferRequest(model_name="dummy")
                request.inputs.add(**{"name": "b", "datatype": "FP32", "shape": [1, 10], **fields})
                request.raw_input_contents.append(bytes(40))
                assert len(failed(stub.ModelInfer, request)[1]) < 2048
            for outputs in ([], [name]):
                request = predict_pb2.PredictRequest(output_filter=outputs)
                request.model_spec.name = "dummy"
                tensor = request.inputs[name if not outputs else "b"]
                tensor.dtype = 1
                for size in (1, 10):
                    tensor.tensor_shape.dim.add(size=size)
                tensor.tensor_content = bytes(40)
                predict = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict
                assert len(failed(predict, request)[1]) < 2048
        assert all(len(line) < 4096 for line in server.log.splitlines())
