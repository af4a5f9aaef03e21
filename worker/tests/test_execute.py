"""Loading and executing models, end to end against a stand-in for the server."""

from pathlib import Path

import numpy as np
import pytest
from worker_harness import FP32, bytes_tensor, floats, standin, tensor, wait_for

ADD_SUB = """
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "A").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "B").as_numpy()
            responses.append(pb_utils.InferenceResponse(output_tensors=[
                pb_utils.Tensor("SUM", a + b), pb_utils.Tensor("DIFFERENCE", a - b)]))
        return responses
"""

IDENTITY = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())])
                for r in requests]
"""


def test_small_tensors_travel_inside_messages(model):
    worker = model(ADD_SUB, outputs=["SUM", "DIFFERENCE"])
    a, b = np.arange(4, dtype=np.float32), np.full(4, 2, np.float32)
    responses = worker.execute({"inputs": [tensor("A", a), tensor("B", b)]})
    assert responses[0]["code"] == 0
    assert responses[0]["final"]
    assert responses[0]["has_response"]
    np.testing.assert_array_equal(floats(responses[0]["outputs"]["SUM"]), a + b)
    np.testing.assert_array_equal(floats(responses[0]["outputs"]["DIFFERENCE"]), a - b)


def test_a_batch_is_answered_request_by_request(model):
    worker = model(ADD_SUB, outputs=["SUM", "DIFFERENCE"])
    requests = [
        {"inputs": [tensor("A", np.full((1, n), n, np.float32)), tensor("B", np.ones((1, n), np.float32))]}
        for n in (1, 3, 600)
    ]
    responses = worker.execute(*requests)
    for i, n in enumerate((1, 3, 600)):
        assert floats(responses[i]["outputs"]["SUM"]).shape == (1, n)
        assert floats(responses[i]["outputs"]["SUM"])[0, -1] == n + 1


def test_large_results_come_in_memory_of_the_worker_which_it_reuses(model):
    worker = model(ADD_SUB, outputs=["SUM", "DIFFERENCE"])
    a = np.random.default_rng(1).random((2, 100_000), np.float32)
    for _ in range(20):
        responses = worker.execute({"inputs": [tensor("A", a), tensor("B", a)]})
        kind, shape, data, place = responses[0]["outputs"]["SUM"]
        assert (kind, shape, place) == (FP32, (2, 100_000), 1)
        np.testing.assert_array_equal(floats(responses[0]["outputs"]["SUM"]), a + a)
    assert wait_for(lambda: standin.receive(worker.channel, 0.01) is None)
    assert standin.lent_blocks(worker.channel) == 0


def test_an_input_goes_back_as_output_without_a_copy(model):
    worker = model(IDENTITY)
    a = np.random.default_rng(1).random(100_000, np.float32)
    for _ in range(3):
        output = worker.execute({"inputs": [tensor("A", a)]})[0]["outputs"]["OUT"]
        assert output[3] == 2
        np.testing.assert_array_equal(floats(output), a)
    assert standin.lent_blocks(worker.channel) == 0


def test_an_input_that_the_model_keeps_is_copied_on_its_way_out(model):
    worker = model(
        """
        import triton_python_backend_utils as pb_utils
        kept = []
        class TritonPythonModel:
            def execute(self, requests):
                array = requests[0].inputs()[0].as_numpy()
                kept.append(array)
                if len(kept) == 3:
                    total = sum(float(a[0]) for a in kept)
                    kept.clear()
                    assert total == 0 + 1 + 2, total
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])]
        """
    )
    for i in range(3):
        a = np.full(10_000, i, np.float32)
        output = worker.execute({"inputs": [tensor("A", a)]})[0]["outputs"]["OUT"]
        assert output[3] == (2 if i == 2 else 1)
        np.testing.assert_array_equal(floats(output), a)
    assert wait_for(lambda: standin.receive(worker.channel, 0.01) is None)
    assert standin.lent_blocks(worker.channel) == 0


def test_part_of_an_input_goes_back_and_twice_the_same_is_copied_once(model):
    worker = model(
        """
        import triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                array = requests[0].inputs()[0].as_numpy()
                return [pb_utils.InferenceResponse([
                    pb_utils.Tensor("OUT", array[1000:]), pb_utils.Tensor("OUT2", array)])]
        """,
        outputs=["OUT", "OUT2"],
    )
    a = np.arange(10_000, dtype=np.float32)
    outputs = worker.execute({"inputs": [tensor("A", a)]})[0]["outputs"]
    assert (outputs["OUT"][3], outputs["OUT2"][3]) == (2, 1)
    np.testing.assert_array_equal(floats(outputs["OUT"]), a[1000:])
    np.testing.assert_array_equal(floats(outputs["OUT2"]), a)


# Sizes around 1 MiB: up to it, memory with other readers is copied and not mapped.
@pytest.mark.parametrize("count", [10_000, 262_144, 262_145, 1_000_000])
def test_what_is_written_to_memory_that_others_see_stays_in_the_worker(model, count):
    worker = model(
        """
        import triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                array = requests[0].inputs()[0].as_numpy()
                assert array.flags.writeable
                first = float(array[-1])
                array += 1
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array + first)])]
        """
    )
    a = np.random.default_rng(1).random(count, np.float32)
    for _ in range(2):
        response = worker.execute({"inputs": [tensor("A", a, shared=True), tensor("B", a[:9000], shared=True)]})[0]
        np.testing.assert_array_equal(floats(response["outputs"]["OUT"]), (a + np.float32(1)) + a[-1])
        assert wait_for(lambda: standin.receive(worker.channel, 0.01) is None)
        assert standin.lent_blocks(worker.channel) == 0


def test_memory_that_others_see_is_not_changed(model):
    worker = model(
        """
        import triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                self.array = requests[0].inputs()[0].as_numpy()
                self.array[:] = 7
                return [pb_utils.InferenceResponse([])]
        """
    )
    a = np.random.default_rng(1).random(500_000, np.float32)
    worker.execute({"inputs": [tensor("A", a, shared=True)]})
    # The model still has its view.
    assert standin.lent_bytes(worker.channel) == a.tobytes()


@pytest.mark.parametrize("writing", [False, True])
def test_memory_that_others_see_goes_back_as_output_if_it_was_not_written_to(model, writing):
    worker = model(
        f"""
        import triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                array = requests[0].inputs()[0].as_numpy()
                total = array.sum()
                if {writing}:
                    array[123_456] = 3
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])]
        """
    )
    a = np.random.default_rng(1).random(500_000, np.float32)
    output = worker.execute({"inputs": [tensor("A", a, shared=True)]})[0]["outputs"]["OUT"]
    assert output[3] == (1 if writing else 2)
    if writing:
        a[123_456] = 3
    np.testing.assert_array_equal(floats(output), a)
    assert wait_for(lambda: standin.receive(worker.channel, 0.01) is None)
    assert standin.lent_blocks(worker.channel) == 0


def test_memory_that_a_thread_lets_go_of_later_is_given_back_then(model):
    worker = model(
        """
        import threading, triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def initialize(self, args):
                self.go = threading.Event()
                self.kept = []
                threading.Thread(target=self.drop, daemon=True).start()
            def drop(self):
                self.go.wait()
                self.kept.clear()
            def execute(self, requests):
                if requests[0].inputs():
                    self.kept.append(requests[0].inputs()[0].as_numpy())
                else:
                    self.go.set()
                return [pb_utils.InferenceResponse([])]
        """
    )
    worker.execute({"inputs": [tensor("A", np.ones(10_000, np.float32))]})
    assert standin.lent_blocks(worker.channel) == 1
    worker.execute({})
    assert worker.receive("release")["count"] == 1
    assert standin.lent_blocks(worker.channel) == 0


def test_received_arrays_are_writable_and_cached(model):
    worker = model(
        """
        import numpy as np, triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                for t in requests[0].inputs():
                    a = t.as_numpy()
                    assert a is t.as_numpy() and a.flags.writeable and a.flags.c_contiguous
                    assert a.shape == tuple(t.shape()), (a.shape, t.shape())
                    assert a.dtype == np.float32 and a.ctypes.data % 16 == 0
                    a += 1
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", a)])]
        """
    )
    for shape in [(3,), (2, 2), (2, 2, 1000), (0,), (0, 7), (), (1, 1, 1)]:
        a = np.zeros(shape, np.float32)
        output = worker.execute({"inputs": [tensor("A", a)]})[0]["outputs"]["OUT"]
        np.testing.assert_array_equal(floats(output), a + 1)


def test_bytes_go_both_ways(model):
    worker = model(
        """
        import numpy as np, triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                a = requests[0].inputs()[0].as_numpy()
                assert a.dtype == np.object_ and all(type(x) is bytes for x in a.ravel())
                return [pb_utils.InferenceResponse([
                    pb_utils.Tensor("OUT", np.array([x[::-1] for x in a.ravel()], dtype=object).reshape(a.shape)),
                    pb_utils.Tensor("SAME", a)])]
        """,
        outputs=["OUT", "SAME"],
    )
    for items in ([b"ab", b"", b"\xff\0"], [b"x" * 5000, b"yz"]):
        given = bytes_tensor("A", items, (1, len(items)))
        outputs = worker.execute({"inputs": [given]})[0]["outputs"]
        assert outputs["OUT"][:3] == bytes_tensor("", [i[::-1] for i in items], (1, len(items)))[1:]
        assert outputs["SAME"][:3] == given[1:]


def test_outputs_are_pruned_to_what_is_requested_or_configured(model):
    worker = model(
        """
        import numpy as np, triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                self.names = [r.requested_output_names() for r in requests]
                assert all(type(n) is set for n in self.names)
                return [pb_utils.InferenceResponse([pb_utils.Tensor(n, np.array([len(names)], np.int64))
                            for n in ("A", "B", "C")]) for names in self.names]
        """,
        outputs=["A", "B"],
    )
    responses = worker.execute({}, {"outputs": ["B"]}, {"outputs": ["Z"]})
    assert [sorted(responses[i]["outputs"]) for i in range(3)] == [["A", "B"], ["B"], []]
    assert responses[0]["outputs"]["A"][2] == (2).to_bytes(8, "little")


def test_requests_show_what_they_came_with(model):
    worker = model(
        """
        import json, numpy as np, triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                out = []
                for r in requests:
                    r.set_flags(r.flags() | 8)
                    seen = [r.request_id(), r.correlation_id(), r.flags(), r.timeout(), json.loads(r.parameters()),
                            r.trace().get_context(), r.get_response_sender() is r.get_response_sender()]
                    out.append(pb_utils.InferenceResponse(
                        [pb_utils.Tensor("OUT", np.array([json.dumps(seen)], dtype=object))],
                        parameters={"a": 1, "b": True, "c": "\\u00fc"}))
                return out
        """
    )
    responses = worker.execute(
        {"request_id": "r1", "correlation_id": "seq", "flags": 3, "timeout": 11_000_000_000, "parameters": '{"x":1}'},
        {"correlation_id": 2**64 - 1},
    )
    import json

    first, second = (json.loads(responses[i]["outputs"]["OUT"][2][4:]) for i in range(2))
    assert first == ["r1", "seq", 11, 11_000_000_000, {"x": 1}, None, True]
    assert second == ["", 2**64 - 1, 8, 0, {}, None, True]
    assert json.loads(responses[0]["parameters"]) == {"a": 1, "b": True, "c": "ü"}


def test_a_cancelled_request_knows_it_and_keeps_knowing_it(model):
    worker = model(
        """
        import threading, time, triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                if not requests[0].request_id():
                    self.sender = requests[0].get_response_sender()
                    while not self.sender.is_cancelled():
                        time.sleep(0.001)
                else:
                    assert self.sender.is_cancelled() and not requests[0].is_cancelled()
                return [pb_utils.InferenceResponse(error=pb_utils.TritonError("gone", pb_utils.TritonError.CANCELLED))
                        for r in requests]
        """
    )
    worker.send({"cancel_slot": 7})
    standin.cancel(worker.channel, 7)
    assert worker.receive("executed")["responses"][0]["code"] == 8
    # The slot now belongs to another request.
    standin.cancel(worker.channel, 7, 0)
    response = worker.execute({"cancel_slot": 7, "request_id": "x"})[0]
    assert (response["code"], response["error"]) == (8, "gone")


def test_bf16_goes_through_dlpack(model):
    worker = model(
        """
        import triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                t = requests[0].inputs()[0]
                try:
                    t.as_numpy()
                except pb_utils.TritonModelException as e:
                    assert "BF16" in str(e)
                else:
                    assert False
                return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", t.to_dlpack())])]
        """
    )
    for data in (b"\1\2\3\4", bytes(range(256)) * 10):
        output = worker.execute({"inputs": [("A", 14, (len(data) // 2,), data)]})[0]["outputs"]["OUT"]
        assert output[:3] == (14, (len(data) // 2,), data)


def test_idle_memory_goes_back_to_the_system(model):
    worker = model(IDENTITY.replace(".as_numpy()", ".as_numpy() + 1"), arena_keep_bytes=1 << 20)
    a = np.ones(3 << 20, np.float32)
    worker.execute({"inputs": [tensor("A", a)]})
    assert worker.receive("retire", 15)["segment"] >= 1
    # The memory is lent again.
    np.testing.assert_array_equal(floats(worker.execute({"inputs": [tensor("A", a)]})[0]["outputs"]["OUT"]), a + 1)


def test_garbage_from_the_server_ends_the_worker(model):
    worker = model(IDENTITY)
    standin.garbage(worker.channel)
    assert worker.wait() == 1
    assert "the conversation with the server is broken" in worker.text("stderr")


@pytest.mark.parametrize("returning", ["async def", "def"])
def test_execute_may_be_a_coroutine(model, returning):
    worker = model(
        f"""
        import asyncio, numpy as np, triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            {returning} execute(self, requests):
                {"await asyncio.sleep(0)" if returning == "async def" else ""}
                return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.ones(1, np.float32))])]
        """
    )
    for _ in range(3):
        assert worker.execute({})[0]["code"] == 0


def test_large_arrays_use_the_memory_of_those_before(model):
    worker = model(ADD_SUB, outputs=["SUM", "DIFFERENCE"])
    a = np.ones(1 << 18, np.float32)

    def page_faults():
        return int(Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")", 1)[1].split()[7])

    for _ in range(5):
        worker.execute({"inputs": [tensor("A", a), tensor("B", a)]})
    before = page_faults()
    for _ in range(20):
        worker.execute({"inputs": [tensor("A", a), tensor("B", a)]})
    assert page_faults() - before < 20 * 10


def test_responses_that_do_not_fit_into_the_ring_follow_during_the_execution(model):
    worker = model(
        """
        import numpy as np, time, triton_python_backend_utils as pb_utils
        class TritonPythonModel:
            def execute(self, requests):
                sender = requests[0].get_response_sender()
                for i in range(3000):
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.full(200, i, np.float32))]))
                while not requests[0].is_cancelled():
                    time.sleep(0.001)
                sender.send(flags=1)
        """,
        policy={"decoupled": True},
    )
    worker.send({"cancel_slot": 60_000})
    for i in range(3000):
        _, response = worker.response()
        assert floats(response["outputs"]["OUT"])[0] == i
    standin.cancel(worker.channel, 60_000)
    assert not worker.response()[1]["has_response"]
    worker.receive("executed")
