"""Models whose execute() is a coroutine function: overlapping executions, and tasks that continue between executions."""

import numpy as np
import pytest
from worker_harness import floats, standin, tensor, wait_for

DECOUPLED = {"decoupled": True}
HEAD = """
import asyncio, threading, time
import numpy as np, triton_python_backend_utils as pb_utils
def text(value):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([str(value).encode()], dtype=object))])
class TritonPythonModel:
"""


def text_of(response):
    assert response["code"] == 0, response["error"]
    return response["outputs"]["OUT"][2][4:].decode()


def responses(worker, count):
    """Returns responses by request id, in order of arrival."""
    return [(r["id"], r) for r in (worker.receive("response")["response"] for _ in range(count))]


def test_executions_of_a_decoupled_model_overlap(model):
    worker = model(
        HEAD
        + """
    def initialize(self, args):
        self.gate = None
    async def execute(self, requests):
        self.gate = self.gate or asyncio.Event()
        request = requests[0]
        if request.request_id() == "open":
            self.gate.set()
        await self.gate.wait()
        sender = request.get_response_sender()
        sender.send(text(request.request_id()))
        await asyncio.sleep(0)
        sender.send(flags=1)
""",
        policy=DECOUPLED,
    )
    for name in ("a", "b", "c"):
        # The execution returns at its first wait, before any response.
        assert worker.execute({"request_id": name}) == {}
    assert worker.stray == []
    worker.send({"request_id": "open"})
    got = responses(worker, 8)
    texts = sorted(text_of(r) for _, r in got if r["has_response"])
    assert texts == ["a", "b", "c", "open"]
    assert sorted(id for id, r in got if not r["has_response"]) == [100, 200, 300, 400]
    worker.finalize()
    assert worker.wait() == 0


def test_a_large_input_lives_as_long_as_its_task(model):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        async def answer(request):
            await asyncio.sleep(0.01)
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            request.get_response_sender().send(
                pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x * 2)]), flags=1)
        await asyncio.gather(*[answer(request) for request in requests])
""",
        policy=DECOUPLED,
    )
    for i in range(3):
        worker.send({"inputs": [tensor("IN", np.full(10_000, i, np.float32))]})
    for i in range(3):
        ((_, response),) = responses(worker, 1)
        np.testing.assert_array_equal(floats(response["outputs"]["OUT"]), np.full(10_000, 2 * i, np.float32))
    assert wait_for(lambda: standin.receive(worker.channel, 0.01) is None and not standin.lent_blocks(worker.channel))


def test_executions_of_an_ordinary_model_do_not_overlap(model):
    worker = model(
        HEAD
        + """
    running = 0
    async def execute(self, requests):
        self.running += 1
        before = self.running
        await asyncio.sleep(0.01)
        self.running -= 1
        return [text(before) for _ in requests]
"""
    )
    for _ in range(5):
        worker.send({}, {})
    for i in range(5):
        executed = worker.receive("executed")
        assert executed["id"] == i + 1
        assert [text_of(r) for r in executed["responses"]] == ["1", "1"]
    worker.finalize()
    assert worker.wait() == 0


@pytest.mark.parametrize("policy", [None, DECOUPLED])
def test_tasks_go_on_between_executions(model, policy):
    worker = model(
        HEAD
        + """
    background = None
    async def execute(self, requests):
        if self.background is None:
            self.loop = asyncio.get_running_loop()
            self.background = asyncio.create_task(self.count())
            threading.Thread(target=self.call, daemon=True).start()
            self.sender = requests[0].get_response_sender()
        else:
            requests[0].get_response_sender().send(text(threading.current_thread() is threading.main_thread()), flags=1)
        return None
    async def count(self):
        for _ in range(10):
            await asyncio.sleep(0.001)
        self.counted = True
    def call(self):
        while not self.background.done():
            time.sleep(0.001)
        self.loop.call_soon_threadsafe(lambda: self.sender.send(text(self.counted), flags=1))
""",
        policy=policy,
    )
    worker.execute({})
    ((_, first),) = responses(worker, 1)
    assert text_of(first) == "True"
    worker.send({})
    ((_, second),) = responses(worker, 1)
    assert text_of(second) == "True"


def test_what_an_ordinary_coroutine_raises_fails_its_requests(model):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        await asyncio.sleep(0)
        raise ValueError("after a wait")
"""
    )
    for _ in range(2):
        response = worker.execute({})[0]
        assert response["error"].startswith("Failed to process the request(s) for model '")
        assert "message: ValueError: after a wait\n\nAt:\n" in response["error"]


def test_what_a_decoupled_coroutine_raises_is_logged(model):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        if requests[0].request_id() == "early":
            raise ValueError("before any wait")
        await asyncio.sleep(0)
        if requests[0].request_id() == "kept":
            self.kept = requests[0].get_response_sender()
        raise ValueError("wait_secs cannot be negative")
""",
        policy=DECOUPLED,
    )
    assert "ValueError: before any wait" in worker.execute({"request_id": "early"})[0]["error"]
    worker.logs.clear()
    assert worker.execute({"request_id": "late"}) == {}
    # No object holds the request any more.
    ((_, response),) = responses(worker, 1)
    assert response["final"]
    assert "the model released the request without a response" in response["error"]
    (log,) = worker.logs
    assert log["level"] == 2
    assert "Traceback" in log["text"]
    assert "ValueError: wait_secs cannot be negative" in log["text"]
    worker.logs.clear()
    assert worker.execute({"request_id": "kept"}) == {}
    assert "wait_secs" in worker.receive("log")["text"]
    assert standin.receive(worker.channel, 0.1) is None


def test_a_decoupled_coroutine_must_return_none(model):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        return [text("x")]
""",
        policy=DECOUPLED,
    )
    assert "is using the decoupled mode and the execute function must return None." in worker.execute({})[0]["error"]


def test_coroutines_beside_plain_functions(model):
    """A plain execute() may run its own loop, with or without a loop of the model."""
    worker = model(
        HEAD
        + """
    async def initialize(self, args):
        await asyncio.sleep(0)
    def execute(self, requests):
        async def own():
            await asyncio.sleep(0)
            return "own"
        if requests[0].request_id() == "coroutine":
            return self.later(requests)
        return [text(asyncio.run(own()))]
    async def later(self, requests):
        await asyncio.sleep(0)
        return [text("later")]
    async def finalize(self):
        await asyncio.sleep(0)
        print("finalized", flush=True)
"""
    )
    for _ in range(2):
        assert text_of(worker.execute({})[0]) == "own"
        assert text_of(worker.execute({"request_id": "coroutine"})[0]) == "later"
    worker.finalize()
    assert worker.wait() == 0
    assert "finalized" in worker.text("stdout")


def test_tasks_that_never_end_are_cancelled_after_finalize(model):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        self.task = asyncio.create_task(self.forever())
        return [text("ok")]
    async def forever(self):
        try:
            await asyncio.Event().wait()
        finally:
            print("cancelled", flush=True)
"""
    )
    assert text_of(worker.execute({})[0]) == "ok"
    worker.finalize()
    assert worker.wait() == 0
    assert "cancelled" in worker.text("stdout")


def test_many_at_once(model):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        for request in requests:
            asyncio.create_task(self.answer(request))
    async def answer(self, request):
        await asyncio.sleep(0.01)
        request.get_response_sender().send(text(request.request_id()), flags=1)
""",
        policy=DECOUPLED,
    )
    for i in range(500):
        worker.send({"request_id": str(i)})
    got = responses(worker, 500)
    assert sorted(int(text_of(r)) for _, r in got) == list(range(500))
    assert all(id == 100 * (int(text_of(r)) + 1) for id, r in got)
