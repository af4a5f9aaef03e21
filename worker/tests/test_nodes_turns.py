"""Python nodes of graphs: generators, parallel executions, and calls to other servables."""

import time

import numpy as np
import pytest
from nodes_harness import array_of, fp32
from worker_harness import standin, tensor, wait_for

COUNT = """
    import numpy as np
    class OvmsPythonModel:
        def execute(self, inputs):
            for number in range(int(inputs[0].data[0])):
                print("computes", number, flush=True)
                yield [Tensor("out", np.array([number], np.float32))]
"""


def counted(running, count):
    """Returns how many items were computed."""
    return wait_for(lambda: running.worker.text("stdout").count("computes") == count)


# --- Generators


def test_items_are_sent_as_far_as_the_server_wants(graph):
    running = graph(COUNT, loopback=True)
    call = running.execute([fp32("in", [5])], credit=2)
    for number in range(2):
        step = running.step(call)
        assert (step["kind"], array_of(step["outputs"][0])) == ("item", [number])
    assert running.no_step()
    assert counted(running, 2)
    running.resume(call)
    assert array_of(running.step(call)["outputs"][0]) == [2]
    assert running.no_step()
    running.resume(call, 100)
    assert [running.step(call)["kind"] for _ in range(3)] == ["item", "item", "end"]
    running.resume(call)
    assert running.no_step()


def test_an_item_is_sent_before_the_next_is_computed(graph):
    running = graph(
        """
        import time
        class OvmsPythonModel:
            def execute(self, inputs):
                yield [Tensor("out", b"first")]
                time.sleep(0.5)
                raise ValueError("after the first")
        """,
        loopback=True,
    )
    call = running.execute(credit=10)
    begin = time.monotonic()
    assert running.step(call)["outputs"][0][3] == b"first"
    assert time.monotonic() - begin < 0.4
    step = running.step(call)
    assert (step["kind"], step["error"], step["outputs"]) == ("error", "ValueError: after the first", [])


def test_a_generator_that_yields_nothing_ends(graph):
    running = graph(COUNT, loopback=True)
    step = running.run([fp32("in", [0])])
    assert (step["kind"], step["outputs"]) == ("end", [])


def test_items_may_be_empty_lists(graph):
    running = graph("class OvmsPythonModel:\n    def execute(self, inputs):\n        yield []\n", loopback=True)
    call = running.execute(credit=2)
    assert [running.step(call)["kind"] for _ in range(2)] == ["item", "end"]


def test_any_iterator_is_a_generator(graph):
    running = graph(
        """
        class OvmsPythonModel:
            def execute(self, inputs):
                return Items()
        class Items:
            left = 2
            def __next__(self):
                if self.left == 0:
                    raise StopIteration
                self.left -= 1
                return [Tensor("out", b"x" * self.left)]
        """,
        loopback=True,
    )
    call = running.execute(credit=9)
    steps = [running.step(call) for _ in range(3)]
    assert [step["kind"] for step in steps] == ["item", "item", "end"]
    assert [step["outputs"][0][3] for step in steps[:2]] == [b"x", b""]
    call = running.execute()
    running.step(call)
    running.close_call(call)
    assert running.step(call)["kind"] == "end"


def test_a_node_with_loopback_may_return_lists(graph):
    running = graph(
        "class OvmsPythonModel:\n    def execute(self, inputs):\n        return [Tensor('out', b'x')]\n", loopback=True
    )
    assert running.run()["kind"] == "list"


@pytest.mark.parametrize(
    ("item", "error", "sent"),
    [
        ("None", "Unexpected Python object type. Expected: list. Received: NoneType", 0),
        ("Tensor('out', b'')", "Unexpected Python object type. Expected: list. Received: Tensor", 0),
        ("[Tensor('out', b''), 5]", "Unexpected Python object type. Expected: Tensor. Received: int", 1),
        (
            "[Tensor('what', b'')]",
            "Unexpected Tensor found in the outputs. Tensor name: what is not a valid node output",
            0,
        ),
    ],
)
def test_a_bad_item_is_an_error(graph, item, error, sent):
    running = graph(
        f"""
        class OvmsPythonModel:
            def execute(self, inputs):
                try:
                    yield [Tensor("out", b"good")]
                    yield {item}
                finally:
                    print("closed", flush=True)
        """,
        loopback=True,
    )
    call = running.execute(credit=9)
    assert running.step(call)["kind"] == "item"
    step = running.step(call)
    assert (step["kind"], step["error"], len(step["outputs"])) == ("error", error, sent)
    assert wait_for(lambda: running.worker.text("stdout") == "closed\n")


CLOSES = """
    import time
    class OvmsPythonModel:
        def execute(self, inputs):
            print("begun", flush=True)
            try:
                while True:
                    if inputs:
                        time.sleep(0.3)
                    yield [Tensor("out", b"x")]
            except GeneratorExit:
                print("closed", flush=True)
                if len(inputs) > 1:
                    raise ValueError("while closing")
                raise
"""


def test_a_call_is_closed_where_it_waits(graph):
    running = graph(CLOSES, loopback=True)
    call = running.execute()
    assert running.step(call)["kind"] == "item"
    running.close_call(call)
    assert running.step(call)["kind"] == "end"
    assert running.worker.text("stdout") == "begun\nclosed\n"
    running.close_call(call)
    assert running.no_step()


def test_a_call_is_closed_while_it_runs_ahead(graph):
    running = graph(CLOSES, loopback=True)
    call = running.execute(credit=1_000_000)
    for _ in range(100):
        assert running.step(call)["kind"] == "item"
    running.close_call(call)
    while running.step(call)["kind"] == "item":
        pass
    assert running.worker.text("stdout") == "begun\nclosed\n"


def test_a_call_is_closed_after_what_it_computes(graph):
    running = graph(CLOSES, loopback=True)
    call = running.execute([fp32("in", [1]), fp32("in", [1])])
    assert wait_for(lambda: "begun" in running.worker.text("stdout"))
    running.close_call(call)
    step = running.step(call)
    assert (step["kind"], step["outputs"]) == ("end", [])
    assert running.worker.text("stdout") == "begun\nclosed\n"
    assert any("ValueError: while closing" in log["text"] for log in running.worker.logs)


def test_a_call_that_is_closed_before_it_begins_never_does(graph):
    running = graph(
        """
        import time
        class OvmsPythonModel:
            def execute(self, inputs):
                print("begun", flush=True)
                time.sleep(0.5)
                return []
        """
    )
    running_calls = [running.execute() for _ in range(64)]
    assert wait_for(lambda: running.worker.text("stdout").count("begun") == 64)
    waits = running.execute([tensor("in", np.ones(10_000, np.float32))])
    running.close_call(waits)
    assert running.step(waits)["kind"] == "end"
    for call in running_calls:
        assert running.step(call)["kind"] == "list"
    assert running.worker.text("stdout").count("begun") == 64
    assert running.run()["kind"] == "list"
    assert standin.lent_blocks(running.worker.channel) == 0


def test_a_thousand_generators_take_turns(graph):
    running = graph(
        """
        import numpy as np, threading
        class OvmsPythonModel:
            def execute(self, inputs):
                if inputs[0].name == "threads":
                    return [Tensor("out", np.array([threading.active_count()], np.float32))]
                return self.count(int(inputs[0].data[0]))
            def count(self, number):
                for k in range(20):
                    yield [Tensor("out", np.array([number, k], np.float32))]
        """,
        loopback=True,
    )
    calls = {running.execute([fp32("in", [number])], credit=1): number for number in range(1000)}
    seen = dict.fromkeys(calls, 0)
    ended = 0
    while ended < len(calls):
        step = running.any_step()
        call = step["call"]
        if step["kind"] == "end":
            ended += 1
            assert seen[call] == 20
            continue
        assert array_of(step["outputs"][0]) == [calls[call], seen[call]]
        seen[call] += 1
        running.resume(call)
    assert array_of(running.run([fp32("threads", [0])])["outputs"][0])[0] <= 65


def test_generators_that_run_for_long_are_fair(graph):
    running = graph(
        """
        import time
        class OvmsPythonModel:
            def execute(self, inputs):
                while True:
                    end = time.perf_counter() + 0.0002
                    while time.perf_counter() < end:
                        pass
                    yield [Tensor("out", b"x")]
        """,
        loopback=True,
    )
    calls = [running.execute(credit=1_000_000) for _ in range(10)]
    seen = dict.fromkeys(calls, 0)
    # An unfair runner leaves some without any turn; a busy machine delays some of their threads.
    while min(seen.values()) < 50 and max(seen.values()) < 5000:
        seen[running.any_step()["call"]] += 1
    assert min(seen.values()) == 50, seen
    # A generator that starts later gets turns, too.
    late = running.execute(credit=1)
    running.close_call(calls[0])
    assert running.step(late)["kind"] == "item"
    for call in (*calls[1:], late):
        running.close_call(call)
    for call in (*calls, late):
        while running.step(call)["kind"] != "end":
            pass


# --- Parallel executions


MEET = """
    import threading
    class OvmsPythonModel:
        def __init__(self):
            self.barrier = threading.Barrier(COUNT, timeout=10)
        def execute(self, inputs):
            place = self.barrier.wait()
            return [Tensor("out", str(place).encode())]
"""


@pytest.mark.parametrize("count", [2, 64])
def test_executions_meet(graph, count):
    running = graph(MEET.replace("COUNT", str(count)))
    for _ in range(3):
        calls = [running.execute() for _ in range(count)]
        places = sorted(int(running.step(call)["outputs"][0][3]) for call in calls)
        assert places == list(range(count))


def test_executions_in_user_code_do_not_hold_up_others(graph):
    running = graph(
        """
        import threading
        class OvmsPythonModel:
            def __init__(self):
                self.opened = threading.Event()
            def execute(self, inputs):
                if inputs:
                    self.opened.set()
                else:
                    assert self.opened.wait(10)
                return []
        """
    )
    waits = running.execute()
    assert running.run([fp32("in", [1])])["kind"] == "list"
    assert running.step(waits)["kind"] == "list"


def test_threads_stay(graph):
    running = graph(
        """
        import threading
        class OvmsPythonModel:
            def __init__(self):
                self.local = threading.local()
            def execute(self, inputs):
                self.local.count = getattr(self.local, "count", 0) + 1
                name = threading.current_thread().name
                return [Tensor("out", f"{name} {self.local.count} {threading.active_count()}".encode())]
        """
    )
    last = {}
    for _ in range(200):
        name, count, threads = running.run()["outputs"][0][3].decode().split()
        assert int(count) == last.get(name, 0) + 1
        last[name] = int(count)
        assert int(threads) <= 4
    assert all(name.startswith("node-") for name in last)


# --- Calls to other servables


CALLS = """
    import numpy as np
    import triton_python_backend_utils as pb_utils
    class OvmsPythonModel:
        def execute(self, inputs):
            request = pb_utils.InferenceRequest(
                model_name="other", requested_output_names=["OUT"],
                inputs=[pb_utils.Tensor("IN", np.array(inputs[0]))])
            response = request.exec()
            if response.has_error():
                raise ValueError(response.error().message())
            return [Tensor("out", response.output_tensors()[0].as_numpy())]
"""


def test_a_handler_calls_another_servable(graph):
    running = graph(CALLS)
    call = running.execute([fp32("in", [7])])
    asked = running.worker.receive("call")
    # The message names the waiting execution, so that the server can detect a circle of calls.
    assert (asked["model"], asked["blocked"], asked["outputs"]) == ("other", call, ["OUT"])
    standin.respond(running.worker.channel, asked["id"], {"outputs": [fp32("OUT", [8])]})
    assert array_of(running.step(call)["outputs"][0]) == [8]
    call = running.execute([fp32("in", [7])])
    asked = running.worker.receive("call")
    standin.respond(running.worker.channel, asked["id"], {"code": 3, "error": "there is no such model"})
    assert running.step(call)["error"] == "ValueError: there is no such model"


def test_many_calls_at_once_find_their_answers(graph):
    running = graph(CALLS)
    calls = {running.execute([fp32("in", [number])]): number for number in range(40)}
    waiting = [running.worker.receive("call") for _ in calls]
    for asked in reversed(waiting):
        value = np.frombuffer(asked["inputs"]["IN"][2], np.float32)
        standin.respond(running.worker.channel, asked["id"], {"outputs": [fp32("OUT", value * 2)]})
    for call, number in calls.items():
        assert array_of(running.step(call)["outputs"][0]) == [2 * number]


def test_calls_are_for_executions(graph):
    running = graph(
        """
        import numpy as np
        import triton_python_backend_utils as pb_utils
        class OvmsPythonModel:
            def execute(self, inputs):
                return []
            def finalize(self):
                pb_utils.InferenceRequest(model_name="other", requested_output_names=["OUT"],
                                          inputs=[pb_utils.Tensor("IN", np.zeros(1))]).exec()
        """
    )
    running.worker.finalize()
    assert running.worker.wait() == 0
    assert any("only supported during the 'execute' function" in log["text"] for log in running.worker.logs)


def test_a_handler_awaits_calls_in_a_loop_of_its_own(graph):
    running = graph(
        """
        import asyncio
        import numpy as np
        import triton_python_backend_utils as pb_utils
        class OvmsPythonModel:
            def execute(self, inputs):
                return [Tensor("out", asyncio.run(self.both(np.array(inputs[0]))))]
            async def both(self, array):
                requests = [
                    pb_utils.InferenceRequest(model_name="other", requested_output_names=["OUT"],
                                              inputs=[pb_utils.Tensor("IN", array + k)])
                    for k in range(2)
                ]
                responses = await asyncio.gather(*(request.async_exec() for request in requests))
                return np.concatenate([response.output_tensors()[0].as_numpy() for response in responses])
        """
    )
    for value in (5, 6):
        call = running.execute([fp32("in", [value])])
        for asked in reversed([running.worker.receive("call") for _ in range(2)]):
            number = np.frombuffer(asked["inputs"]["IN"][2], np.float32)
            standin.respond(running.worker.channel, asked["id"], {"outputs": [fp32("OUT", number * 10)]})
        assert array_of(running.step(call)["outputs"][0]) == [10 * value, 10 * value + 10]


def test_a_call_to_its_own_graph_is_run_by_another_thread(graph):
    running = graph(CALLS)
    outer = running.execute([fp32("in", [1])])
    asked = running.worker.receive("call")
    inner = running.execute([fp32("in", [2])])
    deeper = running.worker.receive("call")
    standin.respond(running.worker.channel, deeper["id"], {"outputs": [fp32("OUT", [3])]})
    assert array_of(running.step(inner)["outputs"][0]) == [3]
    standin.respond(running.worker.channel, asked["id"], {"outputs": [fp32("OUT", [4])]})
    assert array_of(running.step(outer)["outputs"][0]) == [4]
