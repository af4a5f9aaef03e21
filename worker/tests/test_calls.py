"""Calls to other models (BLS), on the caller's side. The stand-in acts as the server."""

import json

import numpy as np
import pytest
from worker_harness import standin, tensor, wait_for

HEAD = """
import asyncio, gc, json, threading, time
import numpy as np, triton_python_backend_utils as pb_utils
def text(value):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([str(value).encode()], dtype=object))])
def call(name="other", value=1.0, size=4, **more):
    return pb_utils.InferenceRequest(model_name=name, requested_output_names=["OUT"],
        inputs=[pb_utils.Tensor("IN", np.full(size, value, np.float32))], **more)
def first(response):
    return float(response.output_tensors()[0].as_numpy()[0])
class TritonPythonModel:
"""
DECOUPLED = {"decoupled": True}


def text_of(response):
    assert response["code"] == 0, response["error"]
    return response["outputs"]["OUT"][2][4:].decode()


def result(worker):
    return text_of(worker.receive("executed")["responses"][0])


def respond(worker, call, value=None, **fields):
    """Answers a call with one float, or with the given fields."""
    if value is not None:
        fields["outputs"] = [tensor("OUT", np.full(fields.pop("size", 4), value, np.float32))]
    standin.respond(worker.channel, call["id"], fields)


def test_a_call_says_everything_of_its_request(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        request = call("m", 2.0, request_id="r", correlation_id="seq", model_version=3, flags=1, timeout=11_000_000_000,
                       parameters={"a": 1, "b": True, "c": "x"}, trace=requests[0].trace())
        assert requests[0].trace().get_context() == '{"traceparent":"00-1"}'
        request.set_flags(2)
        response = request.exec()
        assert not response.has_error() and response.error() is None
        assert response.parameters() == '{"p":1}'
        return [text(first(response))]
"""
    )
    worker.send({"trace": '{"traceparent":"00-1"}'})
    call = worker.receive("call")
    assert json.loads(call.pop("parameters")) == {"a": 1, "b": True, "c": "x"}
    kind, shape, data, _ = call.pop("inputs")["IN"]
    assert (kind, shape, data) == (11, (4,), np.full(4, 2, np.float32).tobytes())
    number = call.pop("id")
    assert number > 0
    assert call == {
        "type": "call",
        "model": "m",
        "version": 3,
        "blocked": 1,
        "traced": 100,
        "decoupled": False,
        "request_id": "r",
        "correlation_id": "seq",
        "flags": 2,
        "timeout": 11_000_000_000,
        "outputs": ["OUT"],
    }
    respond(worker, {"id": number}, 7.0, parameters='{"p":1}')
    assert result(worker) == "7.0"


def test_errors_are_responses(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        response = call().exec()
        assert response.has_error() and response.output_tensors() == []
        error = response.error()
        return [text(f"{error.message()} {error.code() == pb_utils.TritonError.NOT_FOUND}")]
"""
    )
    worker.send({})
    respond(worker, worker.receive("call"), code=3, error="no such model")
    assert result(worker) == "no such model True"
    worker.send({})
    respond(worker, worker.receive("call"), has_response=0)
    assert result(worker) == "Unexpected empty response. False"


def test_outputs_outlive_their_response_and_memory_comes_back(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        arrays = [call(value=i, size=100_000).exec().output_tensors()[0].as_numpy() for i in range(3)]
        gc.collect()
        dlpack = np.from_dlpack(call(size=10_000).exec().output_tensors()[0])
        total = sum(float(a.sum()) for a in arrays) + float(dlpack.sum())
        return [text(total)]
"""
    )
    worker.send({})
    for i in range(4):
        call = worker.receive("call")
        assert call["inputs"]["IN"][3] == 1
        respond(worker, call, i + 1, size=100_000 if i < 3 else 10_000)
    assert result(worker) == str(600_000.0 + 40_000)
    assert wait_for(lambda: standin.receive(worker.channel, 0.01) is None and not standin.lent_blocks(worker.channel))


def test_calls_in_a_row_give_memory_back_as_they_go(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        for i in range(50):
            last = first(call(value=i, size=1 << 20).exec())
        return [text(last)]
"""
    )
    worker.send({})
    for i in range(50):
        respond(worker, worker.receive("call"), i, size=1 << 20)
        assert standin.lent_blocks(worker.channel) <= 3
    assert result(worker) == "49.0"


def test_calls_from_threads_at_once(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        got = [None] * 8
        def run(i):
            got[i] = [first(call(value=10 * i + k).exec()) for k in range(5)]
        threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert got == [[10 * i + k + 0.5 for k in range(5)] for i in range(8)], got
        return [text("ok")]
"""
    )
    worker.send({})
    for _ in range(5):
        # The pending calls are answered last in, first out.
        for one in reversed([worker.receive("call") for _ in range(8)]):
            respond(worker, one, np.frombuffer(one["inputs"]["IN"][2], np.float32)[0] + 0.5)
    assert result(worker) == "ok"


def test_one_request_is_executed_again_and_at_once(model):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        request = call()
        answers = await asyncio.gather(*[request.async_exec() for _ in range(10)], request.async_exec())
        return [text(sorted(first(a) for a in answers))]
"""
    )
    worker.send({})
    calls = [worker.receive("call") for _ in range(11)]
    assert len({call["id"] for call in calls}) == 11
    assert {call["blocked"] for call in calls} == {1}
    for i, call in enumerate(reversed(calls)):
        respond(worker, call, i)
    assert result(worker) == str([float(i) for i in range(11)])


@pytest.mark.parametrize("policy", [None, DECOUPLED])
def test_ten_thousand_calls_at_once_take_no_threads(model, policy):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        answers = await asyncio.gather(*[call(value=i).async_exec() for i in range(10_000)])
        assert [first(a) for a in answers] == list(range(10_000))
        requests[0].get_response_sender().send(text(threading.active_count()), flags=1)
""",
        policy=policy,
    )
    worker.send({})
    calls = [worker.receive("call") for _ in range(10_000)]
    for call in calls:
        respond(worker, call, np.frombuffer(call["inputs"]["IN"][2], np.float32)[0])
    assert text_of(worker.receive("response")["response"]) == "1"


def test_loops_of_user_code_can_call_too(model):
    """Calls work in a loop of a plain execute, and of a thread that outlives it; only the reader reads for them."""
    worker = model(
        HEAD
        + """
    def initialize(self, args):
        self.go = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()
    def serve(self):
        self.go.wait()
        asyncio.run(self.answer())
    async def answer(self):
        total = sum(first(a) for a in await asyncio.gather(*[call().async_exec() for _ in range(3)]))
        self.sender.send(text(total), flags=1)
    def execute(self, requests):
        if requests[0].request_id() == "busy":
            while not requests[0].is_cancelled():
                time.sleep(0.001)
            return [text("busy")]
        async def run():
            return await call().async_exec()
        self.sender = requests[0].get_response_sender()
        got = first(asyncio.run(run()))
        self.go.set()
        assert got == 5
        return None
"""
    )
    worker.send({})
    respond(worker, worker.receive("call"), 5)
    worker.receive("executed")
    calls = [worker.receive("call") for _ in range(3)]
    # The main thread runs user code while the thread's calls are answered.
    worker.send({"request_id": "busy", "cancel_slot": 3})
    for call in calls:
        assert call["blocked"] == 0
        respond(worker, call, 2)
    assert text_of(worker.receive("response")["response"]) == "6.0"
    standin.cancel(worker.channel, 3)
    assert result(worker) == "busy"


def test_async_calls_need_a_running_loop(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        try:
            call().async_exec()
        except RuntimeError as e:
            return [text(e)]
"""
    )
    assert text_of(worker.execute({})[0]) == "no running event loop"


def test_a_cancelled_future_cancels_its_call(model):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        try:
            await asyncio.wait_for(call().async_exec(), 0.05)
        except asyncio.TimeoutError:
            pass
        task = asyncio.ensure_future(call().async_exec())
        await asyncio.sleep(0)
        task.cancel()
        return [text(first(await call().async_exec()))]
"""
    )
    worker.send({})
    calls = [worker.receive("call") for _ in range(3)]
    cancelled = [m["id"] for m in worker.stray if m["type"] == "cancel_call"]
    assert cancelled == [call["id"] for call in calls[:2]]
    # Late responses are released.
    for call in calls[:2]:
        respond(worker, call, 1, size=10_000)
    respond(worker, calls[2], 3)
    assert result(worker) == "3.0"
    assert wait_for(lambda: standin.receive(worker.channel, 0.01) is None and not standin.lent_blocks(worker.channel))


def test_an_iterator_brings_all_responses_again_and_again(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        responses = call().exec(decoupled=True)
        assert iter(responses) is responses
        seen = [first(next(responses))]
        for response in responses:
            seen.append(first(response))
            if len(seen) == 2:
                break
        for response in responses:
            seen.append(first(response) if response.output_tensors() else None)
        try:
            next(responses)
        except StopIteration as stop:
            assert str(stop) == "Iteration is done for the responses."
        again = [[len(r.output_tensors()) for r in responses] for _ in range(2)]
        responses.cancel()
        return [text(f"{seen} {again}")]
"""
    )
    worker.send({})
    call = worker.receive("call")
    assert call["decoupled"]
    for i in range(3):
        respond(worker, call, i, final=0)
    respond(worker, call, has_response=0)
    assert result(worker) == "[0.0, 1.0, 2.0, None] [[1, 1, 1, 0], [1, 1, 1, 0]]"
    worker.send({})
    call = worker.receive("call")
    for i in range(3):
        respond(worker, call, i, final=i == 2)
    assert result(worker) == "[0.0, 1.0, 2.0] [[1, 1, 1], [1, 1, 1]]"
    # Nothing remained to be cancelled.
    assert [m["type"] for m in worker.stray if m["type"] != "release"] == []


def test_an_iterator_that_is_dropped_cancels_and_leaks_nothing(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        responses = call().exec(decoupled=True)
        got = first(next(responses))
        if requests[0].request_id():
            time.sleep(0.05)
        del responses
        return [text(got)]
"""
    )
    for name in ("", "late"):
        worker.send({"request_id": name})
        call = worker.receive("call")
        for i in range(3):
            respond(worker, call, i, size=10_000, final=0)
        assert worker.receive("cancel_call")["id"] == call["id"]
        assert result(worker) == "0.0"
        for i in range(3):
            respond(worker, call, i, size=10_000, final=i == 2)
    assert wait_for(lambda: standin.receive(worker.channel, 0.01) is None and not standin.lent_blocks(worker.channel))


def test_an_iterator_can_be_cancelled(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        responses = call().exec(decoupled=True)
        seen = [first(next(responses))]
        responses.cancel()
        for response in responses:
            seen.append(response.error().message() if response.has_error() else first(response))
        responses.cancel()
        return [text(seen)]
"""
    )
    worker.send({})
    call = worker.receive("call")
    respond(worker, call, 1, final=0)
    respond(worker, call, 2, final=0)
    assert worker.receive("cancel_call")["id"] == call["id"]
    respond(worker, call, code=8, error="cancelled")
    assert result(worker) == "[1.0, 2.0, 'cancelled']"
    assert [m["type"] for m in worker.stray if m["type"] == "cancel_call"] == []


def test_async_iterators_and_calls_in_tasks(model):
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        a, b = await asyncio.gather(call("a").async_exec(decoupled=True), call("b").async_exec(decoupled=True))
        return [text([first(r) for r in a] + [first(r) for r in b])]
"""
    )
    worker.send({})
    a, b = worker.receive("call"), worker.receive("call")
    respond(worker, b, 10, final=0)
    respond(worker, a, 1, final=0)
    respond(worker, a, 2)
    respond(worker, b, 11)
    assert result(worker) == "[1.0, 2.0, 10.0, 11.0]"


def test_a_plain_call_within_a_coroutine(model):
    """The event loop's thread reads for itself, and then continues its loop."""
    worker = model(
        HEAD
        + """
    async def execute(self, requests):
        await asyncio.sleep(0)
        got = first(call().exec())
        await asyncio.sleep(0)
        requests[0].get_response_sender().send(text(got), flags=1)
""",
        policy=DECOUPLED,
    )
    for i in range(3):
        worker.send({})
        call = worker.receive("call")
        worker.send({})
        respond(worker, call, i)
        respond(worker, worker.receive("call"), i + 0.5)
        # The first response may have arrived before the second call.
        got = [m for m in worker.stray if m["type"] == "response"]
        worker.stray.clear()
        got += [worker.receive("response") for _ in range(2 - len(got))]
        assert [text_of(m["response"]) for m in got] == [f"{i}.0", f"{i}.5"]


def test_calls_only_while_serving(model):
    worker = model(
        HEAD
        + """
    def initialize(self, args):
        try:
            call().exec()
        except pb_utils.TritonModelException as e:
            self.text = str(e)
    def execute(self, requests):
        return [text(self.text)]
    def finalize(self):
        call().exec()
"""
    )
    assert text_of(worker.execute({})[0]) == "BLS is only supported during the 'execute' function."
    worker.finalize()
    assert "BLS is only supported during the 'execute' function." in worker.logs[-1]["text"]


def test_a_thread_that_waits_ends_with_the_model(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        threading.Thread(target=self.wait).start()
        return [text("ok")]
    def wait(self):
        print(call().exec().error().message(), flush=True)
"""
    )
    worker.send({})
    calls = 0
    while calls == 0 or worker.stray == []:
        message = standin.receive(worker.channel)
        calls += message["type"] == "call"
        worker.stray += [message] if message["type"] == "executed" else []
    worker.finalize()
    assert worker.wait() == 0
    assert "The model is being unloaded." in worker.text("stdout")


def test_a_forked_child_is_refused(model):
    worker = model(
        HEAD
        + """
    def execute(self, requests):
        import os
        outward, inward = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(inward, call().exec().error().message().encode())
            os._exit(0)
        os.waitpid(pid, 0)
        return [text(os.read(outward, 1000).decode())]
"""
    )
    assert "forked" in text_of(worker.execute({})[0])


# --- Questions


def test_questions(worker, tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text(
        HEAD
        + """
    def initialize(self, args):
        pb_utils.load_model("m", config='{"a":1}', files={"file:1/model.py": b"x\\0y"})
    def execute(self, requests):
        got = []
        for ask in (lambda: pb_utils.unload_model("m", unload_dependents=True), lambda: pb_utils.is_model_ready("m", "2"),
                    lambda: pb_utils.is_model_ready("m"), lambda: pb_utils.load_model("n"),
                    lambda: pb_utils.load_model("n", files=[1])):
            try:
                got.append(ask())
            except pb_utils.TritonModelException as e:
                got.append(str(e))
        return [text(json.dumps(got))]
    def finalize(self):
        print(pb_utils.is_model_ready("last"), flush=True)
"""
    )
    made = worker(name="m_0")
    config = {"name": "m", "output": [{"name": "OUT"}]}
    made.begin_load(tmp_path, config)
    ask = made.receive("ask")
    assert (ask["topic"], json.loads(ask["text"])) == (1, {"model_name": "m", "config": '{"a":1}'})
    assert ask["attachments"] == {"file:1/model.py": b"x\0y"}
    standin.answer(made.channel, ask["id"], 0, "")
    assert made.receive("loaded")["code"] == 0

    made.send({})
    expected = [
        (2, {"model_name": "m", "unload_dependents": True}, 0, "", None),
        (3, {"model_name": "m", "model_version": "2"}, 0, "true", True),
        (3, {"model_name": "m", "model_version": ""}, 0, "false", False),
    ]
    for topic, text, code, answer, _ in expected:
        ask = made.receive("ask")
        assert (ask["topic"], json.loads(ask["text"])) == (topic, text)
        standin.answer(made.channel, ask["id"], code, answer)
    standin.answer(made.channel, made.receive("ask")["id"], 3, "no such model")
    assert json.loads(result(made)) == [
        None,
        True,
        False,
        "Failed to load model: Failed to process the request for model 'm_0', message: no such model",
        "failed to load model 'n', files should be a dictionary of file paths and file contents",
    ]
    standin.finalize(made.channel)
    standin.answer(made.channel, made.receive("ask")["id"], 0, "true")
    made.receive("finalized")
    assert made.wait() == 0
    assert "True" in made.text("stdout")


# --- The readiness hook


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_readiness_is_asked_beside_an_execution(model, kind):
    worker = model(
        HEAD
        + f"""
    answer = True
    {kind} is_ready(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
    def execute(self, requests):
        name = requests[0].request_id()
        self.answer = {{"": True, "no": False, "none": None, "bad": ValueError("not now")}}[name]
        while not requests[0].is_cancelled():
            time.sleep(0.001)
        return [text("ok")]
"""
    )
    assert worker.loaded["has_hook"]
    standin.check_ready(worker.channel, 5)
    readiness = worker.receive("readiness")
    assert (readiness["id"], readiness["ready"], readiness["reason"]) == (5, True, "")
    name = worker.config["name"] + "_0"
    for check, (request, reason) in enumerate(
        {
            "": "",
            "no": f"Model '{name}' is not ready (user-defined check failed).",
            "none": "is_ready() must return a boolean value",
            "bad": "ValueError: not now",
        }.items()
    ):
        standin.cancel(worker.channel, 1, 0)
        worker.send({"request_id": request, "cancel_slot": 1})
        # The execution has started once its request was read.
        assert wait_for(lambda: standin.receive(worker.channel, 0.02) is None)
        standin.check_ready(worker.channel, 10 + check)
        readiness = worker.receive("readiness")
        assert (readiness["id"], readiness["ready"]) == (10 + check, request == "")
        assert readiness["reason"].startswith(reason)
        standin.cancel(worker.channel, 1)
        assert result(worker) == "ok"
    worker.finalize()
    assert worker.wait() == 0


def test_models_without_a_hook_say_so(model):
    worker = model(HEAD + "    def execute(self, requests):\n        return [text('x')]\n")
    assert not worker.loaded["has_hook"]


# --- Rescheduling


def iterative(model, source, **options):
    return model(HEAD + source, config={"sequence_batching": {"iterative_sequence": True}}, **options)


RESCHEDULE = """
    def execute(self, requests):
        for request in requests:
            if request.request_id() == "again":
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                self.sender = request.get_response_sender()
        return [None if r.request_id() == "again" else text(r.request_id()) for r in requests]
"""


def test_a_request_comes_again(model):
    worker = iterative(model, RESCHEDULE)
    for _ in range(2):
        worker.send({"request_id": "a"}, {"request_id": "again"})
        executed = worker.receive("executed")
        assert [text_of(r) for r in executed["responses"]] == ["a"]
        assert executed["rescheduled"] == [executed["id"] * 100 + 1]
    # The sender of an earlier turn is released without an error.
    assert text_of(worker.execute({"request_id": "b"})[0]) == "b"
    assert worker.stray == []


def test_a_request_of_a_decoupled_model_comes_again(model):
    worker = iterative(
        model,
        """
    def execute(self, requests):
        requests[0].get_response_sender().send(text("turn"))
        requests[0].set_release_flags(2)
        self.request = requests[0]
""",
        policy=DECOUPLED,
    )
    worker.send({})
    assert text_of(worker.receive("response")["response"]) == "turn"
    assert worker.receive("executed")["rescheduled"] == [100]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            "return [text('x')]",
            "Expected a None object in the execute function return list for reschduled request, found type "
            "'<class 'c_python_backend_utils.InferenceResponse'>'.",
        ),
        ("raise ValueError('bad')", "ValueError: bad"),
    ],
)
def test_a_failed_batch_is_not_rescheduled(model, body, error):
    worker = iterative(
        model,
        f"""
    def execute(self, requests):
        requests[0].set_release_flags(2)
        {body}
""",
    )
    worker.send({})
    executed = worker.receive("executed")
    assert executed["rescheduled"] == []
    assert error in executed["responses"][0]["error"]


def test_only_iterative_sequences_can_be_rescheduled(model):
    text = (
        "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to "
        "handle such a flag."
    )
    worker = model(HEAD + RESCHEDULE.replace("self.sender", "sender"))
    worker.send({"request_id": "again"})
    executed = worker.receive("executed")
    assert (executed["rescheduled"], executed["responses"]) == ([], [])
    assert worker.logs[-1]["text"] == text
    (stray,) = [m for m in worker.stray if m["type"] == "response"] or [worker.receive("response")]
    assert text in stray["response"]["error"]


def test_release_flags_after_the_return_are_refused(model):
    worker = iterative(
        model,
        """
    def execute(self, requests):
        if requests[0].request_id() == "later":
            try:
                self.request.set_release_flags(2)
            except pb_utils.TritonModelException as e:
                return [text(e)]
        self.request = requests[0]
        return [text("x")]
""",
    )
    worker.execute({})
    assert "before `execute` has returned" in text_of(worker.execute({"request_id": "later"})[0])
