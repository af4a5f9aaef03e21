"""is_ready(): the part of a model's own code in its readiness."""

import concurrent.futures
import contextlib
import time

import numpy as np
import pytest
from harness.repository import config
from harness.waiting import wait_until

# The file named by the parameter "mode" decides the behaviour of is_ready().
HOOK = """
import json, pathlib, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.mode = pathlib.Path(parameters["mode"]["string_value"])
        self.instance = args["model_instance_name"]
        self.calls = 0

    %s is_ready(self):
        self.calls += 1
        mode = self.mode.read_text()
        if mode == "raise":
            raise ValueError("no database")
        if mode == "text":
            return "yes"
        if mode == "slow":
            time.sleep(8)
        if mode == "wait":
            self.mode.with_name("begun").touch()
            while self.mode.read_text() == "wait":
                time.sleep(0.01)
            return True
        if mode.startswith("only "):
            return self.instance == mode.removeprefix("only ")
        return mode != "no"

    def execute(self, requests):
        value = np.array([self.calls], dtype=np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)]) for _ in requests]
"""


def vector(name, mode, extra=""):
    parameters = f'parameters {{ key: "mode" value {{ string_value: "{mode}" }} }}'
    return config(name, [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])], extra=parameters + extra)


@pytest.fixture(scope="module")
def mode(tmp_path_factory):
    path = tmp_path_factory.mktemp("mode") / "mode"
    path.write_text("yes")
    return path


@pytest.fixture
def begun(mode):
    """Returns the file that a hook writes when it begins to wait."""
    path = mode.with_name("begun")
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def server(module_repository, module_serve, mode):
    module_repository.add("plain", HOOK % "def", vector("plain", mode))
    module_repository.add("coroutine", HOOK % "async def", vector("coroutine", mode))
    two = "instance_group [ { kind: KIND_CPU count: 2 } ]"
    module_repository.add("two", HOOK % "def", vector("two", mode, two))
    module_repository.add_identity("identity")
    return module_serve(module_repository, "--log-verbose", "1")


@pytest.fixture
def say(mode):
    """say("no") makes all hooks answer "no" until the end of the test."""

    def say(text):
        # Replaces the file atomically, so that no hook reads an empty one.
        part = mode.with_name("part")
        part.write_text(text)
        part.replace(mode)

    yield say
    say("yes")


def ready(client, model):
    return client.raw.is_model_ready(model)


def calls(client, model):
    return int(client.infer(model, {"IN": np.zeros(1, dtype=np.float32)}).as_numpy("OUT")[0])


@pytest.mark.parametrize("model", ["plain", "coroutine"])
def test_the_hook_is_asked_each_time(client, say, model):
    before = calls(client, model)
    assert ready(client, model)
    say("no")
    assert not ready(client, model)
    assert calls(client, model) == before + 2  # it still serves
    say("yes")
    assert ready(client, model)


def test_the_reason_is_in_the_log(client, server, say):
    for text, reason in (
        ("no", "Model 'plain_?[0-9_]*' is not ready \\\\(user-defined check failed\\\\)."),
        ("text", "is_ready\\\\(\\\\) must return a boolean value"),
        ("raise", "no database"),
    ):
        say(text)
        assert not ready(client, "plain")
        server.wait_for_log(f"Model 'plain' version 1 is not ready: .*{reason}".replace("\\\\", "\\"))


def test_http_says_it_by_its_status(server, say):
    assert server.request("GET", "/v2/models/plain/ready")[0] == 200
    say("no")
    status, _, body = server.request("GET", "/v2/models/plain/versions/1/ready")
    assert (status, body) == (400, b'{"error":"Model version not ready"}')


def test_all_instances_have_to_be_ready(client, say):
    assert ready(client, "two")
    say("only two_0_1")
    assert not ready(client, "two")


def test_the_server_is_ready_when_all_models_are(client, server, say):
    assert client.raw.is_server_ready()
    say("no")
    assert not client.raw.is_server_ready()
    assert client.raw.is_server_live()


def test_a_model_without_the_hook(client, say):
    say("no")
    assert ready(client, "identity")


def test_one_check_for_all_who_ask(client, server, say, begun):
    say("wait")
    before = calls(client, "plain")
    with contextlib.ExitStack() as stack:
        asking = [stack.enter_context(contextlib.closing(server.connection())) for _ in range(5)]
        for connection in asking:
            connection.request("GET", "/v2/models/plain/ready")
        wait_until(begun.exists, what="the hook")
        # Later requests are answered.
        assert client.raw.is_server_live()
        say("yes")
        assert [connection.getresponse().status for connection in asking] == [200] * 5
    assert calls(client, "plain") < before + 5


def test_requests_run_while_the_hook_does(client, server, connect, say, begun):
    asking = connect("http", server)
    say("wait")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        checking = pool.submit(ready, asking, "plain")
        try:
            wait_until(begun.exists, what="the hook")
            calls(client, "plain")
            assert not checking.done()
        finally:
            say("yes")
        assert checking.result(10)


# The limit of five seconds is fixed in the server. ReadinessHookTest.AHookThatTakesEightSeconds moves its clock
# instead.
@pytest.mark.campaign
def test_a_hook_that_takes_eight_seconds(server, connect, say):
    client = connect("http", server, network_timeout=30, connection_timeout=30)
    say("slow")
    begin = time.monotonic()
    assert not ready(client, "plain")
    assert 4.5 < time.monotonic() - begin < 7.9
    assert ready(client, "plain")
    assert 7.5 < time.monotonic() - begin < 12
    server.wait_for_log(r"not ready: Timed out waiting for user-defined is_ready\(\) response")


def test_a_dead_process_is_not_ready(repository, serve, connect, mode):
    repository.add(
        "dying", (HOOK % "def").replace("return [pb", "import os; os._exit(1); return [pb"), vector("dying", mode)
    )
    server = serve(repository)
    client = connect("grpc", server)
    assert ready(client, "dying")
    with client.fails("INTERNAL", contains="is not healthy"):
        calls(client, "dying")
    wait_until(lambda: not ready(client, "dying"), 1.0, "not ready")
    assert not client.raw.is_server_ready()
    wait_until(lambda: ready(client, "dying"), 10.0, "the restart")
