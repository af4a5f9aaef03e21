"""Python nodes of graphs: loading, load failures, and the end."""

import pytest
from nodes_harness import fp32, node, write_handler
from worker_harness import standin, wait_for

QUIET = "class OvmsPythonModel:\n    def execute(self, inputs):\n        return []\n"


def test_what_initialize_is_given(graph_of, tmp_path):
    path = write_handler(
        tmp_path / "handlers",
        """
        class OvmsPythonModel:
            def initialize(self, kwargs):
                print(sorted(kwargs.items()), flush=True)
                return "ignored"
            def execute(self, inputs):
                return []
        """,
    )
    running = graph_of([node(path, "a node", ("b", "a"), ("z", "y"), loopback=True)])
    outputs = ["z", "y", "loopback"]
    assert eval(running.worker.text("stdout")) == [
        ("base_path", str(tmp_path / "handlers")),
        ("input_names", ["b", "a", "loopback"]),
        ("node_name", "a node"),
        ("output_names", outputs),
        ("outputs_names", outputs),
    ]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("x = 1", "the file has no class OvmsPythonModel"),
        ("OvmsPythonModel = 5", "the file has no class OvmsPythonModel"),
        ("class OvmsPythonModel:\n    pass", "class OvmsPythonModel has no method execute"),
        ("class OvmsPythonModel:\n    execute = 5", "class OvmsPythonModel has no method execute"),
        ("import nothing_of_that_name", "the file cannot be imported: ModuleNotFoundError: No module named"),
        ("this is no Python", "the file cannot be imported: SyntaxError"),
        ("raise SystemExit(1)", "the file cannot be imported: SystemExit: 1"),
        (QUIET + "    def __init__(self, a):\n        pass", "OvmsPythonModel() failed: TypeError"),
        (QUIET + "    def __init__(self):\n        1 / 0", "OvmsPythonModel() failed: ZeroDivisionError"),
        (QUIET + "    def initialize(self, kwargs):\n        1 / 0", "initialize failed: ZeroDivisionError"),
        (QUIET + "    def initialize(self):\n        pass", "initialize failed: TypeError"),
    ],
)
def test_a_node_that_cannot_be_loaded(graph_of, tmp_path, source, error):
    path = write_handler(tmp_path, source)
    running = graph_of([node(path, "the node")], expect_ok=False)
    assert running.loaded["code"] == 2
    # Clients get the path in the repository, the log gets the path on this machine.
    assert running.loaded["error"].startswith(f"Python node 'the node' ({tmp_path.name}/{path.name}): {error}")
    assert str(tmp_path) not in running.loaded["error"]
    assert running.worker.logs[-1]["text"].startswith(f"Python node 'the node' ({path}): {error}")
    assert running.worker.wait() == 0


def test_a_missing_file(graph_of, tmp_path):
    path = tmp_path / "none.py"
    running = graph_of([node(path, "the node")], expect_ok=False)
    assert running.loaded["error"] == f"Python node 'the node' ({tmp_path.name}/none.py): no such file"


TELLS = """
    class OvmsPythonModel:
        def initialize(self, kwargs):
            self.name = kwargs["node_name"]
            if self.name == "bad":
                raise ValueError("not me")
        def execute(self, inputs):
            return [Tensor("out", repr(self).encode())]
        def finalize(self):
            print("finalize", self.name, flush=True)
            if self.name == "raises":
                raise ValueError("at the end")
"""


def test_a_node_that_fails_takes_the_others_with_it(graph_of, tmp_path):
    path = write_handler(tmp_path, TELLS)
    names = ["one", "two", "bad", "never"]
    running = graph_of([node(path, name) for name in names], expect_ok=False)
    assert "Python node 'bad'" in running.loaded["error"]
    assert "ValueError: not me" in running.loaded["error"]
    assert running.worker.wait() == 0
    assert running.worker.text("stdout").splitlines() == ["finalize one", "finalize two", "finalize bad"]


def test_finalize_is_called_once_for_each_node_and_may_raise(graph_of, tmp_path):
    path = write_handler(tmp_path, TELLS)
    running = graph_of([node(path, name) for name in ("one", "raises", "two")])
    assert len({running.run(node=at)["outputs"][0][3] for at in range(3)}) == 3
    running.worker.finalize()
    assert running.worker.wait() == 0
    assert running.worker.text("stdout").splitlines() == ["finalize one", "finalize raises", "finalize two"]
    assert any("ValueError: at the end" in log["text"] for log in running.worker.logs)


def test_handlers_of_one_name_do_not_meet(graph_of, tmp_path):
    source = """
        import neighbour
        class OvmsPythonModel:
            def execute(self, inputs):
                import later
                return [Tensor("out", f"{__name__} {neighbour.NAME} {later.NAME}".encode())]
    """
    nodes = []
    for name in ("a", "b"):
        path = write_handler(tmp_path / name, source)
        (tmp_path / name / "neighbour.py").write_text(f"NAME = 'neighbour of {name}'\n")
        nodes.append(node(path, name))
    (tmp_path / "a" / "later.py").write_text("NAME = 'found later'\n")
    running = graph_of(nodes)
    first, second = (running.run(node=at)["outputs"][0][3].decode().split(" ", 1) for at in (0, 1))
    assert first[0] != second[0]
    assert first[1] == "neighbour of a found later"
    assert second[1] == "neighbour of b found later"


def test_one_file_is_one_module_with_an_object_for_each_node(graph_of, tmp_path):
    path = write_handler(
        tmp_path,
        """
        print("imported", flush=True)
        SHARED = []
        class OvmsPythonModel:
            def execute(self, inputs):
                SHARED.append(self)
                return [Tensor("out", str(len(set(SHARED))).encode())]
        """,
    )
    running = graph_of([node(path, "a"), node(path, "b")])
    assert [running.run(node=at)["outputs"][0][3] for at in (0, 0, 1)] == [b"1", b"1", b"2"]
    assert running.worker.text("stdout") == "imported\n"


def test_print_goes_where_the_output_of_models_goes(graph):
    running = graph(
        """
        import sys
        class OvmsPythonModel:
            def execute(self, inputs):
                print("to stdout")
                print("to stderr", file=sys.stderr)
                return []
        """
    )
    running.run()
    assert wait_for(lambda: running.worker.text("stdout") == "to stdout\n")
    assert wait_for(lambda: "to stderr" in running.worker.text("stderr"))


def test_the_end_closes_generators_and_drops_what_has_not_begun(graph):
    running = graph(
        """
        class OvmsPythonModel:
            def execute(self, inputs):
                try:
                    while True:
                        yield []
                finally:
                    print("closed", flush=True)
            def finalize(self):
                print("finalize", flush=True)
        """,
        loopback=True,
    )
    calls = [running.execute(credit=credit) for credit in (1, 1, 1, 0)]
    for call in calls[:3]:
        assert running.step(call)["kind"] == "item"
    standin.finalize(running.worker.channel)
    assert sorted(running.any_step()["call"] for _ in calls) == calls
    running.worker.receive("finalized")
    assert running.worker.wait() == 0
    told = running.worker.text("stdout")
    assert told.count("closed") == 3
    assert told.endswith("finalize\n")


def test_the_end_waits_for_what_runs(graph):
    running = graph(
        """
        import time
        class OvmsPythonModel:
            def execute(self, inputs):
                print("begun", flush=True)
                time.sleep(0.3)
                print("done", flush=True)
                return [Tensor("out", b"x")]
            def finalize(self):
                print("finalize", flush=True)
        """
    )
    call = running.execute()
    assert wait_for(lambda: "begun" in running.worker.text("stdout"))
    standin.finalize(running.worker.channel)
    assert running.step(call)["kind"] == "list"
    assert running.worker.wait() == 0
    assert running.worker.text("stdout").splitlines() == ["begun", "done", "finalize"]


def test_an_execution_that_never_ends_does_not_keep_the_worker(graph):
    running = graph(
        """
        import atexit, threading, time
        atexit.register(print, "at exit", flush=True)
        class OvmsPythonModel:
            def execute(self, inputs):
                print("begun\\n", end="", flush=True)  # in one piece: two threads do this at once
                if len(inputs) == 0:
                    threading.Event().wait()
                while True:
                    time.sleep(0.0001)
            def finalize(self):
                print("finalize", flush=True)
        """
    )
    running.execute()
    running.execute([fp32("in", [1])])
    assert wait_for(lambda: running.worker.text("stdout").count("begun") == 2)
    standin.finalize(running.worker.channel)
    assert running.worker.wait(20) == 0
    assert running.worker.text("stdout").splitlines() == ["begun", "begun", "finalize", "at exit"]


def test_what_nodes_hold_goes_before_the_end(graph):
    running = graph(
        """
        class OvmsPythonModel:
            def execute(self, inputs):
                return [Tensor("out", b"x")]
            def __del__(self):
                print("gone", flush=True)
        """,
        kept=("out",),
    )
    running.run()
    running.worker.finalize()
    assert running.worker.wait() == 0
    assert running.worker.text("stdout") == "gone\n"


def test_a_child_of_user_code_that_comes_back_does_no_harm(graph):
    running = graph(
        """
        import os
        class OvmsPythonModel:
            def execute(self, inputs):
                if os.fork() == 0:
                    return [Tensor("out", b"of the child")]
                os.wait()
                return [Tensor("out", b"of the parent")]
        """
    )
    for _ in range(3):
        assert running.run()["outputs"][0][3] == b"of the parent"
    assert running.no_step()


def test_a_signal_handler_of_user_code_runs(graph):
    running = graph(
        """
        import os, signal
        class OvmsPythonModel:
            def initialize(self, kwargs):
                signal.signal(signal.SIGUSR1, lambda *_: print("signal", flush=True))
            def execute(self, inputs):
                os.kill(os.getpid(), signal.SIGUSR1)
                return []
        """
    )
    running.run()
    assert wait_for(lambda: "signal" in running.worker.text("stdout"))
