"""Python nodes of graphs: inputs and results of execute(), errors, objects, sessions, memory."""

import numpy as np
import pytest
from nodes_harness import array_of, fp32, node, write_handler
from worker_harness import BF16, BYTES, INT32, UINT8, standin, tensor, wait_for

ECHO = """
    class OvmsPythonModel:
        def execute(self, inputs):
            return [Tensor("out", tensor.data, tensor.shape, tensor.datatype) for tensor in inputs]
"""


def wait_for_log(running, text, level=2):
    """Waits for a line of the worker in the server's log."""

    def found():
        return any(text in log["text"] and log["level"] == level for log in running.worker.logs)

    if not found():
        while not found():
            running.worker.logs.append(running.worker.receive("log"))
    return True


# --- Lists


def test_a_list_goes_to_the_outputs_of_its_names(graph):
    running = graph(
        """
        import numpy as np
        class OvmsPythonModel:
            def execute(self, inputs):
                a, b = (np.asarray(tensor) for tensor in inputs)
                return [Tensor("difference", a - b), Tensor("sum", a + b)]
        """,
        inputs=("a", "b"),
        outputs=("sum", "difference"),
    )
    assert running.loaded["wants_sessions"] is False
    step = running.run([fp32("a", [[1, 2]]), fp32("b", [[10, 20]])])
    assert step["kind"] == "list"
    assert [output[0] for output in step["outputs"]] == ["difference", "sum"]
    assert array_of(step["outputs"][0]) == [[-9, -18]]
    assert array_of(step["outputs"][1]) == [[11, 22]]
    running.worker.finalize()
    assert running.worker.wait() == 0


def test_an_empty_list_and_a_subclass_of_list_are_lists(graph):
    running = graph(
        """
        class Outputs(list):
            pass
        class Mine(Tensor):
            pass
        class OvmsPythonModel:
            def execute(self, inputs):
                return Outputs([Mine("out", b"x")] * len(inputs))
        """
    )
    assert running.run()["outputs"] == []
    step = running.run([fp32("in", [1])])
    assert step["kind"] == "list"
    assert step["outputs"] == [("out", "UINT8", (1,), b"x", 0)]


@pytest.mark.parametrize(
    ("kind", "datatype", "shape", "data", "view"),
    [
        (INT32, "INT32", (2,), b"\1\0\0\0\2\0\0\0", ("i", 4, (2,), (4,))),
        (INT32, "INT32", (), b"\1\0\0\0", ("i", 4, (), ())),
        (1, "BOOL", (1, 2), b"\1\0", ("?", 1, (1, 2), (2, 1))),
        (5, "UINT64", (1,), bytes(8), ("Q", 8, (1,), (8,))),
        (9, "INT64", (1,), bytes(8), ("q", 8, (1,), (8,))),
        (10, "FP16", (2, 1), bytes(4), ("e", 2, (2, 1), (2, 2))),
        (12, "FP64", (1,), bytes(8), ("d", 8, (1,), (8,))),
        (UINT8, "UINT8", (1, 32, 32, 0, 1), b"", ("B", 1, (1, 32, 32, 0, 1), (0, 0, 0, 1, 1))),
        (BF16, "BF16", (2,), bytes(4), ("B", 1, (4,), (1,))),
        (BYTES, "BYTES", (1,), b"\3\0\0\0abc", ("B", 1, (7,), (1,))),
        ("my_string", "my_string", (3,), b"one two three and so on", ("B", 1, (23,), (1,))),
        # A shape and datatype set by another node need not fit the bytes.
        (INT32, "INT32", (1, 3), bytes(5), ("B", 1, (5,), (1,))),
    ],
)
def test_a_tensor_of_a_request(graph, kind, datatype, shape, data, view):
    running = graph(
        """
        class OvmsPythonModel:
            def execute(self, inputs):
                tensor, = inputs
                view = tensor.data
                facts = (tensor.name, tensor.datatype, tensor.shape, tensor.size, bytes(tensor), tensor.ref_obj,
                         view.format, view.itemsize, view.shape, view.strides, view.readonly)
                return [Tensor("facts", repr(facts).encode()), Tensor("out", view, tensor.shape, tensor.datatype)]
        """,
        outputs=("facts", "out"),
    )
    facts, out = running.run([("in", kind, shape, data)])["outputs"]
    assert eval(facts[3]) == ("in", datatype, shape, len(data), data, None, *view, True)
    assert out == ("out", datatype, shape, data, 0)


def test_inputs_come_in_order_and_may_be_missing(graph):
    running = graph(
        """
        class OvmsPythonModel:
            def execute(self, inputs):
                assert type(inputs) is list
                return [Tensor("out", " ".join(tensor.name for tensor in inputs).encode())]
        """
    )
    assert running.run([fp32("b", [1]), fp32("a", [2])])["outputs"][0][3] == b"b a"
    assert running.run()["outputs"][0][3] == b""


def test_only_exported_outputs_have_bytes(graph):
    running = graph(
        """
        class OvmsPythonModel:
            def execute(self, inputs):
                return [Tensor(name, b"bytes") for name in ("both", "exported", "kept", "neither")]
        """,
        outputs=("neither", "kept", "exported", "both"),
        exported=("exported", "both"),
        kept=("kept", "both"),
    )
    outputs = {name: rest for name, *rest in running.run()["outputs"]}
    assert outputs["exported"] == ["UINT8", (5,), b"bytes", 0]
    assert outputs["neither"] == ["UINT8", (5,), None, 0]
    assert outputs["both"][:3] == ["UINT8", (5,), b"bytes"]
    assert outputs["kept"][:3] == ["UINT8", (5,), None]
    assert 0 not in (outputs["both"][3], outputs["kept"][3])
    assert outputs["both"][3] != outputs["kept"][3]


# --- Invalid results


UNEXPECTED = "Unexpected Python object type. Expected: "
NOT_OURS = "Unexpected Tensor found in the outputs. Tensor name: "


@pytest.mark.parametrize(
    ("result", "error", "sent"),
    [
        ("None", UNEXPECTED + "list or generator. Received: NoneType", []),
        ("(Tensor('out', b''),)", UNEXPECTED + "list or generator. Received: tuple", []),
        ("5", UNEXPECTED + "list or generator. Received: int", []),
        ("{}", UNEXPECTED + "list or generator. Received: dict", []),
        ("[5]", UNEXPECTED + "Tensor. Received: int", []),
        ("[b'bytes']", UNEXPECTED + "Tensor. Received: bytes", []),
        ("[Tensor('out', b'1'), None]", UNEXPECTED + "Tensor. Received: NoneType", ["out"]),
        ("[Tensor('other', b'')]", NOT_OURS + "other is not a valid node output", []),
        ("[Tensor('out', b''), Tensor('in', b'')]", NOT_OURS + "in is not a valid node output", ["out"]),
        ("[Tensor('out', b''), Tensor('out', b'')]", NOT_OURS + "out is a duplicate", ["out"]),
        ("[Tensor('loopback', b'')]", NOT_OURS + "loopback is not a valid node output", []),
        ("[Tensor('out', b'', (-1,))]", "ValueError: a tensor has the negative dimension -1", []),
        ("[Tensor('out', b'', [1] * 65)]", "ValueError: a tensor has 65 dimensions; at most 64 can be sent", []),
        ("[Tensor('\\ud800', b'')]", "ValueError: name must be UTF-8, which ", []),
        ("[Tensor.__new__(Tensor)]", "A Tensor was not constructed", []),
        ("iter([])", "Bad python node configuration. Execute yielded, but LOOPBACK is not defined in the node", []),
        ("(x for x in [])", "Bad python node configuration. Execute yielded, but LOOPBACK", []),
    ],
)
def test_a_bad_result_is_an_error(graph, result, error, sent):
    running = graph(f"class OvmsPythonModel:\n    def execute(self, inputs):\n        return {result}\n")
    step = running.run([fp32("in", [1])])
    assert step["kind"] == "error"
    assert step["error"].startswith(error)
    assert [output[0] for output in step["outputs"]] == sent
    assert wait_for_log(running, f"Python node 'node': {error}")
    assert running.run([fp32("in", [1])])["error"].startswith(error)


def test_the_stream_of_loopback_is_not_to_be_written(graph):
    running = graph(
        "class OvmsPythonModel:\n    def execute(self, inputs):\n        return [Tensor('loopback', b'')]\n",
        loopback=True,
    )
    assert running.run()["error"].startswith(NOT_OURS + "loopback is the stream of LOOPBACK")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise ValueError('no such thing')", "ValueError: no such thing"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise ValueError('\\ud800')", "ValueError: \\ud800"),
        ("inputs.nothing()", "AttributeError: 'list' object has no attribute 'nothing'"),
    ],
)
def test_an_exception_is_an_error_and_its_place_is_logged(graph, body, error):
    running = graph(f"class OvmsPythonModel:\n    def execute(self, inputs):\n        {body}\n")
    step = running.run([fp32("in", [1])])
    assert (step["kind"], step["error"], step["outputs"]) == ("error", error, [])
    assert wait_for_log(running, '/model.py", line 5, in execute\n')
    assert running.worker.logs[-1]["line"] == 5
    assert running.run()["error"] == error


def test_an_execute_that_takes_no_inputs_is_an_error(graph):
    running = graph("class OvmsPythonModel:\n    def execute(self):\n        return []\n")
    assert "takes 1 positional argument but 2 were given" in running.run()["error"]


def test_an_error_text_beyond_all_bounds_still_ends_the_call(graph):
    running = graph(
        "class OvmsPythonModel:\n    def execute(self, inputs):\n        raise ValueError('x' * (300 << 20))\n"
    )
    step = running.run()
    assert step["kind"] == "error"
    assert len(step["error"]) < 1000
    assert wait_for_log(running, "x...\n  File ")
    assert len(running.worker.logs[-1]["text"]) < 20000


# --- Memory


def test_a_large_input_is_lent_and_comes_back(graph):
    running = graph(
        """
        import numpy as np
        class OvmsPythonModel:
            def execute(self, inputs):
                return [Tensor("out", np.asarray(inputs[0]).sum(keepdims=True))]
        """
    )
    channel = running.worker.channel
    array = np.arange(300_000, dtype=np.float32)
    for _ in range(5):
        step = running.run([tensor("in", array)])
        assert array_of(step["outputs"][0]) == [array.sum()]
        assert wait_for(lambda: drained(running) or standin.lent_blocks(channel) == 0)


def drained(running):
    """Handles the messages that have arrived, such as releases."""
    standin.receive(running.worker.channel, 0.001)
    return False


def test_memory_that_user_code_keeps_is_not_used_again(graph):
    running = graph(
        """
        import numpy as np
        class OvmsPythonModel:
            def __init__(self):
                self.kept = None
            def execute(self, inputs):
                name = inputs[0].name
                if name == "keep":
                    self.kept = np.asarray(inputs[0])  # keeps the Tensor itself
                elif name == "free":
                    self.kept = None
                return [Tensor("out", np.array([-1 if self.kept is None else self.kept.sum()], np.float32))]
        """
    )
    channel = running.worker.channel
    ones = np.ones(100_000, np.float32)
    assert array_of(running.run([tensor("keep", ones)])["outputs"][0]) == [100_000]
    for number in range(2, 30):
        assert array_of(running.run([tensor("look", number * ones)])["outputs"][0]) == [100_000]
    assert wait_for(lambda: drained(running) or standin.lent_blocks(channel) == 1)
    assert standin.lent_bytes(channel) == ones.tobytes()
    assert array_of(running.run([fp32("free", [1])])["outputs"][0]) == [-1]
    assert wait_for(lambda: drained(running) or standin.lent_blocks(channel) == 0)


def test_inputs_are_views_of_the_lent_memory(graph):
    running = graph(
        """
        import numpy as np
        class OvmsPythonModel:
            def execute(self, inputs):
                array = np.asarray(inputs[0])
                mapped = [line for line in open("/proc/self/maps") if "memfd" in line]
                starts = [[int(end, 16) for end in line.split()[0].split("-")] for line in mapped]
                lent = any(start <= array.ctypes.data < end for start, end in starts)
                return [Tensor("out", np.array([lent, array.flags.writeable], np.float32))]
        """
    )
    array = np.ones(1_000_000, np.float32)
    for shared in (False, True):
        assert array_of(running.run([tensor("in", array, shared)])["outputs"][0]) == [1, 0]


def test_a_large_output(graph):
    running = graph(
        """
        import numpy as np
        class OvmsPythonModel:
            def execute(self, inputs):
                return [Tensor("out", np.full((500, 1000), inputs[0].data[0], np.float32).T)]
        """
    )
    for number in range(5):
        name, _, shape, data, _ = running.run([fp32("in", [number])])["outputs"][0]
        assert (name, shape) == ("out", (1000, 500))
        assert np.array_equal(np.frombuffer(data, np.float32), np.full(500_000, number, np.float32))


# --- Objects


PASS_ON = """
    class OvmsPythonModel:
        def execute(self, inputs):
            return [Labelled("middle", inputs[0].data)]
    class Labelled(Tensor):
        label = "from the first node"
        def __del__(self):
            print("gone", flush=True)
"""
TAKE = """
    class OvmsPythonModel:
        def execute(self, inputs):
            return [Tensor("out", inputs[0].label.encode() + bytes(inputs[0]))]
"""


@pytest.fixture
def two_nodes(graph_of, tmp_path):
    first = write_handler(tmp_path / "first", PASS_ON)
    second = write_handler(tmp_path / "second", TAKE)
    return graph_of(
        [
            node(first, "first", ("in",), ("middle",), exported=(), kept=("middle",)),
            node(second, "second", ("middle",), ("out",)),
        ]
    )


def test_a_kept_output_is_the_very_object_for_other_nodes(two_nodes):
    step = two_nodes.run([("in", UINT8, (3,), b"abc")])
    ((name, _, _, data, number),) = step["outputs"]
    assert (name, data) == ("middle", None)
    for _ in range(2):
        assert two_nodes.run([number], node=1)["outputs"][0][3] == b"from the first nodeabc"
    assert "gone" not in two_nodes.worker.text("stdout")
    two_nodes.drop(number)
    assert wait_for(lambda: "gone" in two_nodes.worker.text("stdout"))


def test_an_object_can_be_dropped_right_after_it_was_named(two_nodes):
    for _ in range(50):
        number = two_nodes.run([("in", UINT8, (3,), b"abc")])["outputs"][0][4]
        call = two_nodes.execute([number], node=1)
        two_nodes.drop(number)
        assert two_nodes.step(call)["outputs"][0][3] == b"from the first nodeabc"


@pytest.mark.parametrize("break_it", ["drop", "execute", "node", "call", "session", "garbage"])
def test_a_server_that_breaks_the_rules_ends_the_worker(two_nodes, break_it):
    if break_it == "drop":
        two_nodes.drop(77)
    elif break_it == "execute":
        two_nodes.execute([77])
    elif break_it == "node":
        two_nodes.execute(node=2)
    elif break_it == "call":
        standin.node_execute(two_nodes.worker.channel, 0, 0, 0, 1, [])
    elif break_it == "session":
        two_nodes.end(5)
    else:
        standin.garbage(two_nodes.worker.channel)
    assert two_nodes.worker.wait() == 1
    assert "conversation with the server is broken" in two_nodes.worker.text("stderr")


# --- Sessions


SESSIONS = """
    class OvmsPythonModel:
        def execute(self, inputs, session):
            session.count = getattr(session, "count", 0) + 1
            facts = (session.id, session.parameters, session.count, type(session) is pyovms.Session)
            return [Tensor("out", repr(facts).encode())]
        def end_session(self, session):
            print(f"end of {session.id} after {session.count}", flush=True)
            if session.id == 2:
                raise ValueError("at the end")
"""


def test_sessions(graph):
    running = graph(SESSIONS)
    assert running.loaded["wants_sessions"] is True

    def run(session):
        return eval(running.run(session=session)["outputs"][0][3])

    running.begin(1, '{"OVMS_MP_TIMESTAMP": 5, "text": "a"}')
    running.begin(2, "")
    assert run(1) == (1, {"OVMS_MP_TIMESTAMP": 5, "text": "a"}, 1, True)
    assert run(2) == (2, {}, 1, True)
    assert run(1)[2] == 2
    running.end(2)
    assert wait_for_log(running, "ValueError: at the end")
    call = running.execute(session=1)
    running.end(1)
    assert eval(running.step(call)["outputs"][0][3])[2] == 3
    assert wait_for(lambda: "end of 1 after 3" in running.worker.text("stdout"))
    running.begin(3)
    assert run(3)[2] == 1
    running.worker.finalize()
    assert running.worker.wait() == 0
    assert running.worker.text("stdout").splitlines() == ["end of 2 after 1", "end of 1 after 3", "end of 3 after 1"]


def test_a_session_that_no_node_has_seen_ends_silently(graph):
    running = graph(SESSIONS)
    running.begin(1)
    running.end(1)
    running.begin(2)
    running.run(session=2)
    running.worker.finalize()
    assert running.worker.wait() == 0
    assert running.worker.text("stdout") == "end of 2 after 1\n"


def test_sessions_end_before_the_nodes(graph):
    running = graph(
        """
        import time
        class OvmsPythonModel:
            def execute(self, inputs, session):
                return []
            def end_session(self, session):
                time.sleep(0.3)
                print("end of", session.id, flush=True)
            def finalize(self):
                print("finalize", flush=True)
        """
    )
    running.begin(1)
    running.run(session=1)
    running.worker.finalize()
    assert running.worker.wait() == 0
    assert running.worker.text("stdout") == "end of 1\nfinalize\n"


def test_end_session_alone_wants_sessions(graph):
    running = graph(
        """
        class OvmsPythonModel:
            def execute(self, inputs):
                return []
            def end_session(self, session):
                print("end of", session.id, flush=True)
        """
    )
    assert running.loaded["wants_sessions"] is True
    running.begin(9)
    assert running.run(session=9)["kind"] == "list"
    running.end(9)
    assert wait_for(lambda: "end of 9" in running.worker.text("stdout"))


@pytest.mark.parametrize(
    "signature", ["self, inputs, other=None", "self, inputs, *session", "self, inputs, *, session=1"]
)
def test_other_second_parameters_are_no_sessions(graph, signature):
    running = graph(f"class OvmsPythonModel:\n    def execute({signature}):\n        return []\n")
    assert running.loaded["wants_sessions"] is False
    assert running.run()["kind"] == "list"


def test_nodes_have_sessions_of_their_own(graph_of, tmp_path):
    path = write_handler(tmp_path, SESSIONS)
    running = graph_of([node(path, "first"), node(path, "second")])
    running.begin(1)
    for at, count in ((0, 1), (0, 2), (1, 1), (0, 3)):
        assert eval(running.run(node=at, session=1)["outputs"][0][3])[2] == count


def test_without_a_session_there_is_still_an_object(graph):
    running = graph(SESSIONS)
    assert eval(running.run(session=0)["outputs"][0][3]) == (0, {}, 1, True)
    assert eval(running.run(session=0)["outputs"][0][3]) == (0, {}, 1, True)
