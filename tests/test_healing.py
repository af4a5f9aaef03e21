"""Models return after their processes die; requests get clear errors meanwhile."""

import contextlib
import json
import os
import pathlib
import random
import signal
import time

import numpy as np
import pytest
from harness.clients import strings
from harness.graphs import config as graphs_config
from harness.graphs import single
from harness.graphs import tensor as graph_tensor
from harness.repository import config, per_request
from harness.server import Server, children
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [1])]
PID = per_request("return respond(OUT=np.array([str(os.getpid()).encode()], dtype=object))")

# Fails to start if the folder has a file FAIL, and waits while it has a file WAIT.
STARTS = per_request("return respond(OUT=np.array([str(os.getpid()).encode()], dtype=object))").replace(
    "        self.args = args\n",
    """
        folder = args["model_repository"]
        while os.path.exists(os.path.join(folder, "WAIT")):
            time.sleep(0.005)
        if os.path.exists(os.path.join(folder, "FAIL")):
            raise ValueError("it does not want to")
""",
)

ADD_ONE = """
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def execute(self, inputs):
            return [Tensor("out", np.array(inputs[0]) + 1)]
"""

# Machines that run the tests may be busy.
PATIENCE = 15
HEALED_WITHIN = 6


def ask(client, model):
    return int(client.infer(model, {"IN": strings("x")}).as_numpy("OUT")[0])


def named(server, name):
    """Returns the server's children with this name, except zombies."""
    found = []
    for pid in children(server.process.pid):
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text()
            if f"({name})" in fields and fields.rpartition(")")[2].split()[0] != "Z":
                found.append(pid)
    return found


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.campaign)])
def test_models_heal_after_many_kills(repository, tmp_path, connect, kills):
    repository.add("plain", PID, config("plain", TEXT, OUT))
    repository.add("two", PID, config("two", TEXT, OUT, extra="instance_group [ { count: 2 kind: KIND_CPU } ]"))
    graph = graphs_config(single(tmp_path / "graphs", "graph", ADD_ONE))
    (tmp_path / "config.json").write_text(json.dumps(graph))
    options = ("--config_path", tmp_path / "config.json")
    draw = random.Random(18)
    with Server([repository.path], *options, workdir=tmp_path) as server:
        client = connect("grpc", server)

        def works(model):
            try:
                if model == "graph":
                    answer = client.raw.infer("graph", [graph_tensor("in", np.ones(1, np.float32))])
                    return answer.as_numpy("out")[0] == 2
                return ask(client, model) > 0
            except InferenceServerException:
                return False

        models = ("plain", "two", "graph")
        for model in models:
            assert works(model)
        count = len(children(server.process.pid))
        for _ in range(kills):
            if alive := children(server.process.pid):
                kill(draw.choice(alive))
            time.sleep(0.3)
        for model in models:
            wait_until(lambda model=model: works(model), HEALED_WITHIN, f"an answer of '{model}'")
        wait_until(lambda: len(children(server.process.pid)) == count, PATIENCE, "as many processes as before")
        server.stop()


def test_a_warm_interpreter_that_dies_takes_nobody_with_it_and_is_replaced(repository, serve, connect):
    repository.add("plain", PID, config("plain", TEXT, OUT))
    server = serve(repository, "--model-control-mode=explicit", "--load-model=plain")
    client = connect("http", server)
    worker = ask(client, "plain")
    [warm] = named(server, "brd-warm")
    kill(warm)
    [successor] = wait_until(lambda: [p for p in named(server, "brd-warm") if p != warm], PATIENCE, "another one")
    assert ask(client, "plain") == worker
    repository.add("later", PID, config("later", TEXT, OUT))
    client.raw.load_model("later")
    assert ask(client, "later") not in (worker, successor)
    assert ask(client, "plain") == worker


def kill_and_see(client, model):
    """Kills the model's process. Returns its id once the server has noticed."""
    worker = ask(client, model)
    kill(worker)
    wait_until(lambda: not client.raw.is_model_ready(model), PATIENCE, "the death to be noticed")
    return worker


def returned(client, model, worker):
    """Waits until the model is back in another process."""
    wait_until(lambda: client.raw.is_model_ready(model), PATIENCE, "its return")
    assert ask(client, model) != worker


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_model_that_does_not_come_back_fails_its_requests_in_time(repository, serve, connect, protocol):
    folder = repository.add("bad", STARTS, config("bad", TEXT, OUT))
    server = serve(repository, "--outage-wait-ms=300")
    client = connect(protocol, server)
    (folder / "FAIL").touch()
    worker = kill_and_see(client, "bad")
    with client.fails(
        "UNAVAILABLE", contains="no instance of model 'bad' was available for 300 ms (--outage-wait-ms): "
    ):
        ask(client, "bad")
    server.wait_for_log(r"instance 'bad_0' could not be restarted: .*it does not want to")
    (folder / "FAIL").unlink()
    returned(client, "bad", worker)


def test_a_pause_is_told_where_a_model_fails_again_and_again(repository, serve, connect):
    folder = repository.add("bad", STARTS, config("bad", TEXT, OUT))
    server = serve(repository, "--outage-wait-ms=0")
    client = connect("grpc", server)
    worker = ask(client, "bad")
    (folder / "FAIL").touch()
    kill(worker)

    def reason():
        try:
            ask(client, "bad")
        except InferenceServerException as error:
            return error.message()
        return ""

    text = "The instance has failed 3 times in a row; next try in 0.8 s."
    wait_until(lambda: text in reason(), PATIENCE, "the third try")
    (folder / "FAIL").unlink()
    wait_until(lambda: client.raw.is_model_ready("bad"), PATIENCE, "its return")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_requests_need_not_wait_for_a_restart(repository, serve, connect, protocol):
    folder = repository.add("slow", STARTS, config("slow", TEXT, OUT))
    server = serve(repository, "--outage-wait-ms=0")
    client = connect(protocol, server)
    (folder / "WAIT").touch()
    worker = kill_and_see(client, "slow")
    with client.fails(
        "UNAVAILABLE", contains="no instance of model 'slow' is available: Stub process 'slow_0' is not healthy."
    ):
        ask(client, "slow")
    (folder / "WAIT").unlink()
    returned(client, "slow", worker)


def test_requests_wait_for_a_restart_by_default(repository, serve, connect):
    folder = repository.add("slow", STARTS, config("slow", TEXT, OUT))
    server = serve(repository, "--outage-wait-ms=60000")
    client = connect("grpc", server)
    (folder / "WAIT").touch()
    worker = kill_and_see(client, "slow")
    answers = []
    client.raw.async_infer(
        "slow", [client.input("IN", strings("x"))], lambda result, error: answers.append((result, error))
    )
    wait_until(
        lambda: (
            'nv_inference_pending_request_count{model="slow",version="1"} 1'
            in server.request("GET", "/metrics", address=server.metrics)[2].decode()
        ),
        PATIENCE,
        "the request to wait",
    )
    assert not answers
    (folder / "WAIT").unlink()
    [(result, error)] = wait_until(lambda: answers, PATIENCE, "the answer")
    assert error is None
    assert int(result.as_numpy("OUT")[0]) != worker
