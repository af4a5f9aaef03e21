"""Ensembles (13.4): flow, errors, failing steps, decoupled steps, and the loading of their models (16)."""

import json
import os
import queue
import signal
import threading
import time

import numpy as np
import pytest
from harness.clients import strings
from harness.ensembles import ensemble, step
from harness.repository import config, per_request
from harness.waiting import wait_until
from tritonclient.utils import InferenceServerException

IN = [("IN", "FP32", [-1])]
OUT = [("OUT", "FP32", [-1])]
TEXT = [("TEXT", "STRING", [1])]


def chain(*models):
    """Returns steps from IN to OUT in sequence, from X to Y."""
    names = ["X", *(f"t{i}" for i in range(1, len(models))), "Y"]
    return [step(m, {"IN": a}, {"OUT": b}) for m, a, b in zip(models, names[:-1], names[1:], strict=True)]


def plus(number, **more):
    return per_request(f"return respond(OUT=get(request, 'IN') + np.float32({number}))")


PLAIN = config(None, IN, OUT)
PASS = per_request("return respond(OUT=get(request, 'IN'))")
SPOIL = per_request("""
array = get(request, "IN")
before = array.copy()
array[:] = -1
time.sleep(0.05)
return respond(OUT=before)
""")
# The first responses of a stream take longer than those after them.
SLOW_PASS = per_request("""
array = get(request, "IN")
time.sleep(0.02 * max(0, 2 - int(array[0])))
return respond(OUT=array)
""")
# Follows the text's command.
ODD = per_request("""
how = get(request, "TEXT")[0].decode()
if how == "raise":
    raise ValueError("the step says no")
if how == "error":
    return pb_utils.InferenceResponse(error=pb_utils.TritonError("not today", pb_utils.TritonError.UNAVAILABLE))
if how == "nothing":
    return pb_utils.InferenceResponse([])
if how == "die":
    import signal
    os.kill(os.getpid(), signal.SIGKILL)
if how == "echo":
    facts = [request.request_id(), request.correlation_id(), request.flags(), request.timeout(), request.parameters()]
    return respond(OUT=np.array([json.dumps(facts).encode()], dtype=object))
if how == "wait":
    folder = self.args["model_repository"]
    with open(os.path.join(folder, "STARTING"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(os.path.join(folder, "STARTING"), os.path.join(folder, "STARTED"))
    end = time.monotonic() + 20
    while not request.is_cancelled() and time.monotonic() < end:
        if os.path.exists(os.path.join(folder, "GO")):
            return respond(OUT=get(request, "TEXT"))
        time.sleep(0.005)
    open(os.path.join(folder, "CANCELLED"), "w").close()
    return pb_utils.InferenceResponse(error=pb_utils.TritonError("stopped", pb_utils.TritonError.CANCELLED))
return respond(OUT=get(request, "TEXT"))
""")
# Sends as many responses as IN says: 0, 1, 2, ...
COUNT = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            for i in range(count):
                out = np.full(1000, i, np.float32)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    r = module_repository
    r.add("one", plus(1), PLAIN)
    r.add("two", plus(2), PLAIN)
    r.add("pass", PASS, PLAIN)
    r.add("spoil", SPOIL, config(None, IN, OUT, extra="instance_group [ { count: 2 } ]"))
    r.add("sum", per_request("return respond(OUT=get(request, 'A') + get(request, 'B'))"),
          config(None, [("A", "FP32", [-1]), ("B", "FP32", [-1]), ("C", "FP32", [-1], "optional: true")], OUT))  # fmt: skip
    r.add("odd", ODD, config(None, TEXT, [("OUT", "STRING", [1])]))
    r.add("rows", per_request("return respond(OUT=get(request, 'IN') * 2)"),
          config(None, [("IN", "FP32", [2])], [("OUT", "FP32", [2], 'label_filename: "animals.txt"')], max_batch_size=4,
                 extra="dynamic_batching { }"), files={"animals.txt": "cat\ndog\n"})  # fmt: skip
    r.add("row", plus(1), config(None, [("IN", "FP32", [2])], [("OUT", "FP32", [2])]))
    r.add("count", COUNT, config(None, IN, OUT, extra="model_transaction_policy { decoupled: true }"))
    r.add("slow_pass", SLOW_PASS, config(None, IN, OUT, extra="instance_group [ { count: 3 } ]"))
    ensemble(r, "line", chain("one", "two", "one"))
    ensemble(r, "nested", chain("one", "pass")[:1] + [step("line", {"X": "t1"}, {"Y": "Y"})])
    diamond = [
        step("sum", {"A": "L", "B": "R"}, {"OUT": "Y"}),
        step("one", {"IN": "T"}, {"OUT": "L"}),
        step("two", {"IN": "T"}, {"OUT": "R"}),
        step("pass", {"IN": "X"}, {"OUT": "T"}),
    ]
    ensemble(r, "diamond", diamond)
    shared = [
        step("pass", {"IN": "X"}, {"OUT": "T"}),
        step("spoil", {"IN": "T"}, {"OUT": "L"}),
        step("spoil", {"IN": "T"}, {"OUT": "R"}),
        step("sum", {"A": "L", "B": "R"}, {"OUT": "Y"}),
    ]
    ensemble(r, "shared", shared, outputs=[("Y", "FP32", [-1]), ("T", "FP32", [-1])])
    text = [("OUT", "STRING", [1])]
    ensemble(r, "oddly", [step("odd", {"TEXT": "TEXT"}, {"OUT": "t"}), step("odd", {"TEXT": "t"}, {"OUT": "OUT"})],
             TEXT, text)  # fmt: skip
    ensemble(r, "batched", chain("rows"), [("X", "FP32", [2])], [("Y", "FP32", [2])], max_batch_size=4)
    ensemble(r, "single", chain("row", "rows"), [("X", "FP32", [2])], [("Y", "FP32", [2])])
    ensemble(r, "batched_by_one", chain("rows", "row"), [("X", "FP32", [2])], [("Y", "FP32", [2])], max_batch_size=4)
    ensemble(r, "stream", chain("count", "slow_pass", "one"))
    both = [
        step("count", {"IN": "X"}, {"OUT": "S"}),
        step("two", {"IN": "X"}, {"OUT": "E"}),
        step("sum", {"A": "S", "B": "E"}, {"OUT": "Y"}),
    ]
    ensemble(r, "kept", [*both, "max_inflight_requests: 1"])
    return module_serve(r)


def array(*values):
    return np.array(values, dtype=np.float32)


# ---- flow ----------------------------------------------------------------------------------------


def test_chain(client):
    np.testing.assert_array_equal(client.infer("line", {"X": array(1, 2)}).as_numpy("Y"), array(5, 6))
    result = client.infer("nested", {"X": array(1, 2)}, request_id="r")
    np.testing.assert_array_equal(result.as_numpy("Y"), array(6, 7))
    response = result.get_response()
    if client.protocol == "http":
        assert (response["model_name"], response["model_version"], response["id"]) == ("nested", "1", "r")
    else:
        assert (response.model_name, response.model_version, response.id) == ("nested", "1", "r")


@pytest.mark.parametrize("size", [3, 1000, 30_000, 2_000_000])
def test_large_tensors_of_branches(client, size):
    x = np.arange(size, dtype=np.float32) % 1000
    for _ in range(3):
        np.testing.assert_array_equal(client.infer("diamond", {"X": x}).as_numpy("Y"), 2 * x + 3)
        np.testing.assert_array_equal(client.infer("line", {"X": x}).as_numpy("Y"), x + 4)


@pytest.mark.parametrize("size", [3, 1000, 30_000, 2_000_000])
def test_a_step_that_writes_to_its_input_spoils_no_other(client, size):
    x = np.arange(size, dtype=np.float32) % 1000
    result = client.infer("shared", {"X": x})
    np.testing.assert_array_equal(result.as_numpy("Y"), 2 * x)
    np.testing.assert_array_equal(result.as_numpy("T"), x)


def test_batches(client):
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(client.infer("batched", {"X": x}).as_numpy("Y"), 2 * x)
    with client.fails("INVALID_ARG", contains="inference request batch-size must be <= 4 for 'batched'"):
        client.infer("batched", {"X": np.zeros((5, 2), np.float32)})


def test_models_that_batch_and_models_that_do_not_in_one_ensemble(client):
    np.testing.assert_array_equal(client.infer("single", {"X": array(1, 4)}).as_numpy("Y"), array(4, 10))
    two = client.infer("batched_by_one", {"X": np.array([[1, 4]], np.float32)}).as_numpy("Y")
    np.testing.assert_array_equal(two, [[3, 9]])
    with client.fails("INVALID_ARG", contains="in ensemble 'batched_by_one', "):
        client.infer("batched_by_one", {"X": np.zeros((2, 2), np.float32)})


def test_an_ensemble_has_the_labels_of_the_step_that_makes_its_output(client):
    largest = client.module.InferRequestedOutput("Y", class_count=1)
    result = client.infer("single", {"X": array(1, 4)}, outputs=[largest])
    assert result.as_numpy("Y").tolist() == [b"10.000000:1:dog"]


def test_what_the_client_says_reaches_the_steps(client):
    result = client.infer(
        "oddly", {"TEXT": strings("echo")}, request_id="me", timeout=30_000_000, parameters={"p": 4}, sequence_id=7,
        sequence_start=True, sequence_end=True,
    )  # fmt: skip
    request_id, correlation_id, flags, timeout, parameters = json.loads(result.as_numpy("OUT")[0])
    assert (request_id, correlation_id, flags, timeout) == ("me", 7, 3, 30_000_000)
    assert json.loads(parameters) == {"p": 4}


def test_metadata_and_configuration(client):
    if client.protocol == "http":
        metadata = client.raw.get_model_metadata("stream")
        described = client.raw.get_model_config("stream")
    else:
        metadata = client.raw.get_model_metadata("stream", as_json=True)
        described = client.raw.get_model_config("stream", as_json=True)["config"]
    assert metadata["platform"] == "ensemble"
    assert [tensor["name"] for tensor in metadata["inputs"] + metadata["outputs"]] == ["X", "Y"]
    assert described["model_transaction_policy"] == {"decoupled": True}
    assert described["ensemble_scheduling"]["step"][0]["model_name"] == "count"
    assert not described.get("instance_group")


def test_statistics(server, client):
    def numbers(model):
        return server.json("GET", f"/v2/models/{model}/stats")[1]["model_stats"][0]

    before, step_before = numbers("batched"), numbers("rows")
    client.infer("batched", {"X": np.zeros((3, 2), np.float32)})
    after, step_after = numbers("batched"), numbers("rows")
    assert after["inference_count"] - before["inference_count"] == 3
    assert after["execution_count"] - before["execution_count"] == 1
    assert after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"] == 1
    assert after["inference_stats"]["compute_infer"]["ns"] > before["inference_stats"]["compute_infer"]["ns"]
    assert step_after["inference_count"] - step_before["inference_count"] == 3


# ---- errors --------------------------------------------------------------------------------------


def test_errors_of_a_step(client):
    with client.fails("INTERNAL", contains="the step says no"):
        client.infer("oddly", {"TEXT": strings("raise")})
    with client.fails("UNAVAILABLE", "in ensemble 'oddly', not today"):
        client.infer("oddly", {"TEXT": strings("error")})
    assert client.infer("oddly", {"TEXT": strings("fine")}).as_numpy("OUT")[0] == b"fine"


def test_missing_output(client):
    text = (
        "in ensemble 'oddly', unexpected deadlock, at least one output is not set while no more ensemble steps can be "
        "made: step 'odd' (number 1) did not return output 'OUT', which is tensor 't'"
    )
    with client.fails("INTERNAL", text):
        client.infer("oddly", {"TEXT": strings("nothing")})


def test_step_process_that_dies(server, client):
    try:
        client.infer("oddly", {"TEXT": strings("die")})
    except InferenceServerException as error:
        assert error.message().startswith("in ensemble 'oddly', ")
    else:
        raise AssertionError("no error")
    wait_until(lambda: client.raw.is_model_ready("oddly"), 20, "the restart")
    assert client.infer("oddly", {"TEXT": strings("again")}).as_numpy("OUT")[0] == b"again"


def test_step_process_killed_while_it_works(repository, serve, connect):
    folder = repository.add("odd", ODD, config(None, TEXT, [("OUT", "STRING", [1])]))
    ensemble(repository, "e", [step("odd", {"TEXT": "TEXT"}, {"OUT": "OUT"})], TEXT, [("OUT", "STRING", [1])])
    server = serve(repository)
    client = connect("grpc", server)
    errors = queue.Queue()

    def ask():
        try:
            client.infer("e", {"TEXT": strings("wait")})
        except InferenceServerException as error:
            errors.put(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until((folder / "STARTED").exists, 20, "the request in the step")
    os.kill(int((folder / "STARTED").read_text()), signal.SIGKILL)
    thread.join(20)
    assert errors.get_nowait().message().startswith("in ensemble 'e', ")
    wait_until(lambda: client.raw.is_model_ready("e"), 30, "the restart")
    assert client.infer("e", {"TEXT": strings("again")}).as_numpy("OUT")[0] == b"again"


def test_cancelled_client(repository, serve, connect):
    folder = repository.add("odd", ODD, config(None, TEXT, [("OUT", "STRING", [1])]))
    ensemble(repository, "e", [step("odd", {"TEXT": "TEXT"}, {"OUT": "OUT"})], TEXT, [("OUT", "STRING", [1])])
    server = serve(repository)
    client = connect("grpc", server)
    answers = queue.Queue()
    call = client.raw.async_infer(
        "e", [client.input("TEXT", strings("wait"))], lambda result, error: answers.put(error)
    )
    wait_until((folder / "STARTED").exists, 20, "the request in the step")
    call.cancel()
    assert answers.get(timeout=5).status() == "StatusCode.CANCELLED"
    wait_until((folder / "CANCELLED").exists, 5, "the step to see it")

    def failures():
        return server.json("GET", "/v2/models/e/stats")[1]["model_stats"][0]["inference_stats"]["fail"]["count"]

    wait_until(lambda: failures() == 1, 5, "the end of the request")
    assert client.infer("e", {"TEXT": strings("again")}).as_numpy("OUT")[0] == b"again"


# ---- decoupled steps -----------------------------------------------------------------------------


class Stream:
    def __init__(self, client):
        self.client, self.answers = client, queue.Queue()
        client.raw.start_stream(lambda result, error: self.answers.put((result, error)))

    def ask(self, model, x, **more):
        self.client.raw.async_stream_infer(model, [self.client.input("X", x)], enable_empty_final_response=True, **more)

    def responses(self):
        """Receives until the final response; returns the first elements of Y, and the error."""
        values = []
        while True:
            result, error = self.answers.get(timeout=20)
            if error is not None:
                return values, error
            response = result.get_response()
            if result.as_numpy("Y") is not None:
                values.append(result.as_numpy("Y"))
            if response.parameters["triton_final_response"].bool_param:
                return values, None


@pytest.fixture
def stream(server, connect):
    stream = Stream(connect("grpc", server))
    yield stream
    stream.client.raw.stop_stream()


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_responses_of_a_decoupled_step_flow_on_in_order(stream, count):
    stream.ask("stream", array(count))
    values, error = stream.responses()
    assert error is None, error
    assert [v[0] for v in values] == [i + 1 for i in range(count)]
    assert all(v.shape == (1000,) for v in values)


def test_what_other_steps_made_is_kept_for_every_response(stream):
    stream.ask("kept", np.full(1, 5, np.float32))
    values, error = stream.responses()
    assert error is None, error
    assert [v[0] for v in values] == [7 + i for i in range(5)]


def test_decoupled_ensembles_are_for_streams(client):
    text = {
        "http": "HTTP end point doesn't support models with decoupled transaction policy",
        "grpc": "ModelInfer RPC doesn't support models with decoupled transaction policy",
    }
    with pytest.raises(InferenceServerException, match=text[client.protocol]):
        client.infer("stream", {"X": array(1)})


# ---- loading -------------------------------------------------------------------------------------


def states(server):
    status, body = server.json("POST", "/v2/repository/index")
    assert status == 200
    return {model["name"]: (model.get("state"), model.get("reason")) for model in body}


@pytest.fixture
def explicit(repository, serve):
    repository.add("one", plus(1), PLAIN)
    repository.add("two", plus(2), PLAIN)
    repository.add("lone", plus(3), PLAIN)
    ensemble(repository, "inner", chain("one"))
    ensemble(repository, "e", [step("inner", {"X": "X"}, {"Y": "t"}), step("two", {"IN": "t"}, {"OUT": "Y"})])
    return serve(repository, "--model-control-mode=explicit")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_models_come_and_go_with_their_ensemble(explicit, connect, protocol):
    client = connect(protocol, explicit)
    client.raw.load_model("e")
    loaded = {"e", "inner", "one", "two"}
    assert {name for name, (state, _) in states(explicit).items() if state == "READY"} == loaded
    np.testing.assert_array_equal(client.infer("e", {"X": array(1)}).as_numpy("Y"), array(4))
    client.raw.unload_model("e")
    wait_until(lambda: states(explicit)["e"] == ("UNAVAILABLE", "unloaded"), 10, "the end of e")
    assert client.raw.is_model_ready("inner")
    client.raw.load_model("e")
    client.raw.load_model("lone")
    client.raw.unload_model("e", unload_dependents=True)
    wait_until(
        lambda: all(states(explicit)[name] == ("UNAVAILABLE", "unloaded") for name in loaded), 10, "the end of all"
    )
    assert client.raw.is_model_ready("lone")


def test_a_step_is_reloaded_under_load(explicit, repository, connect):
    connect("http", explicit).raw.load_model("e")
    end = time.monotonic() + 3
    seen, faults = set(), []

    def ask(protocol):
        client = connect(protocol, explicit)
        while time.monotonic() < end:
            try:
                seen.add(float(client.infer("e", {"X": array(0)}).as_numpy("Y")[0]))
            except InferenceServerException as error:
                faults.append(error)

    threads = [threading.Thread(target=ask, args=(protocol,)) for protocol in ("http", "grpc")]
    for thread in threads:
        thread.start()
    control = connect("http", explicit)
    number = 1
    while time.monotonic() < end:
        number += 1
        repository.add("one", plus(number), PLAIN)
        control.raw.load_model("one")
    for thread in threads:
        thread.join()
    assert not faults
    assert len(seen) > 1
    assert connect("http", explicit).infer("e", {"X": array(0)}).as_numpy("Y")[0] == number + 2


def test_a_step_that_is_unloaded(explicit, connect):
    client = connect("grpc", explicit)
    client.raw.load_model("e")
    client.raw.unload_model("two")
    wait_until(lambda: not client.raw.is_model_ready("e"), 10, "the ensemble to see it")
    with client.fails("UNAVAILABLE", "ensemble 'e' depends on 'two' which has no loaded version."):
        client.infer("e", {"X": array(1)})
    client.raw.load_model("two")
    np.testing.assert_array_equal(client.infer("e", {"X": array(1)}).as_numpy("Y"), array(4))


def test_an_ensemble_of_which_a_model_fails(explicit, repository, connect):
    repository.add("two", "raise ValueError('broken')", PLAIN)
    client = connect("http", explicit)
    with pytest.raises(InferenceServerException) as caught:
        client.raw.load_model("e")
    assert "ensemble 'e' depends on 'two' which has no loaded version." in caught.value.message()
    assert "broken" in caught.value.message()
    assert client.raw.is_model_ready("inner")
    repository.add("two", plus(2), PLAIN)
    client.raw.load_model("e")
    np.testing.assert_array_equal(client.infer("e", {"X": array(1)}).as_numpy("Y"), array(4))


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (chain("e"), "circular dependency between ensembles: e -> e"),
        (chain("nowhere"), "ensemble 'e' depends on 'nowhere' which has no loaded version."),
        (chain("one", "one")[:1], "in ensemble 'e', output 'Y' is not produced by any step"),
        ([step("one", {"WRONG": "X"}, {"OUT": "Y"})], "which model 'one' does not have"),
    ],
)
def test_ensembles_that_cannot_be(explicit, repository, connect, steps, text):
    ensemble(repository, "e", steps)
    with pytest.raises(InferenceServerException) as caught:
        connect("http", explicit).raw.load_model("e")
    assert text in caught.value.message()


def test_polling(repository, serve, connect):
    repository.add("one", plus(1), PLAIN)
    ensemble(repository, "e", chain("one"))
    server = serve(repository, "--model-control-mode=poll", "--repository-poll-secs=1")
    client = connect("http", server)
    np.testing.assert_array_equal(client.infer("e", {"X": array(1)}).as_numpy("Y"), array(2))
    repository.add("one", plus(5), PLAIN)
    wait_until(lambda: client.infer("e", {"X": array(1)}).as_numpy("Y")[0] == 6, 20, "the new model")
    repository.remove("e")
    wait_until(lambda: "e" not in states(server), 20, "the end of the ensemble")
    assert client.raw.is_model_ready("one")
