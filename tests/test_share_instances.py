"""Instances that are forked from a template after initialize(): --share-instances and SHARE_INSTANCES."""

import contextlib
import os
import pathlib
import signal

import pytest
from harness.clients import strings
from harness.repository import config
from harness.server import children
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

MIB = 1 << 20
WEIGHTS = 64 * MIB
TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [-1])]

# Answers with its instance, its process, the process of initialize(), and the sum of a part of its weights. Each call of
# a method adds a line to a file.
MODEL = """
import os
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.note("initialize", args)
        self.instance = args["model_instance_name"]
        self.initialized_in = os.getpid()
        self.weights = np.ones({weights}, np.uint8)
        self.prepare(args)

    def prepare(self, args):
        {prepare}

    def prepare_fork(self):
        self.note("prepare_fork", {{"model_instance_name": ""}})

    def initialize_instance(self, args):
        self.note("initialize_instance", args)
        self.instance = args["model_instance_name"]

    def finalize(self):
        self.note("finalize", {{"model_instance_name": self.instance}})

    def note(self, method, args):
        with open(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "notes"), "a") as file:
            file.write(method + " " + args["model_instance_name"] + "\\n")

    {execute}

    def answer(self):
        parts = [self.instance, os.getpid(), self.initialized_in, int(self.weights[:100].sum())]
        values = np.array([str(part).encode() for part in parts], dtype=object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)])
"""
EXECUTE = """def execute(self, requests):
        return [self.answer() for _ in requests]
"""
COROUTINE = """async def execute(self, requests):
        import asyncio
        await asyncio.sleep(0)
        return [self.answer() for _ in requests]
"""
DECOUPLED = """def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            sender.send(self.answer())
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def add(repository, name, count=4, share=None, prepare="pass", execute=EXECUTE, extra="", weights=WEIGHTS):
    more = f"instance_group [ {{ count: {count} kind: KIND_CPU }} ] {extra}"
    if share is not None:
        more += f' parameters {{ key: "SHARE_INSTANCES" value {{ string_value: "{share}" }} }}'
    source = MODEL.format(weights=weights, prepare=prepare, execute=execute)
    repository.add(name, source, config(name, TEXT, OUT, extra=more))


def notes(repository, name):
    return (repository.path / name / "notes").read_text().split("\n")[:-1]


def ask(client, name):
    """Returns (instance, process, process of initialize(), sum)."""
    instance, *numbers = client.infer(name, {"IN": strings("x")}).as_numpy("OUT")
    return instance.decode(), *map(int, numbers)


def pss(pid):
    """Returns the proportional memory of a process in bytes; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def test_instances_share_the_memory_of_one_initialize(repository, serve, connect):
    add(repository, "shared")
    server = serve(repository, "--share-instances=on")
    client = connect("grpc", server)
    instance, process, born, total = ask(client, "shared")
    assert (instance, total) == ("shared_0_0", 100)
    assert process != born
    processes = children(server.process.pid)
    assert born in processes
    assert WEIGHTS < sum(map(pss, processes)) < 2 * WEIGHTS
    names = [f"shared_0_{i}" for i in range(4)]
    assert notes(repository, "shared")[:2] == ["initialize shared_0_0", "prepare_fork "]
    assert sorted(notes(repository, "shared")[2:]) == [f"initialize_instance {name}" for name in names]
    server.stop()
    ended = [line for line in notes(repository, "shared") if line.startswith("finalize")]
    assert sorted(ended) == [f"finalize {name}" for name in names]


def test_without_it_each_instance_initializes(repository, serve, connect):
    add(repository, "plain", count=2)
    server = serve(repository)
    _, process, born, _ = ask(connect("grpc", server), "plain")
    assert process == born
    assert sorted(notes(repository, "plain")) == ["initialize plain_0_0", "initialize plain_0_1"]


@pytest.mark.parametrize(
    ("execute", "extra"),
    [(COROUTINE, ""), (DECOUPLED, "model_transaction_policy { decoupled: true }")],
    ids=["coroutine", "decoupled"],
)
def test_other_kinds_of_models_share(repository, serve, connect, execute, extra):
    add(repository, "other", count=2, share="on", execute=execute, extra=extra, weights=1000)
    server = serve(repository)
    client = connect("http" if not extra else "grpc", server)
    if extra:
        answers = []
        client.raw.start_stream(lambda result, error: answers.append((result, error)))
        client.raw.async_stream_infer("other", [client.input("IN", strings("x"))])
        wait_until(lambda: answers, 20, "an answer")
        client.raw.stop_stream()
        result, error = answers[0]
        assert error is None
        instance, process, born, _ = result.as_numpy("OUT")
    else:
        instance, process, born, _ = client.infer("other", {"IN": strings("x")}).as_numpy("OUT")
    assert instance.startswith(b"other_0_")
    assert process != born


def test_a_dead_instance_returns_without_another_initialize(repository, serve, connect):
    add(repository, "m", count=1, share="on", weights=1000)
    server = serve(repository)
    client = connect("grpc", server)
    _, process, born, _ = ask(client, "m")
    os.kill(process, signal.SIGKILL)

    def returned():
        with contextlib.suppress(InferenceServerException):
            return ask(client, "m")[1] != process

    wait_until(returned, 20, "the instance")
    assert ask(client, "m")[2] == born
    assert notes(repository, "m").count("initialize m_0_0") == 1
    assert notes(repository, "m").count("initialize_instance m_0_0") == 2


def test_a_dead_template_is_replaced_when_an_instance_needs_it(repository, serve, connect):
    add(repository, "m", count=1, share="on", weights=1000)
    server = serve(repository)
    client = connect("grpc", server)
    _, process, born, _ = ask(client, "m")
    os.kill(born, signal.SIGKILL)
    wait_until(lambda: born not in children(server.process.pid), 20, "the end of the template")
    assert ask(client, "m")[1] == process
    os.kill(process, signal.SIGKILL)

    def returned():
        with contextlib.suppress(InferenceServerException):
            return ask(client, "m")[2] != born

    wait_until(returned, 20, "the instance")
    server.wait_for_log("the template of model 'm' ended and is replaced")


def test_a_reload_replaces_the_template(repository, serve, connect):
    add(repository, "m", count=2, share="on", weights=1000)
    server = serve(repository, "--model-control-mode=explicit", "--load-model=m")
    client = connect("http", server)
    before = ask(client, "m")
    add(repository, "m", count=2, share="on", prepare="self.weights *= 2", weights=1000)
    client.raw.load_model("m")
    after = ask(client, "m")
    assert (before[3], after[3]) == (100, 200)
    wait_until(lambda: before[2] not in children(server.process.pid), 20, "the end of the old template")


def test_an_instance_that_uses_too_much_memory_is_forked_anew(repository, serve, connect):
    execute = """def execute(self, requests):
        self.kept = [*getattr(self, "kept", []), np.ones(16 << 20, np.uint8)]
        return [self.answer() for _ in requests]
"""
    extra = ' parameters { key: "WORKER_MEMORY_MAX_BYTES" value { string_value: "150000000" } }'
    add(repository, "m", count=1, share="on", execute=execute, extra=extra, weights=1000)
    client = connect("grpc", serve(repository))
    processes = set()
    borns = set()

    def replaced():
        _, process, born, _ = ask(client, "m")
        processes.add(process)
        borns.add(born)
        return len(processes) > 1

    wait_until(replaced, 60, "another process")
    assert len(borns) == 1
    assert notes(repository, "m").count("initialize m_0_0") == 1


LEFT = {
    "thread": (
        'import threading, time; threading.Thread(target=time.sleep, args=(1e6,), name="feeder", daemon=True).start()',
        r"initialize\(\) left 1 running threads \('feeder'\); limit libraries to one thread",
    ),
    "socket": ("import socket; self.socket = socket.socket()", r"initialize\(\) left a socket open"),
    "event loop": (
        "import asyncio; self.loop = asyncio.new_event_loop()",
        r"initialize\(\) left a socket open; .*initialize\(\) left an event loop open|"
        r"initialize\(\) left an event loop open",
    ),
}


@pytest.mark.parametrize("left", LEFT)
def test_a_process_that_cannot_be_forked_is_not(repository, serve, connect, left):
    prepare, why = LEFT[left]
    add(repository, "auto", count=2, share="auto", prepare=prepare, weights=1000)
    add(repository, "on", count=2, share="on", prepare=prepare, weights=1000)
    server = serve(repository, "--exit-on-error=false", ready=False)
    server.wait_for_log(rf"instances of model 'auto' cannot share memory: {why}")
    server.wait_for_log(rf"failed to load 'on' .*instances of model 'on' cannot share memory: {why}")
    client = connect("grpc", server)
    wait_until(lambda: client.raw.is_model_ready("auto"), 20, "the model")
    _, process, born, _ = ask(client, "auto")
    assert process == born
    assert not client.raw.is_model_ready("on")


def test_threads_of_numpy_are_no_obstacle(repository, serve, connect):
    prepare = "a = np.ones((500, 500), np.float32); self.product = a @ a"
    execute = """def execute(self, requests):
        assert (self.product @ np.ones((500, 1), np.float32))[0, 0] == 250000
        return [self.answer() for _ in requests]
"""
    add(repository, "m", count=2, share="on", prepare=prepare, execute=execute, weights=1000)
    _, process, born, total = ask(connect("grpc", serve(repository)), "m")
    assert process != born
    assert total == 100


def test_what_cannot_share_is_refused(repository, serve):
    add(repository, "fresh", share="on", weights=1000)
    add(repository, "bad", share="perhaps", weights=1000)
    server = serve(repository, "--worker-start=fresh", "--exit-on-error=false", ready=False)
    server.wait_for_log(
        "instances of model 'fresh' cannot share memory: it needs --worker-start=fork, and isolation none or basic"
    )
    server.wait_for_log("parameter SHARE_INSTANCES of model 'bad' is 'perhaps'; expected off, auto or on")


def test_an_error_of_initialize_is_the_models(repository, serve):
    add(repository, "fails", share="on", prepare="raise ValueError('no weights')", weights=1000)
    server = serve(repository, "--exit-on-error=false", ready=False)
    server.wait_for_log("failed to load 'fails' version 1: .*no weights")
    wait_until(lambda: len(children(server.process.pid)) <= 1, 20, "the end of the template")
