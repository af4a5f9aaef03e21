"""Requests when clients have used up the server's memory for them."""

import contextlib
import gzip
import http.client
import json
import os
import queue
import socket
import struct
import time

import grpc
import pytest
from harness import http2
from harness.repository import config, per_request
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

MIB = 1 << 20
BUDGET = 64 * MIB
INFER = b"/inference.GRPCInferenceService/ModelInfer"
USED_UP = f"the server's memory for requests is used up (--memory-max-bytes={BUDGET}); try again later"


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    module_repository.add_identity("echo")
    return module_serve(module_repository, f"--memory-max-bytes={BUDGET}")


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.grpc, [("grpc.max_receive_message_length", -1)]) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.fixture(autouse=True)
def all_is_given_back(server):
    yield
    wait_until(lambda: used(server) < 6 * MIB, 20, "what the clients held")


def used(server):
    return server.metric_values()["braid_memory_used_bytes"]


def refused_of(server, limit):
    return server.metric_values()[f'braid_overload_refused_total{{limit="{limit}"}}']


def resident(server):
    with open(f"/proc/{server.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def request(values=4):
    made = service_pb2.ModelInferRequest(model_name="echo", id="7")
    made.inputs.add(name="IN", datatype="FP32", shape=[values])
    made.raw_input_contents.append(struct.pack("<f", 2.5) * values)
    return made


def json_request(values=4):
    return json.dumps({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [values], "data": [2.5] * values}]})


class Body:
    """An HTTP request whose body the test sends in pieces."""

    def __init__(self, server, size, *headers):
        host, _, port = server.http.rpartition(":")
        self.socket = socket.create_connection((host.removeprefix("http://"), int(port)), timeout=20)
        fields = "".join(f"{header}\r\n" for header in headers)
        self.send(
            f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {size}\r\n\r\n".encode()
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def answer(self):
        """Returns the server's answer so far, or up to the end of the connection."""
        return self.socket.recv(1 << 16)


class Stream:
    """A ModelStreamInfer call that has had one answer."""

    def __init__(self, stub):
        self._requests = queue.SimpleQueue()
        self.write = self._requests.put
        self.answers = stub.ModelStreamInfer(iter(self._requests.get, None), timeout=60)
        self.write(request())
        assert next(self.answers).error_message == ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.write(None)
        assert list(self.answers) == []


@contextlib.contextmanager
def held_by_bodies(server, *sizes):
    """Sends parts of bodies; their rest never follows."""
    with contextlib.ExitStack() as stack:
        for size in sizes:
            stack.enter_context(Body(server, size + 1)).send(b" " * size)
        wait_until(lambda: used(server) >= sum(sizes), 20, "the bodies")
        yield


def test_new_requests_are_refused_when_memory_is_used_up_and_all_else_is_answered(server, stub):
    before = refused_of(server, "memory-max-bytes")
    with Stream(stub) as stream, held_by_bodies(server, 32 * MIB, 30 * MIB):
        status, headers, body = http_infer(server)
        assert (status, headers["Retry-After"], json.loads(body)) == (429, "1", {"error": USED_UP})
        with pytest.raises(grpc.RpcError) as refused:
            stub.ModelInfer(request(), timeout=20)
        assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, USED_UP)
        # An open stream continues: each of its requests gets its own answer.
        stream.write(request())
        stream.write(request())
        assert [next(stream.answers).error_message for _ in range(2)] == [USED_UP, USED_UP]
        assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=20).live
        assert stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="echo"), timeout=20).name == "echo"
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/echo"):
            assert server.request("GET", path)[0] == 200
        values = server.metric_values()
        assert refused_of(server, "memory-max-bytes") == before + 4
        assert values["braid_memory_max_bytes"] == BUDGET
        assert server.log.count("--memory-max-bytes: requests hold") == 1
    wait_until(lambda: used(server) < 6 * MIB, 20, "what the clients held")
    assert http_infer(server)[0] == 200
    assert stub.ModelInfer(request(), timeout=20).raw_output_contents[0] == struct.pack("<f", 2.5) * 4


def http_infer(server, body=None):
    connection = http.client.HTTPConnection(server.http.removeprefix("http://"), timeout=20)
    with contextlib.closing(connection):
        connection.request("POST", "/v2/models/echo/infer", body or json_request())
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def test_bodies_that_grow_beyond_it_are_answered_and_not_read(server):
    before = resident(server)
    refused_before = refused_of(server, "memory-max-bytes")
    with contextlib.ExitStack() as stack:
        bodies = [stack.enter_context(Body(server, 40 * MIB)) for _ in range(3)]
        answered = lost = 0
        for _ in range(39):
            for body in list(bodies):
                try:
                    body.send(b" " * MIB)
                except ConnectionError:
                    # The server has closed the connection; its answer may be lost with it.
                    bodies.remove(body)
                    lost += 1
            assert used(server) < BUDGET + 2 * MIB
            # Memory of a refused body is free at once, and returned to the system a moment later.
            assert resident(server) - before < BUDGET + 56 * MIB
        for body in bodies:
            body.socket.settimeout(0.3)
            with contextlib.suppress(TimeoutError, ConnectionError):
                answered += body.answer().startswith(b"HTTP/1.1 429 ")
        assert answered + lost >= 1
    assert refused_of(server, "memory-max-bytes") >= refused_before + 1


def test_messages_that_grow_beyond_it_are_answered_and_not_read(server):
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(http2.Connection(server.grpc)) for _ in range(8)]
        for connection in connections:
            connection.acknowledge()
        # As much as the windows of connection and stream allow: 15 MiB and 3 MiB.
        for stream in range(1, 11, 2):
            for connection in connections:
                connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.call_head(INFER)))
                connection.send(http2.frame(http2.DATA, 0, stream, b"\0" + struct.pack(">I", 40 * MIB)))
                for _ in range(3):
                    connection.send(http2.frame(http2.DATA, 0, stream, bytes(MIB - 9)))
            assert used(server) < BUDGET + 4 * MIB
        # The last ones did not fit.
        assert any(
            kind == http2.HEADERS and http2.STATUS + b"\x018" in payload
            for kind, _, _, payload in connections[-1].frames()
        )


def test_what_is_announced_and_does_not_come_counts_nothing(server, stub):
    head, size = binary_head(15 * MIB)
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            body = stack.enter_context(Body(server, len(head) + size, f"Inference-Header-Content-Length: {len(head)}"))
            body.send(head + b"x" * 1000)
        for _ in range(50):
            connection = stack.enter_context(http2.Connection(server.grpc))
            connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.call_head(INFER)))
            connection.send(http2.frame(http2.DATA, 0, 1, b"\0" + struct.pack(">I", size)))
        time.sleep(0.3)
        assert used(server) < 16 * MIB
        assert stub.ModelInfer(request(), timeout=20).raw_output_contents[0] == struct.pack("<f", 2.5) * 4


def test_answers_that_are_not_read_count(server):
    head, size = binary_head(2 * MIB)
    with contextlib.ExitStack() as stack:

        def refused_behind_another_answer():
            body = stack.enter_context(Body(server, len(head) + size, f"Inference-Header-Content-Length: {len(head)}"))
            with contextlib.suppress(ConnectionError):  # the body may be refused, too
                body.send(head)
                body.send(bytes(size))
                # The request has ended, so that only its answer counts.
                body.socket.recv(1, socket.MSG_PEEK)
            return http_infer(server)[0] == 429

        assert any(refused_behind_another_answer() for _ in range(20))


def binary_head(values):
    """Returns the JSON part of a request, which asks for the same form, and the size of the tensor after it."""
    data = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [values], "parameters": {"binary_data_size": 4 * values}}],
            "parameters": {"binary_data_output": True}}  # fmt: skip
    return json.dumps(data).encode(), 4 * values


def test_large_requests_wait_for_others_and_are_all_answered(server, stub):
    before = server.metric_values()["braid_overload_held_back_total"]
    with held_by_bodies(server, 26 * MIB, 26 * MIB):
        started = time.monotonic()
        answer = stub.ModelInfer(request(500_000), timeout=20)
        assert len(answer.raw_output_contents[0]) == 2_000_000
        assert time.monotonic() - started > 0.9
        # Small requests do not wait.
        held_back = server.metric_values()["braid_overload_held_back_total"]
        assert held_back > before
        assert http_infer(server)[0] == 200
        assert server.metric_values()["braid_overload_held_back_total"] == held_back


def test_bodies_and_messages_that_come_too_slowly_end(repository, serve):
    repository.add_identity("echo")
    server = serve(repository, "--request-body-timeout-ms=400")
    with Body(server, 1000) as body, http2.Connection(server.grpc) as slow, http2.Connection(server.grpc) as late:
        for connection in (slow, late):
            connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.call_head(INFER)))
        body.send(b"{")
        slow.send(http2.frame(http2.DATA, 0, 1, b"\0" + struct.pack(">I", 1000) + b"x"))
        answer = slow.wait_for(http2.HEADERS, 1)
        assert http2.STATUS + b"\x014" in answer
        assert body.answer() == b""
        assert refused_of(server, "request-body-timeout-ms") == 2
        # An unfinished call that has sent no part of a message may last.
        message = request().SerializeToString()
        late.send(http2.frame(http2.DATA, http2.END_STREAM, 1, b"\0" + struct.pack(">I", len(message)) + message))
        assert b"echo" in late.wait_for(http2.DATA, 1)


def test_others_do_not_wait_while_much_json_is_read(repository, serve):
    repository.add_identity("echo")
    server = serve(repository, "--http-thread-count=1")
    # 60 KB that decompress to 60 MB.
    bomb = gzip.compress(b'{"inputs":[' + b" " * (60 * MIB) + b"]}")
    with Body(server, len(bomb), "Content-Encoding: gzip") as body:
        body.send(bomb)
        for _ in range(3):
            assert server.request("GET", "/v2/health/live")[0] == 200
        body.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            body.answer()
        body.socket.settimeout(60)
        assert body.answer().startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("values", [8 * MIB, pytest.param(50 * MIB, marks=pytest.mark.campaign)])
def test_others_do_not_wait_while_a_message_is_inflated(repository, serve, values):
    repository.add_identity("echo")
    server = serve(repository, "--grpc-infer-thread-count=1", "--grpc-max-input-size=300000000")
    with grpc.insecure_channel(server.grpc, [("grpc.max_receive_message_length", -1)]) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        large = stub.ModelInfer.future(request(values), compression=grpc.Compression.Gzip, timeout=60)
        answered_before = 0
        while not large.done():
            assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=60).live
            answered_before += 1
        assert large.result().raw_output_contents[0] == struct.pack("<f", 2.5) * values
        assert answered_before > 10


def test_a_message_that_cannot_be_inflated_ends_its_call_alone(server, stub):
    with http2.Connection(server.grpc) as connection:
        connection.acknowledge()
        head = http2.call_head(INFER, (b"grpc-encoding", b"gzip"))
        connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, head))
        body = b"\1" + struct.pack(">I", 5000) + bytes(5000)
        connection.send(http2.frame(http2.DATA, http2.END_STREAM, 1, body))
        assert http2.STATUS + b"\x013" in connection.wait_for(http2.HEADERS, 1)
    assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=20).live


# Holds large requests while the file "wait" exists in its repository.
WAITS = per_request(
    """
    while get(request, "IN").size > 4 and os.path.exists(os.path.join(self.args["model_repository"], "wait")):
        time.sleep(0.01)
    return respond(OUT=get(request, "IN"))
    """
)


def test_a_slow_model_does_not_take_the_room_of_others(repository, serve):
    folder = repository.add("slow", WAITS, config("slow", [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])]))
    (folder / "wait").touch()
    repository.add_identity("echo")
    server = serve(repository, f"--model-max-queued-bytes={10 * MIB}")
    text = f"queued requests for 'slow' exceed the limit of input bytes (--model-max-queued-bytes={10 * MIB})"
    large = request(MIB)
    large.model_name = "slow"
    with grpc.insecure_channel(server.grpc, [("grpc.max_receive_message_length", -1)]) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        first = [stub.ModelInfer.future(large, timeout=60) for _ in range(2)]
        wait_until(lambda: server.metric_values()['nv_inference_pending_request_count{model="slow",version="1"}'], 20)
        with pytest.raises(grpc.RpcError) as raised:
            stub.ModelInfer(large, timeout=60)
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert raised.value.details().startswith(text)
        body = b"\0" * (4 * MIB)
        head = json.dumps(
            {
                "inputs": [
                    {"name": "IN", "datatype": "FP32", "shape": [MIB], "parameters": {"binary_data_size": 4 * MIB}}
                ]
            }
        )
        status, headers, answer = server.request(
            "POST",
            "/v2/models/slow/infer",
            head.encode() + body,
            {"Inference-Header-Content-Length": str(len(head))},
        )
        assert (status, headers["Retry-After"]) == (429, "1")
        assert json.loads(answer)["error"].startswith(text)
        stream = stub.ModelStreamInfer(iter([large]), timeout=60)
        assert next(stream).error_message.startswith(text)
        # Other requests have room, and so have small ones.
        assert len(stub.ModelInfer(request(MIB), timeout=60).raw_output_contents[0]) == 4 * MIB
        assert refused_of(server, "model-max-queued-bytes") == 3
        assert server.log.count("--model-max-queued-bytes: queued requests for 'slow'") == 1
        (folder / "wait").unlink()
        for one in first:
            assert len(one.result().raw_output_contents[0]) == 4 * MIB
        assert len(stub.ModelInfer(large, timeout=60).raw_output_contents[0]) == 4 * MIB
