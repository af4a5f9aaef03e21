"""Arrays that models share by a key: pb_utils.shared_arrays()."""

import os
import signal

import pytest
from harness.clients import strings
from harness.repository import config
from harness.server import children
from harness.waiting import wait_until
from test_share_instances import pss
from tritonclient.utils import InferenceServerException

MIB = 1 << 20
SIZE = 64 * MIB

# Each loader adds a line to a file. The answer is the sum of a part of the arrays, the process, and a text.
MODEL = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils

NOTES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "notes")


def load():
    with open(NOTES, "a") as notes:
        notes.write("load\\n")
    {loader}


class TritonPythonModel:
    def initialize(self, args):
        self.arrays = pb_utils.shared_arrays("{key}", load)

    def execute(self, requests):
        {execute}
        answer = pb_utils.Tensor("OUT", np.array([str(each).encode() for each in (result, os.getpid())], np.object_))
        return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""
LARGE = f"time.sleep(0.3); return {{'w': np.ones({SIZE}, np.uint8), 'b': np.arange(6, dtype=np.float64).reshape(2, 3)}}"
SUM = "result = int(self.arrays['w'][::1024].sum()) + int(self.arrays['b'][1, 2])"


def add(repository, name, loader=LARGE, execute=SUM, key="weights", count=1):
    text = config(
        name,
        [("IN", "STRING", [1])],
        [("OUT", "STRING", [-1])],
        extra=f"instance_group [ {{ count: {count} kind: KIND_CPU }} ]",
    )
    repository.add(name, MODEL.format(loader=loader, execute=execute, key=key), text)


def ask(client, name):
    """Returns (text, process)."""
    text, process = client.infer(name, {"IN": strings("x")}).as_numpy("OUT")
    return text.decode(), int(process)


def loads(repository):
    return (repository.path / "notes").read_text().count("load")


def test_models_share_one_copy(repository, serve, connect):
    add(repository, "a", count=3)
    add(repository, "b", count=3)
    server = serve(repository)
    client = connect("grpc", server)
    expected = str(SIZE // 1024 + 5)
    assert ask(client, "a")[0] == expected
    assert ask(client, "b")[0] == expected
    assert loads(repository) == 1
    assert SIZE < sum(map(pss, children(server.process.pid))) < 2 * SIZE


def test_the_arrays_outlive_the_process_that_has_loaded_them(repository, serve, connect):
    add(repository, "a")
    add(repository, "b")
    server = serve(repository, "--model-control-mode=explicit", "--load-model=a")
    client = connect("http", server)
    expected, first = ask(client, "a")
    client.raw.load_model("b")
    assert ask(client, "b")[0] == expected
    client.raw.unload_model("a")
    wait_until(lambda: first not in children(server.process.pid), 20, "the end of the first process")
    assert ask(client, "b")[0] == expected
    client.raw.load_model("a")
    assert ask(client, "a")[0] == expected
    assert loads(repository) == 1
    # Freed with the last process.
    for name in ("a", "b"):
        client.raw.unload_model(name)
    wait_until(lambda: len(children(server.process.pid)) == 1, 20, "the end of both")
    assert pss(server.process.pid) < SIZE
    client.raw.load_model("b")
    assert ask(client, "b")[0] == expected
    assert loads(repository) == 2


def test_a_restarted_process_gets_them_again(repository, serve, connect):
    add(repository, "a", count=2)
    client = connect("grpc", serve(repository))
    expected, process = ask(client, "a")
    os.kill(process, signal.SIGKILL)

    def restarted():
        try:
            return ask(client, "a")[1] != process
        except InferenceServerException:
            return False

    wait_until(restarted, 20, "another process")
    assert ask(client, "a")[0] == expected
    assert loads(repository) == 1


def test_another_loader_is_tried_after_a_failure(repository, serve, connect):
    once = "if open(NOTES).read().count('load') == 1: time.sleep(0.3); raise RuntimeError('no weights')"
    for name in ("a", "b"):
        add(repository, name, loader=f"{once}\n    {LARGE}")
    server = serve(repository, "--exit-on-error=false", "--strict-readiness=false")
    client = connect("grpc", server)
    served = [name for name in ("a", "b") if client.raw.is_model_ready(name)]
    assert len(served) == 1
    assert ask(client, served[0])[0] == str(SIZE // 1024 + 5)
    assert loads(repository) == 2
    assert "no weights" in server.log


@pytest.mark.parametrize(
    ("loader", "execute", "expected"),
    [
        ("return [np.arange(3), np.array('ab')]", "result = type(self.arrays).__name__, *[str(each) for each in self.arrays]",
         "('list', '[0 1 2]', 'ab')"),
        ("return np.arange(2, dtype='>f4')", "result = self.arrays.tolist(), self.arrays.dtype.str", "([0.0, 1.0], '>f4')"),
        ("return np.zeros((0, 3), np.float16)", "result = self.arrays.shape, self.arrays.dtype.name", "((0, 3), 'float16')"),
        ("return {'a': np.arange(6).reshape(2, 3).T}", "result = self.arrays['a'].tolist()", "[[0, 3], [1, 4], [2, 5]]"),
        ("return np.arange(2)", "result = self.arrays.flags.writeable", "False"),
        (f"return np.ones({SIZE}, np.uint8)", "result = self.arrays.flags.writeable", "False"),
    ],
)  # fmt: skip
def test_structures_and_types(repository, serve, connect, loader, execute, expected):
    for name in ("first", "second"):
        add(repository, name, loader=loader, execute=execute)
    client = connect("grpc", serve(repository))
    assert ask(client, "first")[0] == expected
    assert ask(client, "second")[0] == expected
    assert loads(repository) == 1


@pytest.mark.parametrize(
    ("loader", "text"),
    [
        ("return 3", "TypeError: shared_arrays: expected numpy arrays, got int"),
        ("return np.array([None])", "TypeError: shared_arrays: an array has the type object; expected a number"),
        ("return {1: np.zeros(1)}", "a name of the arrays must be str, not int"),
        ("return pb_utils.shared_arrays('weights', load)",
         "shared_arrays: the loader of 'weights' waits for arrays that this process loads"),
    ],
)  # fmt: skip
def test_wrong_loaders_are_told(repository, serve, loader, text):
    add(repository, "a", loader=loader)
    server = serve(repository, "--exit-on-error=false", "--strict-readiness=false")
    assert text in server.log


def test_loaders_that_wait_for_each_other_are_refused(repository, serve):
    add(repository, "a", key="a", loader="time.sleep(0.5); return pb_utils.shared_arrays('b', load)")
    add(repository, "b", key="b", loader="time.sleep(0.5); return pb_utils.shared_arrays('a', load)")
    server = serve(repository, "--exit-on-error=false", "--strict-readiness=false")
    assert "waits for arrays that this process loads" in server.log
