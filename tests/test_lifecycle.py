"""Start and end of model processes and of the server (9)."""

import contextlib
import http.client
import os
import signal
import threading
import time

import numpy as np
import pytest
from harness import graphs
from harness import openvino_models as models
from harness.clients import Client, strings
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.server import alive, children, listening_ports, marked_processes
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

TEXT = [("IN", "STRING", [1])]
OUT = [("OUT", "STRING", [1])]

# Dies in the way that the request names.
MORTAL = per_request(
    """
    import ctypes, signal
    how = get(request, "IN")[0].decode()
    if how == "exit":
        os._exit(7)
    if how == "segv":
        ctypes.string_at(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "abort":
        os.abort()
    return respond(OUT=np.array([str(os.getpid()).encode()], dtype=object))
    """
)

# Creates the file STARTED, and answers once the file GO exists.
SLOW = per_request(
    """
    folder = self.args["model_repository"]
    open(os.path.join(folder, "STARTED"), "w").close()
    while not os.path.exists(os.path.join(folder, "GO")):
        time.sleep(0.005)
    return respond(OUT=get(request, "IN"))
    """
)


def ask(client, model, text="x"):
    return client.infer(model, {"IN": strings(text)}).as_numpy("OUT")[0].decode()


# ---- death of a model's process ------------------------------------------------------------------


@pytest.fixture
def mortal(repository, serve):
    repository.add("mortal", MORTAL, config("mortal", TEXT, OUT))
    repository.add("bystander", MORTAL, config("bystander", TEXT, OUT))
    return serve(repository)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("how", ["exit", "segv", "kill", "abort"])
def test_crash_fails_its_request_and_nothing_else(mortal, connect, how, protocol):
    client = connect(protocol, mortal)
    first = ask(client, "mortal")
    bystander = ask(client, "bystander")
    with client.fails("INTERNAL", contains="Stub process 'mortal_0' is not healthy."):
        ask(client, "mortal", how)
    assert client.raw.is_model_ready("bystander")
    assert ask(client, "bystander") == bystander
    # It is restarted automatically as another process; that may already have happened.
    wait_until(lambda: client.raw.is_model_ready("mortal"), 20, "the restart")
    assert ask(client, "mortal") not in (first, bystander)
    assert mortal.request("GET", "/v2/health/ready")[0] == 200


def test_crashes_in_a_row_end_in_a_working_model(mortal, connect):
    client = connect("grpc", mortal)
    for _ in range(3):
        with client.fails("INTERNAL"):
            ask(client, "mortal", "exit")
        wait_until(lambda: client.raw.is_model_ready("mortal"), 30, "the restart")
    assert ask(client, "mortal")


def test_process_killed_from_outside_while_idle(mortal, connect):
    client = connect("http", mortal)
    pid = int(ask(client, "mortal"))
    assert pid in children(mortal.process.pid)
    os.kill(pid, signal.SIGKILL)

    def works():
        try:
            return int(ask(client, "mortal")) != pid
        except InferenceServerException:
            return False

    wait_until(works, 20, "the restart")


def test_server_stops_cleanly_with_a_dead_process(mortal, connect):
    client = connect("grpc", mortal)
    pid = int(ask(client, "mortal"))
    os.kill(pid, signal.SIGKILL)
    mortal.stop()


def test_queued_requests_of_a_dead_instance_end(repository, serve, connect):
    folder = repository.add("slow", SLOW, config("slow", TEXT, OUT))
    server = serve(repository)
    results = []

    def send():
        client = Client("grpc", server)
        try:
            results.append(ask(client, "slow"))
        except InferenceServerException as error:
            results.append(error.message())
        finally:
            client.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until((folder / "STARTED").exists, 20, "the first request")
    (folder / "GO").touch()  # requests that reach the new process are answered
    for child in children(server.process.pid):
        with contextlib.suppress(ProcessLookupError):  # it may be ending
            os.kill(child, signal.SIGKILL)
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert len(results) == 4


# ---- failures at load ----------------------------------------------------------------------------

BAD_MODELS = [
    ("raise ValueError('at import')", "ValueError: at import"),
    ("this is no Python", "SyntaxError"),
    ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ("x = 1", "TritonPythonModel"),
    (
        "class TritonPythonModel:\n    def __init__(self): raise ValueError('in init')\n    def execute(self, r): pass",
        "ValueError: in init",
    ),
    (
        "class TritonPythonModel:\n    def initialize(self, args): raise ValueError('in initialize')\n"
        "    def execute(self, r): pass",
        "ValueError: in initialize",
    ),
    (
        "import os\nclass TritonPythonModel:\n    def initialize(self, args): os._exit(3)\n"
        "    def execute(self, r): pass",
        "Stub process 'bad_0_0' is not healthy.",
    ),
]


@pytest.mark.parametrize(("source", "text"), BAD_MODELS)
def test_failed_load_ends_the_server_with_the_reason(repository, serve, source, text):
    repository.add("bad", source, config("bad", TEXT, OUT, extra="instance_group [ { count: 1 } ]"))
    server = serve(repository, ready=False, listening=False)
    assert server.wait_exit(40) != 0
    server.stopped = True
    assert "failed to load 'bad' version 1: Internal: " in server.log
    assert text in server.log
    assert "error: creating server: Internal - failed to load all models\n  load failed for model 'bad'" in server.log
    assert "run `braid check` with the same arguments for details" in server.log
    server.assert_nothing_left()


def test_missing_model_file_ends_the_server(repository, serve):
    repository.add("bad", None, config("bad", TEXT, OUT))
    server = serve(repository, ready=False, listening=False)
    assert server.wait_exit(40) != 0
    server.stopped = True
    assert "failed to load 'bad'" in server.log
    assert "Python model file not found in '" in server.log
    server.assert_nothing_left()


def test_initialize_may_take_longer_than_the_stub_timeout(repository, serve, connect):
    source = MORTAL.replace("self.args = args", "self.args = args; time.sleep(6)")
    repository.add("late", source, config("late", TEXT, OUT))
    server = serve(repository, "--backend-config=python,stub-timeout-seconds=5")
    assert ask(connect("http", server), "late")


def test_server_answers_while_models_load(repository, serve):
    source = MORTAL.replace(
        "self.args = args",
        """self.args = args
        open(os.path.join(args["model_repository"], "STARTED"), "w").close()
        while not os.path.exists(os.path.join(args["model_repository"], "GO")):
            time.sleep(0.005)""",
    )
    folder = repository.add("late", source, config("late", TEXT, OUT))
    server = serve(repository, ready=False, listening=False)
    try:
        wait_until((folder / "STARTED").exists, 20, "the load")
        # The addresses are printed after the start, but the ports are open earlier.
        answers = []
        for port in listening_ports(server.process.pid):
            try:
                answers.append(
                    [
                        server.request("GET", f"/v2/health/{what}", address=f"127.0.0.1:{port}", timeout=5)[0]
                        for what in ("live", "ready")
                    ]
                )
            except (OSError, http.client.HTTPException):
                continue  # the gRPC port
        assert [200, 400] in answers or [200, 503] in answers, answers
    finally:
        (folder / "GO").touch()
    server.find_ports()
    server.wait_ready()


def test_instances_start_in_parallel(repository, serve):
    source = MORTAL.replace(
        "self.args = args",
        """self.args = args
        folder = args["model_repository"]
        open(os.path.join(folder, args["model_instance_name"]), "w").close()
        deadline = time.monotonic() + 15
        while not all(os.path.exists(os.path.join(folder, f"pair_0_{n}")) for n in (0, 1)):
            if time.monotonic() > deadline:
                raise RuntimeError("alone")
            time.sleep(0.005)""",
    )
    repository.add("pair", source, config("pair", TEXT, OUT, extra="instance_group [ { count: 2 } ]"))
    serve(repository)


# ---- the end of the server -----------------------------------------------------------------------


def test_nothing_survives_the_kill_of_the_server(repository, serve, connect):
    repository.add("a", MORTAL, config("a", TEXT, OUT, extra="instance_group [ { count: 2 } ]"))
    repository.add("b", SLOW, config("b", TEXT, OUT))
    server = serve(repository)
    ask(connect("http", server), "a")
    assert len(marked_processes(server.mark)) >= 4
    server.process.kill()
    server.process.wait()
    server.stopped = True
    wait_until(lambda: not any(map(alive, marked_processes(server.mark))), 2, "the end of the model processes")
    server.kill()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_stop_waits_for_requests_in_flight(repository, serve, stop, protocol):
    folder = repository.add("slow", SLOW, config("slow", TEXT, OUT))
    server = serve(repository)
    results = []

    def send():
        client = Client(protocol, server)
        try:
            results.append(ask(client, "slow", "in flight"))
        except Exception as error:
            results.append(error)
        finally:
            client.close()

    thread = threading.Thread(target=send)
    thread.start()
    wait_until((folder / "STARTED").exists, 20, "the request")
    server.process.send_signal(stop)
    # A second signal has no effect.
    server.process.send_signal(stop)
    # Not ready any more (or no longer listening), while the request continues.
    wait_until(lambda: not is_ready(server), 10, "the end of readiness")
    assert server.process.poll() is None
    (folder / "GO").touch()
    thread.join(20)
    assert results == ["in flight"]
    server.stop()


# Waits in initialize for the file GO.
LATE = """
import os, time


class TritonPythonModel:
    def initialize(self, args):
        while not os.path.exists(os.path.join(args["model_repository"], "GO")):
            time.sleep(0.005)

    def execute(self, requests):
        return []
"""


def test_a_model_is_served_from_the_moment_it_is_ready(repository, serve, connect):
    repository.add_identity("fast")
    late = repository.add("late", LATE, config("late", TEXT, OUT))
    repository.add("above", None, ABOVE_LATE)
    server = serve(repository, ready=False, listening=False)
    server.find_open_ports()
    http, grpc = (connect(protocol, server) for protocol in ("http", "grpc"))
    wait_until(lambda: http.raw.is_model_ready("fast"), what="the fast model")
    for client in (http, grpc):
        assert client.infer("fast", {"IN": np.float32([7])}).as_numpy("OUT")[0] == 7
        assert client.raw.is_model_ready("fast")
        assert not client.raw.is_model_ready("late")
        assert not client.raw.is_server_ready()
        for call in (client.raw.get_model_metadata, client.raw.get_model_config, client.raw.get_inference_statistics):
            assert call("fast")
        with pytest.raises(InferenceServerException, match="'late' has no available versions"):
            client.raw.get_model_metadata("late")
    index = http.raw.get_model_repository_index()
    assert [(each["name"], each.get("state")) for each in index] == [
        ("above", None), ("fast", "READY"), ("late", "LOADING")
    ]  # fmt: skip
    predicted = server.json("POST", "/v1/models/fast:predict", {"inputs": {"IN": [7.0]}})
    assert predicted == (200, {"outputs": [7.0]})
    states = {
        name: [each["state"] for each in model["model_version_status"]]
        for name, model in server.json("GET", "/v1/config")[1].items()
    }
    assert states == {"above": [], "fast": ["AVAILABLE"], "late": ["LOADING"]}
    assert server.json("GET", "/v1/models/late")[1]["model_version_status"][0]["state"] == "LOADING"
    # Loads are refused until the loads of the start have ended.
    status, refused = server.json("POST", "/v2/repository/models/fast/load")
    assert (status, refused) == (503, {"error": "explicit model load / unload is not allowed if polling is enabled"})
    (late / "GO").touch()
    server.wait_ready()
    assert all(http.raw.is_model_ready(name) for name in ("fast", "late", "above"))


ABOVE_LATE = """
name: "above"
platform: "ensemble"
input [ { name: "IN" data_type: TYPE_STRING dims: [1] } ]
output [ { name: "OUT" data_type: TYPE_STRING dims: [1] } ]
ensemble_scheduling { step [ {
  model_name: "late" model_version: -1
  input_map { key: "IN" value: "IN" }
  output_map { key: "OUT" value: "OUT" }
} ] }
"""


def test_servables_of_a_config_have_their_states_from_the_start(tmp_path):
    models.save(models.add(), tmp_path / "dummy")
    late = """
import os, time
class OvmsPythonModel:
    def initialize(self, args):
        while not os.path.exists(os.path.join(args["base_path"], "GO")):
            time.sleep(0.005)
    def execute(self, inputs):
        return inputs
"""
    text = graphs.config(graphs.single(tmp_path, "late", late), models=[models.entry("dummy", tmp_path / "dummy")])
    with OvmsServer(text, workdir=tmp_path, ready=False, listening=False) as server:
        server.find_open_ports()
        wait_until(lambda: server.request("GET", "/v2/models/dummy/ready")[0] == 200, what="the model")
        assert server.states("dummy") == {1: "AVAILABLE"}
        assert server.states("late") == {1: "LOADING"}
        body = {"inputs": {"b": [[0.0] * 10]}}
        assert server.json("POST", "/v1/models/dummy:predict", body) == (200, {"outputs": [[1.0] * 10]})
        assert server.json("GET", "/v2/models/dummy")[0] == 200
        assert server.request("GET", "/v2/models/late/ready")[0] != 200
        assert server.request("GET", "/v2/health/ready")[0] == 400
        assert server.reload() == (503, {"error": "Server is not ready"})
        (tmp_path / "late" / "GO").touch()
        server.wait_ready()
        assert server.states("late") == {1: "AVAILABLE"}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_no_model_is_ready_while_the_server_exits(repository, serve, protocol):
    folder = repository.add("slow", SLOW, config("slow", TEXT, OUT))
    repository.add_identity("idle")
    server = serve(repository)
    client = Client(protocol, server)
    busy = Client("grpc", server)
    thread = threading.Thread(target=lambda: ask(busy, "slow"))
    thread.start()
    wait_until((folder / "STARTED").exists, 20, "the request")
    assert client.raw.is_model_ready("idle")
    server.process.send_signal(signal.SIGTERM)

    def ready():
        try:
            return client.raw.is_model_ready("idle")
        except (InferenceServerException, OSError):
            return False

    wait_until(lambda: not ready(), 10, "the end of readiness")
    if protocol == "http":
        assert server.json("GET", "/v2/models/idle") == (503, {"error": "Server exiting"})
    (folder / "GO").touch()
    thread.join(20)
    client.close()
    busy.close()
    server.stop()


def is_ready(server):
    try:
        return server.request("GET", "/v2/health/ready", timeout=5)[0] == 200
    except OSError:
        return False


def test_a_stop_is_announced_before_anything_is_refused(repository, serve, connect):
    repository.add_identity("m")
    server = serve(repository, "--exit-notice-secs", 2)
    client = connect("grpc", server)
    told = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: server.request("GET", "/v2/health/ready")[0] == 400, 10, "a server that is not ready")
    assert server.request("GET", "/v2/health/live")[0] == 200
    assert client.infer("m", {"IN": np.float32([7])}).as_numpy("OUT")[0] == 7
    server.stop()
    assert time.monotonic() - told >= 2


def test_stop_does_not_wait_for_ever(repository, serve):
    folder = repository.add("slow", SLOW, config("slow", TEXT, OUT))
    server = serve(repository, "--exit-timeout-secs=1")

    def send():
        client = Client("grpc", server)
        try:
            ask(client, "slow")
        except Exception:
            pass
        finally:
            client.close()

    thread = threading.Thread(target=send)
    thread.start()
    wait_until((folder / "STARTED").exists, 20, "the request")
    start = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    server.wait_exit(20)
    server.stopped = True
    assert time.monotonic() - start < 10
    thread.join(10)
    server.assert_nothing_left()


def test_finalize_runs_once_per_instance(repository, serve):
    source = (
        MORTAL + "\n    def finalize(self):\n        print('final', self.args['model_instance_name'], flush=True)\n"
    )
    repository.add("a", source, config("a", TEXT, OUT, extra="instance_group [ { count: 2 } ]"))
    server = serve(repository)
    server.stop()
    for name in ("a_0_0", "a_0_1"):
        assert server.log.count(f"final {name}") == 1


def test_exception_in_finalize_does_not_spoil_the_stop(repository, serve):
    source = MORTAL + "\n    def finalize(self):\n        raise ValueError('in finalize')\n"
    repository.add("a", source, config("a", TEXT, OUT))
    server = serve(repository)
    server.stop()
    assert "ValueError: in finalize" in server.log


def test_prints_of_a_model_reach_the_log_with_its_name(repository, serve, connect):
    source = MORTAL.replace(
        "how = get", "print('printed line', flush=True); print('error line', file=sys.stderr, flush=True); how = get"
    )
    repository.add("chatty", source, config("chatty", TEXT, OUT))
    server = serve(repository)
    ask(connect("http", server), "chatty")
    for text in ("printed line", "error line"):
        server.wait_for_log(text)
        line = next(one for one in server.log.splitlines() if text in one)
        assert "chatty" in line


def test_many_prints_do_not_block_a_model(repository, serve, connect):
    source = MORTAL.replace("how = get", "print('y' * 1_000_000, flush=True); how = get")
    repository.add("chatty", source, config("chatty", TEXT, OUT))
    server = serve(repository)
    client = connect("grpc", server)
    for _ in range(5):
        ask(client, "chatty")


def test_fresh_workers(repository, serve, connect):
    repository.add("mortal", MORTAL, config("mortal", TEXT, OUT))
    server = serve(repository, "--worker-start=fresh")
    client = connect("http", server)
    first = ask(client, "mortal")
    with client.fails("INTERNAL"):
        ask(client, "mortal", "exit")
    wait_until(lambda: client.raw.is_model_ready("mortal"), 20, "the restart")
    assert ask(client, "mortal") != first


def test_model_processes_ignore_the_signals_of_the_terminal(repository, serve, connect):
    repository.add("mortal", MORTAL, config("mortal", TEXT, OUT))
    server = serve(repository)
    client = connect("http", server)
    pid = int(ask(client, "mortal"))
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    assert int(ask(client, "mortal")) == pid


def test_abandoned_requests_leave_no_trace(repository, serve, connect):
    # Clients disconnect in the middle of requests: the server continues, and ends cleanly.
    import socket

    repository.add("mortal", MORTAL, config("mortal", TEXT, OUT))
    server = serve(repository)
    host, port = server.http.split(":")
    body = b'{"inputs":[{"name":"IN","shape":[1],"datatype":"BYTES","data":["x"]}]}'
    head = b"POST /v2/models/mortal/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    for cut in range(0, len(head + body), 7):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall((head + body)[:cut])
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head + body)
    assert ask(connect("http", server), "mortal")


def test_numpy_arrays_keep_their_memory(repository, serve, connect):
    # A tensor that a model keeps from an earlier request does not change with later ones.
    source = per_request(
        """
        kept = getattr(self, "kept", None)
        if kept is None:
            self.kept = get(request, "IN")
            kept = self.kept
        return respond(OUT=kept)
        """
    )
    repository.add("keeper", source, config("keeper", [("IN", "FP32", [-1])], [("OUT", "FP32", [-1])]))
    client = connect("grpc", serve(repository))
    for number in range(20):
        sent = np.full(100000, number, dtype=np.float32)
        assert client.infer("keeper", {"IN": sent}).as_numpy("OUT")[0] == 0


@pytest.mark.parametrize("seconds", [1, 1000])
def test_a_signal_ends_a_server_that_is_still_loading(repository, serve, seconds):
    repository.add(
        "slow",
        f"""
        import time

        class TritonPythonModel:
            def initialize(self, args):
                print("initializing", flush=True)
                time.sleep({seconds})

            def execute(self, requests):
                return []
        """,
        config("slow", [("IN", "FP32", [1])], [("OUT", "FP32", [1])]),
    )
    server = serve(repository, "--exit-timeout-secs=2", ready=False, listening=False)
    server.wait_for_log("initializing")
    begin = time.monotonic()
    # User code that does not return is an error.
    server.stop(status=0 if seconds == 1 else 1)
    assert time.monotonic() - begin < 20
    assert "signal 15 while models are loading: ending" in server.stderr
