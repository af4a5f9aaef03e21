"""Models that are loaded when a request asks for them: --load-on-demand."""

import os
import signal
import subprocess
import threading
import time

import numpy as np
import ovmsclient
import pytest
from harness.ensembles import ensemble, step
from harness.repository import config, per_request
from harness.server import BINARY, children
from harness.waiting import wait_until
from test_share_instances import pss
from tritonclient.utils import InferenceServerException

MIB = 1 << 20
ON_DEMAND = ("--model-control-mode=explicit", "--load-on-demand")
X = np.array([1, 2, 3], np.float32)

# Answers with its input. Each initialize() adds a line to a file; `begin` runs in it, `execute` before an answer.
MODEL = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # its files are compared at each load


class TritonPythonModel:
    def initialize(self, args):
        with open(FOLDER + ".notes", "a") as file:
            file.write("initialize\\n")
        {begin}

    def execute(self, requests):
        {execute}
        inputs = [pb_utils.get_input_tensor_by_name(each, "X") for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", each.as_numpy())]) for each in inputs]
"""


def add(repository, name, begin="pass", execute="pass", extra="", **more):
    text = config(name, [("X", "FP32", [-1])], [("Y", "FP32", [-1])], extra=extra, **more)
    return repository.add(name, MODEL.format(begin=begin, execute=execute), text)


def loads(repository, name):
    """The number of initialize() calls so far."""
    notes = repository.path / f"{name}.notes"
    return notes.read_text().count("initialize") if notes.exists() else 0


def states(client):
    """Returns {name: (state, reason)}."""
    index = client.raw.get_model_repository_index()
    if client.protocol == "grpc":
        return {model.name: (model.state, model.reason) for model in index.models}
    return {model["name"]: (model.get("state", ""), model.get("reason", "")) for model in index}


def ask(client, name, value=X):
    np.testing.assert_array_equal(client.infer(name, {"X": value}).as_numpy("Y"), value)


def answers(client, name):
    """Whether the model answers now."""
    try:
        ask(client, name)
    except InferenceServerException:
        return False
    return True


def metric(server, name):
    return server.metric_values()[name]


def test_a_request_loads_its_model(repository, serve, connect, client_protocol):
    add(repository, "a")
    add(repository, "b")
    server = serve(repository, *ON_DEMAND)
    client = connect(client_protocol, server)
    assert client.raw.is_server_ready()
    assert states(client) == {"a": ("UNAVAILABLE", "on demand"), "b": ("UNAVAILABLE", "on demand")}
    assert client.raw.is_model_ready("a")
    assert loads(repository, "a") == 0
    ask(client, "a")
    ask(client, "a")
    assert loads(repository, "a") == 1
    assert states(client) == {"a": ("READY", ""), "b": ("UNAVAILABLE", "on demand")}
    assert loads(repository, "b") == 0


@pytest.fixture(params=["http", "grpc"])
def client_protocol(request):
    return request.param


def test_a_large_request_arrives_whole(repository, serve, connect, client_protocol):
    add(repository, "a")
    client = connect(client_protocol, serve(repository, *ON_DEMAND))
    ask(client, "a", np.arange(2_000_000, dtype=np.float32))


def test_descriptions_load_too(repository, serve, connect, client_protocol):
    for name in ("described", "configured"):
        add(repository, name)
    client = connect(client_protocol, serve(repository, *ON_DEMAND))
    described = client.raw.get_model_metadata("described")
    described = described if isinstance(described, dict) else {"name": described.name}
    assert described["name"] == "described"
    configured = client.raw.get_model_config("configured")
    configured = configured["name"] if isinstance(configured, dict) else configured.config.name
    assert configured == "configured"
    assert [loads(repository, name) for name in ("described", "configured")] == [1, 1]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_tensorflow_serving_loads_too(repository, serve, protocol):
    for name in ("predicted", "described", "state"):
        add(repository, name)
    server = serve(repository, *ON_DEMAND)
    make = {"http": ovmsclient.make_http_client, "grpc": ovmsclient.make_grpc_client}[protocol]
    client = make(getattr(server, protocol))
    np.testing.assert_array_equal(client.predict({"X": X}, "predicted"), X)
    assert client.get_model_metadata("described")["inputs"]["X"]["dtype"] == "DT_FLOAT"
    assert client.get_model_status("state")[1]["state"] == "AVAILABLE"


def test_requests_share_one_load(repository, serve, connect):
    add(repository, "a", begin="while not os.path.exists(FOLDER + '.go'): time.sleep(0.01)")
    server = serve(repository, *ON_DEMAND)
    answers = []

    def run(protocol):
        ask(connect(protocol, server), "a")
        answers.append(protocol)

    threads = [threading.Thread(target=run, args=(protocol,)) for protocol in ["http", "grpc"] * 8]
    for thread in threads:
        thread.start()
    wait_until(lambda: metric(server, "braid_on_demand_waiting_requests") == 16, 20, "all to wait")
    (repository.path / "a.go").touch()
    for thread in threads:
        thread.join()
    assert len(answers) == 16
    assert loads(repository, "a") == 1
    assert metric(server, 'braid_on_demand_loads_total{result="loaded"}') == 1
    assert metric(server, "braid_on_demand_waiting_requests") == 0


def test_a_stream_keeps_its_order(repository, serve, connect):
    add(repository, "slow", begin="time.sleep(0.5)")
    add(repository, "fast")
    server = serve(repository, *ON_DEMAND)
    client = connect("grpc", server)
    ask(client, "fast")
    answers = []
    client.raw.start_stream(lambda result, error: answers.append((result, error)))
    for number in range(6):
        name = "slow" if number % 2 == 0 else "fast"
        value = np.array([number], np.float32)
        client.raw.async_stream_infer(name, [client.input("X", value)], request_id=str(number))
    wait_until(lambda: len(answers) == 6, 20, "the answers")
    client.raw.stop_stream()
    assert [error for _, error in answers] == [None] * 6
    assert [result.get_response().id for result, _ in answers] == [str(number) for number in range(6)]
    assert [float(result.as_numpy("Y")[0]) for result, _ in answers] == list(range(6))


def test_calls_of_user_code_load(repository, serve, connect):
    add(repository, "callee")
    body = """
        ready = pb_utils.is_model_ready("callee")
        call = pb_utils.InferenceRequest(model_name="callee", requested_output_names=["Y"],
                                         inputs=[pb_utils.get_input_tensor_by_name(request, "X")])
        answer = call.exec()
        if answer.has_error():
            return pb_utils.InferenceResponse([], pb_utils.TritonError(answer.error().message()))
        y = pb_utils.get_output_tensor_by_name(answer, "Y").as_numpy()
        return respond(Y=y, READY=np.array([ready]))
    """
    outputs = [("Y", "FP32", [-1]), ("READY", "BOOL", [1])]
    repository.add("caller", per_request(body), config("caller", [("X", "FP32", [-1])], outputs))
    client = connect("http", serve(repository, *ON_DEMAND))
    result = client.infer("caller", {"X": X})
    np.testing.assert_array_equal(result.as_numpy("Y"), X)
    assert result.as_numpy("READY").tolist() == [True]
    assert loads(repository, "callee") == 1


def test_an_ensemble_comes_with_its_models(repository, serve, connect):
    for name in ("first", "second"):
        add(repository, name)
    ensemble(
        repository, "both", [step("first", {"X": "X"}, {"Y": "between"}), step("second", {"X": "between"}, {"Y": "Y"})]
    )
    client = connect("grpc", serve(repository, *ON_DEMAND))
    ask(client, "both")
    assert [loads(repository, name) for name in ("first", "second")] == [1, 1]


def test_a_failed_load_is_told_and_not_repeated_at_once(repository, serve, connect, client_protocol):
    folder = add(repository, "broken", begin="raise RuntimeError('no weights')")
    client = connect(client_protocol, serve(repository, *ON_DEMAND))
    begin = time.monotonic()
    for _ in range(3):
        with client.fails("UNAVAILABLE", contains="model 'broken' cannot be loaded: "):
            ask(client, "broken")
    if time.monotonic() < begin + 1:  # the first pause
        assert loads(repository, "broken") == 1
    assert "no weights" in states(client)["broken"][1]
    assert not client.raw.is_model_ready("broken")
    assert client.raw.is_server_ready()
    # A client's load does not wait for the next try.
    add(repository, "broken")
    assert folder.exists()
    client.raw.load_model("broken")
    ask(client, "broken")


def test_a_broken_model_is_tried_again(repository, serve, connect):
    add(repository, "broken", begin="raise RuntimeError('no weights')")
    client = connect("http", serve(repository, *ON_DEMAND))
    with client.fails("UNAVAILABLE", contains="no weights"):
        ask(client, "broken")
    add(repository, "broken")

    wait_until(lambda: answers(client, "broken"), 20, "the next try")


def test_a_wait_has_an_end(repository, serve, connect, client_protocol):
    add(repository, "slow", begin="time.sleep(2)")
    client = connect(client_protocol, serve(repository, *ON_DEMAND, "--load-wait-ms=300"))
    with client.fails("UNAVAILABLE", text="model 'slow' was not loaded within 300 ms (--load-wait-ms)"):
        ask(client, "slow")
    wait_until(lambda: states(client)["slow"][0] == "READY", 20, "the load")
    ask(client, "slow")
    assert loads(repository, "slow") == 1


def test_a_wait_has_an_end_while_the_server_starts(repository, serve, connect):
    add(repository, "first", begin="time.sleep(4)")
    add(repository, "a")
    add(repository, "slow", begin="time.sleep(30)")
    options = ("--load-model=first", "--load-wait-ms=500", "--exit-timeout-secs=1")
    server = serve(repository, *ON_DEMAND, *options, ready=False, listening=False)
    server.find_open_ports()
    client = connect("http", server)
    wait_until(lambda: answers(client, "a"), 20, "an answer")
    with client.fails("UNAVAILABLE", text="model 'slow' was not loaded within 500 ms (--load-wait-ms)"):
        ask(client, "slow")
    assert loads(repository, "first") == 1
    assert not client.raw.is_server_ready()
    server.stop(status=1)  # user code does not return


def test_what_a_client_unloads_stays_unloaded(repository, serve, connect, client_protocol):
    add(repository, "a")
    client = connect(client_protocol, serve(repository, *ON_DEMAND))
    ask(client, "a")
    client.raw.unload_model("a")
    wait_until(lambda: states(client)["a"] == ("UNAVAILABLE", "unloaded"), 20, "the unload")
    with client.fails("NOT_FOUND", contains="'a' has no available versions"):
        ask(client, "a")
    assert not client.raw.is_model_ready("a")
    client.raw.load_model("a")
    ask(client, "a")
    assert loads(repository, "a") == 2


def test_a_load_waits_for_that_of_a_request(repository, serve, connect):
    add(repository, "slow", begin="time.sleep(1)")
    server = serve(repository, *ON_DEMAND)
    thread = threading.Thread(target=ask, args=(connect("grpc", server), "slow"))
    thread.start()
    wait_until(lambda: loads(repository, "slow"), 20, "the load")
    connect("http", server).raw.load_model("slow")
    thread.join()
    assert loads(repository, "slow") == 1


def test_a_new_folder_is_found(repository, serve, connect):
    server = serve(repository, *ON_DEMAND, "--repository-poll-secs=1")
    client = connect("grpc", server)
    add(repository, "new")
    wait_until(lambda: "new" in states(client), 20, "the folder")
    ask(client, "new")
    with client.fails("NOT_FOUND", contains="'other' is not found"):
        ask(client, "other")


def test_a_stop_ends_the_waits(repository, serve, connect):
    add(repository, "slow", begin="time.sleep(3)")
    server = serve(repository, *ON_DEMAND, "--exit-timeout-secs=10")
    faults = []

    def run():
        try:
            ask(connect("http", server), "slow")
        except InferenceServerException as error:
            faults.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: loads(repository, "slow"), 20, "the load")
    os.kill(server.process.pid, signal.SIGTERM)
    thread.join()
    assert len(faults) == 1
    server.stop()


def test_health_does_not_blame_models_on_demand(repository, serve):
    add(repository, "a")
    server = serve(repository, *ON_DEMAND, "--exit-notice-secs=3")
    health = [BINARY, "health", f"http://{server.http}"]
    assert subprocess.run(health, timeout=20, check=False).returncode == 0
    os.kill(server.process.pid, signal.SIGTERM)
    server.wait_for_log("reporting not ready")
    told = subprocess.run(health, capture_output=True, text=True, timeout=20, check=False)
    assert told.returncode == 1
    assert "on demand" not in told.stdout + told.stderr
    server.stop()


def test_a_client_that_leaves_loses_only_its_request(repository, serve, connect):
    add(repository, "slow", begin="time.sleep(1)", execute="open(FOLDER + '.executed', 'a').close()")
    server = serve(repository, *ON_DEMAND)
    client = connect("grpc", server)
    with pytest.raises(InferenceServerException):
        client.infer("slow", {"X": X}, client_timeout=0.2)
    with pytest.raises(TimeoutError):
        connect("http", server, network_timeout=0.2, connection_timeout=5).infer("slow", {"X": X})
    wait_until(lambda: states(client)["slow"][0] == "READY", 20, "the load")
    wait_until(lambda: metric(server, "braid_on_demand_waiting_requests") == 0, 20, "the waits")
    assert not (repository.path / "slow.executed").exists()
    ask(client, "slow")


# ---- the limit of memory ----

BYTES = 48 * MIB


def add_large(repository, name, size=BYTES, **more):
    return add(repository, name, begin=f"self.weights = np.ones({size}, np.uint8)", **more)


def limited(serve, repository, mib, *options):
    return serve(repository, *ON_DEMAND, f"--models-memory-max-bytes={mib * MIB}", *options)


def ready(client):
    return {name for name, (state, _) in states(client).items() if state == "READY"}


def memory_of_workers(server):
    """The PSS of the processes that have a large model."""
    return sum(size for size in map(pss, children(server.process.pid)) if size > BYTES)


def test_the_least_recently_used_model_makes_room(repository, serve, connect):
    for name in "abcd":
        add_large(repository, name)
    server = limited(serve, repository, 200)
    client = connect("grpc", server)
    for name in "abca":
        ask(client, name)
    assert ready(client) == set("abc")
    ask(client, "d")
    assert ready(client) == set("acd")
    wait_until(lambda: states(client)["b"] == ("UNAVAILABLE", "on demand"), 20, "the unload")
    assert BYTES * 3 < memory_of_workers(server) < 200 * MIB
    assert BYTES * 3 < metric(server, "braid_models_memory_bytes") < 200 * MIB
    assert metric(server, "braid_models_memory_max_bytes") == 200 * MIB
    assert metric(server, "braid_on_demand_evictions_total") == 1
    ask(client, "b")
    assert len(ready(client)) == 3
    assert loads(repository, "b") == 2


def test_pinned_and_requested_models_stay(repository, serve, connect):
    add_large(repository, "pinned", extra='parameters { key: "PINNED" value { string_value: "true" } }')
    for name in ("loaded", "started", "a", "b"):
        add_large(repository, name)
    client = connect("grpc", limited(serve, repository, 250, "--load-model=started"))
    client.raw.load_model("loaded")
    ask(client, "pinned")
    for name in "abab":
        ask(client, name)
    assert ready(client) == {"pinned", "loaded", "started", "b"}


def test_a_model_in_use_stays_and_the_other_waits(repository, serve, connect):
    add_large(repository, "busy", execute="time.sleep(1.5)")
    add_large(repository, "other")
    server = limited(serve, repository, 70)
    busy = threading.Thread(target=ask, args=(connect("grpc", server), "busy"))
    busy.start()
    wait_until(lambda: ready(connect("grpc", server)) == {"busy"}, 20, "the load")
    ask(connect("http", server), "other")
    busy.join()
    assert ready(connect("grpc", server)) == {"other"}


def test_a_model_that_cannot_fit_is_refused_with_the_figures(repository, serve, connect):
    add_large(repository, "large", size=150 * MIB)
    add_large(repository, "small")
    (repository.path / "small" / "1" / "weights").write_bytes(b"1")
    client = connect("grpc", limited(serve, repository, 100))
    with client.fails("UNAVAILABLE", contains="and --models-memory-max-bytes allows 100 MiB"):
        ask(client, "large")
    assert ready(client) == set()
    (repository.path / "small" / "1" / "weights").write_bytes(b"1" * 120 * MIB)
    with client.fails("UNAVAILABLE", contains="model 'small' cannot be loaded: it needs about 13"):
        ask(client, "small")
    assert loads(repository, "small") == 0


def test_models_of_an_ensemble_stay_while_it_does(repository, serve, connect):
    for name in ("first", "second", "other"):
        add_large(repository, name)
    ensemble(
        repository, "both", [step("first", {"X": "X"}, {"Y": "between"}), step("second", {"X": "between"}, {"Y": "Y"})]
    )
    client = connect("grpc", limited(serve, repository, 150))
    ask(client, "both")
    assert ready(client) == {"first", "second", "both"}
    ask(client, "other")
    assert "both" not in ready(client)
    ask(client, "both")
    assert {"first", "second", "both"} <= ready(client)


def test_no_request_is_lost_while_models_come_and_go(repository, serve, connect):
    names = [f"m{i}" for i in range(6)]
    for name in names:
        add_large(repository, name, size=24 * MIB)
    for name, first, second in (("e0", "m0", "m1"), ("e1", "m2", "m3")):
        steps = [step(first, {"X": "X"}, {"Y": "between"}), step(second, {"X": "between"}, {"Y": "Y"})]
        ensemble(repository, name, steps)
        names.append(name)
    server = limited(serve, repository, 130)
    faults = []
    random = np.random.default_rng(5)

    def run(protocol, order):
        client = connect(protocol, server)
        for number, name in enumerate(order):
            try:
                ask(client, name, np.array([number, number + 0.5], np.float32))
            except (InferenceServerException, AssertionError) as error:
                faults.append(error)

    orders = [random.choice(names, 40) for _ in range(4)]
    threads = [threading.Thread(target=run, args=(["http", "grpc"][i % 2], order)) for i, order in enumerate(orders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert metric(server, "braid_on_demand_evictions_total") > 5
    assert metric(server, "braid_models_memory_bytes") <= 130 * MIB


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--load-on-demand"], "--load-on-demand needs a model repository and --model-control-mode=explicit"),
        (["--models-memory-max-bytes=1"], "--models-memory-max-bytes needs --load-on-demand"),
        (["--load-wait-ms=1"], "--load-wait-ms needs --load-on-demand"),
    ],
)
def test_options_that_have_no_effect_are_refused(repository, options, text):
    repository.add_identity("a")
    ended = subprocess.run([BINARY, "serve", repository.path, *options], capture_output=True, text=True, timeout=20)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"braid serve: {text}\n")
