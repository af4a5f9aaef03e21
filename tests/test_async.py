"""Models whose execute is a coroutine function: single requests, many at once, and calls to other models."""

import queue
import threading

import grpc
import numpy as np
import pytest
from harness.repository import IDENTITY, config
from harness.waiting import wait_until
from tritonclient.grpc import service_pb2, service_pb2_grpc

HEAD = """
import asyncio, json, threading
import numpy as np
import triton_python_backend_utils as pb_utils


def value_of(request):
    return float(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])


def numbers(*values):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(values, np.float32))])


class TritonPythonModel:
"""

# Every execution waits until `GROUP` of them run, so the test hangs unless they overlap.
OVERLAPPING = (
    HEAD
    + """
    waiting = 0

    async def execute(self, requests):
        self.gate = getattr(self, "gate", None) or asyncio.Event()
        self.waiting += len(requests)
        if self.waiting == 64:
            self.gate.set()
        async def answer(request):
            await self.gate.wait()
            request.get_response_sender().send(numbers(value_of(request) * 2), flags=1)
        await asyncio.gather(*[answer(request) for request in requests])
"""
)

EXCLUSIVE = (
    HEAD
    + """
    running = 0

    async def execute(self, requests):
        self.running += 1
        seen = self.running
        await asyncio.sleep(0.001)
        self.running -= 1
        return [numbers(value_of(request), seen) for request in requests]
"""
)

TOKENS = (
    HEAD
    + """
    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for i in range(int(value_of(request))):
                await asyncio.sleep(0.001)
                sender.send(numbers(i))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
)

RAISING = (
    HEAD
    + """
    async def execute(self, requests):
        if value_of(requests[0]) == 0:
            raise ValueError("before any wait")
        await asyncio.sleep(0)
        raise ValueError("wait_secs cannot be negative")
"""
)

CANCELLED = (
    HEAD
    + """
    seen = 0

    async def execute(self, requests):
        sender = requests[0].get_response_sender()
        if value_of(requests[0]) == 0:
            sender.send(numbers(self.seen), flags=1)
            return
        sender.send(numbers(1))
        while not sender.is_cancelled():
            await asyncio.sleep(0.001)
        self.seen += 1
        sender.send(flags=1)
"""
)

GATHER = (
    HEAD
    + """
    async def execute(self, requests):
        responses = []
        for request in requests:
            nested = [pb_utils.InferenceRequest(model_name="identity", requested_output_names=["OUT"],
                inputs=[pb_utils.Tensor("IN", np.full(4, i, np.float32))]) for i in range(int(value_of(request)))]
            answers = await asyncio.gather(*[each.async_exec() for each in nested])
            assert not any(answer.has_error() for answer in answers)
            responses.append(numbers(sum(float(a.output_tensors()[0].as_numpy()[0]) for a in answers)))
        return responses
"""
)

INPUTS = [("IN", "FP32", [-1])]
OUTPUTS = [("OUT", "FP32", [-1])]
DECOUPLED = "model_transaction_policy { decoupled: true }"


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    decoupled = {"overlapping": OVERLAPPING, "tokens": TOKENS, "raising": RAISING, "cancelled": CANCELLED}
    for name, source in decoupled.items():
        module_repository.add(name, source, config(name, INPUTS, OUTPUTS, extra=DECOUPLED))
    for name, source in {"exclusive": EXCLUSIVE, "gather": GATHER, "identity": IDENTITY}.items():
        module_repository.add(name, source, config(name, INPUTS, OUTPUTS))
    return module_serve(module_repository)


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(model, *values, id=""):
    message = service_pb2.ModelInferRequest(model_name=model, id=id)
    array = np.array(values, np.float32)
    message.inputs.add(name="IN", datatype="FP32", shape=array.shape)
    message.raw_input_contents.append(array.tobytes())
    return message


def values(response):
    assert [output.name for output in response.outputs] == ["OUT"]
    return np.frombuffer(response.raw_output_contents[0], np.float32).tolist()


def answers(stub, *messages):
    return list(stub.ModelStreamInfer(iter(messages), timeout=60))


def test_decoupled_executions_overlap(stub):
    got = answers(stub, *[request("overlapping", i, id=str(i)) for i in range(64)])
    assert sorted((int(a.infer_response.id), values(a.infer_response)[0]) for a in got) == [
        (i, 2.0 * i) for i in range(64)
    ]


def test_ordinary_executions_do_not_overlap(stub):
    calls = [stub.ModelInfer.future(request("exclusive", i), timeout=60) for i in range(30)]
    assert [values(call.result()) for call in calls] == [[i, 1] for i in range(30)]


def test_streams_of_tokens_side_by_side(stub):
    got = answers(stub, *[request("tokens", 20, id=str(i)) for i in range(10)])
    for i in range(10):
        assert [values(a.infer_response) for a in got if a.infer_response.id == str(i)] == [[k] for k in range(20)]


def test_what_a_coroutine_raises(stub, server):
    (early,) = answers(stub, request("raising", 0))
    assert "Failed to process the request(s) for model 'raising_0', message: ValueError: before any wait" in (
        early.error_message
    )
    (late,) = answers(stub, request("raising", 1))
    assert "the model released the request without a response" in late.error_message
    server.wait_for_log("ValueError: wait_secs cannot be negative")
    assert stub.ModelReady(service_pb2.ModelReadyRequest(name="raising")).ready


def test_cancellation_reaches_a_coroutine(stub):
    requests = queue.SimpleQueue()
    call = stub.ModelStreamInfer(iter(requests.get, None), timeout=60)
    requests.put(request("cancelled", 1))
    assert values(next(call).infer_response) == [1]
    requests.put(None)
    call.cancel()

    def seen():
        (answer,) = answers(stub, request("cancelled", 0))
        return values(answer.infer_response) == [1]

    assert wait_until(seen)


def test_calls_in_a_coroutine(stub):
    for count in (0, 1, 10, 200):
        assert values(stub.ModelInfer(request("gather", count), timeout=60)) == [count * (count - 1) / 2]


def test_calls_in_coroutines_of_many_clients(stub):
    results = []

    def work():
        for _ in range(20):
            results.append(values(stub.ModelInfer(request("gather", 10), timeout=60)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[45]] * 80
