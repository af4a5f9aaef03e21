"""A server whose allocations fail at random: requests get an answer or an error, and the server survives."""

import collections
import contextlib
import os
import re
import signal
import socket
import threading
import time

import grpc
import numpy as np
import pytest
from harness import http2
from harness.clients import Client
from harness.repository import config, per_request
from harness.server import BINARY
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

ALLOCATOR = BINARY.parent / "tests" / "native" / "libfailing_allocator.so"
ONE_IN = 200
SECONDS = 4

CALLER = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            call = pb_utils.InferenceRequest(
                model_name="plain",
                requested_output_names=["OUT"],
                inputs=[pb_utils.get_input_tensor_by_name(request, "IN")],
            )
            answer = call.exec()
            if answer.has_error():
                responses.append(pb_utils.InferenceResponse(error=answer.error()))
            else:
                responses.append(pb_utils.InferenceResponse(answer.output_tensors()))
        return responses
"""

REPEATER = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            value = pb_utils.get_input_tensor_by_name(request, "IN")
            for _ in range(3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value.as_numpy())]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

DOUBLE = per_request("return respond(OUT=get(request, 'IN') * 2)")
ENSEMBLE = """
platform: "ensemble"
ensemble_scheduling {
  step [
    { model_name: "plain" model_version: -1 input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "MID" } },
    { model_name: "batched" model_version: -1 input_map { key: "IN" value: "MID" } output_map { key: "OUT" value: "OUT" } }
  ]
}
"""
FACTORS = {"plain": 2, "batched": 2, "cached": 2, "caller": 2, "chain": 4}


def fill(repository):
    tensors = {"inputs": [("IN", "INT32", [-1, -1])], "outputs": [("OUT", "INT32", [-1, -1])]}
    rows = {"inputs": [("IN", "INT32", [-1])], "outputs": [("OUT", "INT32", [-1])]}
    repository.add("plain", DOUBLE, config(**tensors))
    batching = "dynamic_batching { max_queue_delay_microseconds: 500 }"
    repository.add("batched", DOUBLE, config(**rows, max_batch_size=8, extra=batching))
    repository.add("cached", DOUBLE, config(**tensors, extra="response_cache { enable: true }"))
    repository.add("caller", CALLER, config(**tensors))
    decoupled = "model_transaction_policy { decoupled: true }"
    repository.add("repeater", REPEATER, config(**tensors, extra=decoupled))
    repository.add("chain", None, config(**tensors, backend=None, extra=ENSEMBLE))


class Load:
    """Threads that send requests until stopped, and count right answers, and errors by text."""

    def __init__(self, server):
        self.server = server
        self.stopping = threading.Event()
        self.heard = collections.Counter()
        self.wrong = []
        self.lock = threading.Lock()
        work = [(self.unary, protocol, model) for protocol in ("grpc", "http") for model in FACTORS]
        work.append((self.stream, "grpc", "repeater"))
        self.threads = [threading.Thread(target=self.run, args=item, daemon=True) for item in work]
        for thread in self.threads:
            thread.start()

    def note(self, what):
        with self.lock:
            self.heard[what] += 1

    def run(self, ask, protocol, model):
        for number in range(1, 1_000_000):
            if self.stopping.is_set():
                return
            value = np.array([[number, number + 1]], np.int32)
            try:
                ask(protocol, model, value)
                self.note("right")
            except AssertionError as error:
                self.wrong.append(f"{protocol} {model}: {error}")
            except InferenceServerException as error:
                self.note(f"{error.status()}: {error.message()}"[:100])
            except Exception as error:  # the connection was cut
                self.note(type(error).__name__)

    def unary(self, protocol, model, value):
        client = Client(protocol, self.server)
        try:
            answer = client.infer(model, {"IN": value}, **({"client_timeout": 20} if protocol == "grpc" else {}))
            assert (answer.as_numpy("OUT") == value * FACTORS[model]).all(), answer.as_numpy("OUT")
        finally:
            client.close()

    def stream(self, protocol, model, value):
        answers = []
        ended = threading.Event()

        def hear(result, error):
            answers.append(error if error is not None else result)
            final = error is not None or result.get_response().parameters["triton_final_response"].bool_param
            if final:
                ended.set()

        client = Client(protocol, self.server)
        try:
            client.raw.start_stream(hear)
            inputs = [client.input("IN", value)]
            client.raw.async_stream_infer(model, inputs, enable_empty_final_response=True)
            assert ended.wait(20), f"no end after {answers}"
            heard = list(answers)  # the end of the stream is included
        finally:
            client.raw.stop_stream(cancel_requests=True)
            client.close()
        for answer in heard:
            if isinstance(answer, Exception):
                raise answer
            if answer.as_numpy("OUT") is not None:
                assert (answer.as_numpy("OUT") == value).all()
        assert sum(answer.as_numpy("OUT") is not None for answer in heard) == 3

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive(), "a request was never answered"


def test_failed_allocations_cost_requests_and_not_the_server(repository, serve):
    fill(repository)
    server = serve(
        repository,
        "--cache-config=local,size=4096",  # so small that responses are always being evicted
        env={"LD_PRELOAD": str(ALLOCATOR), "BRAID_FAIL_ONE_IN": str(ONE_IN)},
    )
    os.kill(server.process.pid, signal.SIGUSR1)
    load = Load(server)
    time.sleep(SECONDS)  # the duration of the test
    os.kill(server.process.pid, signal.SIGUSR2)
    load.stop()
    assert not load.wrong
    assert server.process.poll() is None, server.log
    assert load.heard["right"] > 100, load.heard
    exhausted = {text: count for text, count in load.heard.items() if "out of memory" in text}
    assert sum(exhausted.values()) > 10, load.heard
    assert any(text.startswith("StatusCode.RESOURCE_EXHAUSTED") for text in exhausted), exhausted
    assert any(text.startswith("429") for text in exhausted), exhausted

    # The server is undamaged: each model answers, repeatedly.
    load = Load(server)
    wait_until(lambda: load.heard["right"] > 200, 30, "right answers")
    load.stop()
    assert not load.wrong
    assert set(load.heard) == {"right"}, load.heard
    assert server.json("POST", "/v2/repository/index", {})[0] == 200
    pending = {name: value for name, value in server.metric_values().items() if "pending" in name}
    assert not any(pending.values()), pending


def test_a_stream_that_loses_a_part_of_a_message_ends(repository, serve):
    """If a part of a message is lost, the stream ends; the next part is not taken for the rest of the message."""
    repository.add_identity("identity", "INT32")
    server = serve(repository, env={"LD_PRELOAD": str(ALLOCATOR), "BRAID_FAIL_ONE_IN": "100"})
    ends = collections.Counter()

    def message(number):
        request = service_pb2.ModelInferRequest(model_name="identity", id=str(number))
        request.inputs.add(name="IN", datatype="INT32", shape=[40_000])
        # It arrives in many parts.
        request.raw_input_contents.append(np.full(40_000, number, np.int32).tobytes())
        return request

    def ask(first):
        with grpc.insecure_channel(server.grpc, [("grpc.enable_http_proxy", 0)]) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            for answer in stub.ModelStreamInfer(map(message, range(first, first + 10)), timeout=20):
                if answer.error_message:
                    ends[answer.error_message] += 1
                    continue
                response = answer.infer_response
                assert response.raw_output_contents[0] == message(int(response.id)).raw_input_contents[0]
                ends["right"] += 1

    os.kill(server.process.pid, signal.SIGUSR1)
    until = time.monotonic() + SECONDS
    for first in range(0, 1_000_000, 10):
        if time.monotonic() > until:
            break
        try:
            ask(first)
        except grpc.RpcError as error:
            ends[f"{error.code().name}: {error.details()}"] += 1
    os.kill(server.process.pid, signal.SIGUSR2)
    assert ends["right"] > 100, ends
    assert ends["RESOURCE_EXHAUSTED: out of memory"] > 0, ends
    assert not [text for text in ends if re.search("INVALID_ARGUMENT|UNKNOWN|DEADLINE|complete|pars", text)], ends


def test_a_server_without_memory_stops(repository, serve):
    repository.add_identity("identity", "INT32")
    for _ in range(3):
        server = serve(repository, env={"LD_PRELOAD": str(ALLOCATOR), "BRAID_FAIL_ONE_IN": "20"})
        os.kill(server.process.pid, signal.SIGUSR1)
        server.stop()


HTTP_CALL = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
GRPC_CALL = (
    http2.PREFACE
    + http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.call_head(b"/inference.GRPCInferenceService/ServerLive"))
    + http2.frame(http2.DATA, http2.END_STREAM, 1, bytes(5))
)
GRPC_RESET = http2.frame(http2.RST_STREAM, 0, 1, b"\0\0\0\2")


@pytest.mark.parametrize(("protocol", "one_in"), [("http", 4), ("grpc", 16)])
def test_a_connection_that_gets_no_memory_is_answered_or_closed(repository, serve, protocol, one_in):
    server = serve(repository, env={"LD_PRELOAD": str(ALLOCATOR), "BRAID_FAIL_ONE_IN": str(one_in)})
    os.kill(server.process.pid, signal.SIGUSR1)
    heard = collections.Counter()
    host, _, port = getattr(server, protocol).rpartition(":")
    connections = [socket.create_connection((host, int(port)), 10) for _ in range(300)]
    for connection in connections:
        received = b""
        try:
            connection.sendall(HTTP_CALL if protocol == "http" else GRPC_CALL)
            while (
                not (answered := b"HTTP/1.1 200" in received or http2.STATUS in received) and GRPC_RESET not in received
            ):
                received += (more := connection.recv(65536))  # a timeout fails the test
                if not more:
                    break
        except ConnectionError:  # closed before everything was read
            answered = False
        heard[answered] += 1
    os.kill(server.process.pid, signal.SIGUSR2)
    for connection in connections:
        connection.close()
    assert heard[True] > 0, heard
    assert heard[False] > 0, heard

    def lives():
        with contextlib.suppress(ConnectionError):
            return server.json("GET", "/v2/health/live")[0] == 200
        return False

    # A thread of the server handles the signal when it next runs.
    wait_until(lives, 10, "an answer")
