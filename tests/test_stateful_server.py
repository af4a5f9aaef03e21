"""Stateful models from the operator's view: settings and their rules, the cleaner, the limit, reloads, metrics.

The answers of each API are tested in test_stateful_tfs.py and test_stateful_kserve.py, many sequences in
test_stateful_many.py.
"""

import itertools
import json
import signal

import numpy as np
import pytest
from harness import openvino_models as plain_models
from harness import stateful_models as models
from harness.ovms import OvmsServer
from harness.sequences import sequence_counts
from harness.server import Server
from harness.waiting import wait_until

ONE = np.ones((1, 4), np.float32)
MISSING = {"error": "Sequence with provided ID does not exist"}
START, END = 1, 2


def step(server, sequence=None, control=None, name="sum", x=ONE):
    """Returns (status, outputs or the body of an error) of one request over REST."""
    inputs = {"x": np.asarray(x).tolist()}
    if sequence is not None:
        inputs["sequence_id"] = [sequence]
    if control is not None:
        inputs["sequence_control_input"] = [control]
    status, answer = server.json("POST", f"/v1/models/{name}:predict", {"inputs": inputs})
    return status, answer["outputs"] if status == 200 else answer


def total(server, *rest, **more):
    """Returns the sum so far; the inputs are ones, so it counts the steps."""
    status, outputs = step(server, *rest, **more)
    assert status == 200, outputs
    return outputs["y"][0][0]


def counts(server, name="sum"):
    return sequence_counts(server, name)


@pytest.fixture
def serve(tmp_path):
    """serve({name: model or (model, settings)}, *options) starts a server."""
    started = []

    def start(wanted, *options, **more):
        server = OvmsServer(models.write_config(tmp_path, wanted), *options, workdir=tmp_path, **more)
        started.append(server)
        return server

    yield start
    for server in started:
        server.__exit__(None, None, None)


def test_start_continue_end(serve):
    server = serve({"sum": models.running_sum_model()})
    assert [total(server, 7, START), total(server, 7), total(server, 7), total(server, 7, END)] == [1, 2, 3, 4]
    assert step(server, 7) == (404, MISSING)
    assert total(server, 7, START) == 1


def test_by_the_command_line(tmp_path):
    plain_models.save(models.lstm_model(), tmp_path / "lstm")
    options = ["--model_name", "lstm", "--model_path", tmp_path / "lstm", "--stateful", "--low_latency_transformation"]
    options += [
        "--max_sequence_number",
        "1",
        "--idle_sequence_cleanup=false",
        "--sequence_cleaner_poll_wait_minutes",
        "1",
        "--plugin_config",
        json.dumps(models.EXACT),
    ]
    rows = np.random.default_rng(1).standard_normal((3, 1, 1, 3)).astype(np.float32)
    expected = models.lstm_answers(rows)
    with Server([], *options, workdir=tmp_path) as server:
        for index, row in enumerate(rows):
            status, outputs = step(server, 1, START if index == 0 else 0, name="lstm", x=row)
            assert status == 200, outputs
            np.testing.assert_allclose(outputs["y"], expected[index], rtol=1e-5, atol=1e-6)
            assert outputs["sequence_id"] == [1]
        status, error = step(server, 2, START, name="lstm", x=rows[0])
        assert (status, error["error"]) == (
            503,
            "Max sequence number has been reached. Could not create new sequence.",
        )


@pytest.mark.parametrize("key", ["idle_sequence_cleanup", "max_sequence_number", "low_latency_transformation"])
def test_settings_that_need_stateful(tmp_path, key):
    value = {"idle_sequence_cleanup": True, "max_sequence_number": 3, "low_latency_transformation": True}[key]
    text = "Stateful model config parameter used for non stateful model"
    path = plain_models.save(models.running_sum_model(), tmp_path / "sum")
    # In a config.json, only the model is not loaded; the server runs.
    config = {"model_config_list": [plain_models.entry("sum", path, **{key: value})]}
    with OvmsServer(config, workdir=tmp_path) as server:
        assert server.states("sum") == {1: "LOADING"}
        assert text in server.log
        assert key in server.log
    # On the command line, the server does not start.
    options = ["--model_name", "sum", "--model_path", path, f"--{key}", str(value).lower()]
    server = Server([], *options, workdir=tmp_path, ready=False, listening=False)
    assert server.wait_exit() != 0
    assert text in server.log
    server.kill()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"shape": "auto"}, "a stateful model cannot have an automatic shape"),
        ({"batch_size": "auto"}, "a stateful model cannot have an automatic batch size"),
        ({"target_device": "GPU"}, "stateful models run only on the CPU"),
        ({"max_sequence_number": 1 << 32}, "Sequence max number parameter too high"),
    ],
)
def test_settings_that_stateful_excludes(serve, settings, text):
    server = serve({"sum": (models.running_sum_model(), settings)})
    assert server.states("sum") == {1: "LOADING"}
    assert text in server.log


def test_a_model_without_state_is_refused(serve):
    server = serve({"plain": plain_models.scale()})
    assert server.states("plain") == {1: "LOADING"}
    server.wait_for_log("cannot be stateful: it has no variables")


@pytest.mark.parametrize("name", ["sequence_id", "sequence_control_input"])
def test_names_that_are_kept_for_sequences(serve, name):
    model = models.running_sum_model()
    model.input(0).set_names({name})
    server = serve({"sum": model})
    assert server.states("sum") == {1: "LOADING"}
    server.wait_for_log(f"input '{name}' of stateful model 'sum' has a name reserved for sequences")


def test_low_latency_transformation_is_what_gives_a_loop_its_state(serve):
    server = serve({"lstm": models.lstm_model()})
    assert server.states("lstm") == {1: "LOADING"}
    server.wait_for_log("low_latency_transformation")


def test_the_limit_comes_before_the_id(serve):
    server = serve({"sum": (models.running_sum_model(), {"max_sequence_number": 2})})
    assert total(server, 1, START) == 1
    assert step(server, 1, START)[0] == 409
    assert total(server, 2, START) == 1
    full = (503, {"error": "Max sequence number has been reached. Could not create new sequence."})
    assert step(server, 1, START) == full
    assert step(server, 3, START) == full
    assert step(server, None, START) == full
    assert total(server, 2, END) == 2
    assert total(server, 3, START) == 1
    assert counts(server)["rejected"] == 4


def test_ids_given_by_the_server(serve):
    server = serve({"sum": models.running_sum_model()})

    def start():
        status, outputs = step(server, None, START)
        assert status == 200
        return outputs["sequence_id"]

    assert start() == [1]
    assert total(server, 1, END) == 2
    assert start() == [1]
    assert start() == [2]
    assert start() == [3]
    assert total(server, 5, START) == 1
    assert start() == [4]
    assert start() == [6]


def test_the_cleaner_ends_what_nobody_uses(serve):
    kept = (models.running_sum_model(), {"idle_sequence_cleanup": False})
    server = serve({"sum": models.running_sum_model(), "kept": kept}, "--sequence_cleaner_poll_wait_seconds", "1")
    assert total(server, 1, START) == 1
    assert total(server, 1, START, name="kept") == 1
    wait_until(lambda: counts(server)["expired"] == 1, 20, "the end of an idle sequence")
    assert counts(server)["active"] == 0
    assert step(server, 1) == (404, MISSING)
    assert total(server, 1, START) == 1
    assert total(server, 1, name="kept") == 2
    assert counts(server, "kept")["expired"] == 0


def test_reloads_keep_no_sequence_alive_that_is_not_used(serve, tmp_path):
    # Longer than a reload takes on a busy machine.
    options = ["--sequence_cleaner_poll_wait_seconds", "3", "--sequence_state_path", tmp_path / "states"]
    server = serve({"sum": models.running_sum_model()}, *options)
    settings = itertools.cycle((2, 3))

    def reload():
        entry = plain_models.entry(
            "sum", server.workdir / "sum", stateful=True, plugin_config=models.EXACT, nireq=next(settings)
        )
        server.write_config({"model_config_list": [entry]})
        assert server.reload()[0] == 201

    total(server, 1, START)
    total(server, 2, START)
    reload()
    assert total(server, 1) == 2

    def ends():
        reload()
        total(server, 2)  # waits until the sequences have been carried over
        return counts(server)["active"] == 1

    wait_until(ends, 30, "the end of an idle sequence")
    assert step(server, 1) == (404, MISSING)


def test_both_endpoints_have_the_counts(serve):
    server = serve({"sum": models.running_sum_model()}, "--metrics_enable")
    total(server, 1, START)
    total(server, 2, START)
    total(server, 2, END)
    assert step(server, 9)[0] == 404
    expected = {"active": 1, "started": 2, "restored": 0, "ended": 1, "expired": 0, "lost": 0, "rejected": 1}
    assert counts(server) == expected
    _, _, body = server.request("GET", "/metrics")
    for name, value in expected.items():
        assert f'braid_sequences_{name}{{name="sum",version="1"}} {value}\n' in body.decode()


def test_a_reload_ends_the_sequences_of_a_version(serve):
    server = serve({"sum": models.running_sum_model(), "other": models.running_sum_model()})
    total(server, 1, START)
    total(server, 1, START, name="other")
    config = {
        "model_config_list": [
            plain_models.entry("sum", server.workdir / "sum", stateful=True, plugin_config=models.EXACT, nireq=2),
            plain_models.entry("other", server.workdir / "other", stateful=True, plugin_config=models.EXACT),
        ]
    }
    server.write_config(config)
    assert server.reload()[0] == 201
    assert step(server, 1) == (404, MISSING)
    assert total(server, 1, name="other") == 2


def test_a_reload_cannot_make_a_model_stateful_or_stateless(serve):
    server = serve({"sum": models.running_sum_model()})
    total(server, 1, START)
    server.write_config({"model_config_list": [plain_models.entry("sum", server.workdir / "sum")]})
    status, _ = server.reload()
    assert status != 201
    assert "a loaded model cannot be made stateful or stateless by a reload" in server.log
    assert total(server, 1) == 2


def test_metadata_knows_nothing_of_sequences(serve):
    server = serve({"sum": models.running_sum_model()})
    _, metadata = server.json("GET", "/v2/models/sum")
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["x"]
    assert [tensor["name"] for tensor in metadata["outputs"]] == ["y"]
    _, metadata = server.json("GET", "/v1/models/sum/metadata")
    signature = metadata["metadata"]["signature_def"]["signatureDef"]["serving_default"]
    assert list(signature["inputs"]) == ["x"]
    assert list(signature["outputs"]) == ["y"]


def test_what_fails_its_checks_leaves_the_sequence_alone(serve):
    server = serve({"sum": models.running_sum_model()})
    assert total(server, 1, START) == 1
    wrong = np.ones((1, 3), np.float32)
    for control in (None, END):
        status, error = step(server, 1, control, x=wrong)
        assert status == 400
        assert error["error"].startswith("Invalid input shape")
    assert step(server, 2, START, x=wrong)[0] == 400
    assert step(server, 2) == (404, MISSING)
    assert total(server, 1, END) == 2


def test_a_stop_waits_for_sequences(serve):
    server = serve({"sum": models.running_sum_model()}, "--sequence_drain_seconds", "60")
    assert total(server, 1, START) == 1
    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: server.request("GET", "/v2/health/ready")[0] != 200, what="a server that is not ready")
    assert server.request("GET", "/v2/health/live")[0] == 200
    assert total(server, 1) == 2
    assert total(server, 1, END) == 3
    server.stop()
    assert "sequences that have not ended: 1; serving them for at most 60 s" in server.log
    assert "no longer waiting for them" not in server.log


def test_a_stop_waits_no_longer_than_it_was_told(serve):
    server = serve({"sum": models.running_sum_model()}, "--sequence_drain_seconds", "1")
    assert total(server, 1, START) == 1
    server.stop()
    assert "sequences that have not ended: 1; no longer waiting for them" in server.log
