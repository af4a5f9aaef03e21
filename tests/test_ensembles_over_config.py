"""A model repository and a config.json in one server: ensembles over servables of the config.json, and pipelines over
these."""

import json
import re

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness import openvino_models as models
from harness.ensembles import ensemble, step
from harness.graphs import config, tensor
from harness.pipelines import node, pipeline
from harness.repository import Repository, per_request
from harness.repository import config as model_config
from harness.server import Server
from harness.stateful_models import running_sum_model, stateful_entry
from harness.waiting import wait_until
from test_graph_strands import asks
from tritonclient.utils import InferenceServerException

SHAPE = (1, 4)
X = np.arange(1, 5, dtype=np.float32).reshape(SHAPE)
IN, OUT = [("x", "FP32", SHAPE)], [("y", "FP32", SHAPE)]
NEGATE = per_request("return respond(y=-get(request, 'x'))")
MISSING = "Sequence with provided ID does not exist"


def over(repository, name, *servables, inputs=IN):
    """Writes an ensemble x -> servables in sequence -> y; each is a model, or (pipeline, "in", "out")."""
    steps = []
    for i, servable in enumerate(servables):
        model, before, after = servable if isinstance(servable, tuple) else (servable, "x", "y")
        target = "y" if i == len(servables) - 1 else f"t{i}"
        steps.append(step(model, {before: "x" if i == 0 else f"t{i - 1}"}, {after: target}))
    return ensemble(repository, name, steps, inputs, OUT)


def scale_entry(folder, name, factor, version=1, shape=SHAPE):
    """Returns an entry for a model that multiplies by `factor`; each factor has its own folder."""
    base = folder / f"{name}_{factor}_{len(shape)}"
    return models.entry(name, models.save(models.scale(shape, factor), base, version))


class Mixed:
    """A folder with a repository and a config.json, and the server of both."""

    def __init__(self, folder):
        self.folder = folder
        self.repository = Repository(folder / "repository")
        self.config_path = folder / "config.json"

    def write(self, *entries, pipelines=(), graphs=()):
        new = self.folder / "config.new"
        new.write_text(json.dumps(config(*graphs, models=entries, pipeline_config_list=list(pipelines))))
        new.replace(self.config_path)

    def serve(self, *options, **more):
        # The server reads its files again only when a test asks for that.
        options = ("--config_path", self.config_path, "--file_system_poll_wait_seconds", 0, *options)
        return Server([self.repository.path], *options, workdir=self.folder, **more)


@pytest.fixture
def mixed(tmp_path):
    return Mixed(tmp_path)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    mixed = Mixed(tmp_path_factory.mktemp("mixed"))
    mixed.repository.add("negate", NEGATE, model_config("negate", IN, OUT))
    over(mixed.repository, "e_model", "double", "negate")
    over(mixed.repository, "a_outer", "e_model", "negate")
    over(mixed.repository, "e_pipeline", ("quadruple", "in", "out"), "negate")
    over(mixed.repository, "e_stateful", "sum", "negate")
    over(mixed.repository, "e_deep", ("p_over", "in", "out"))
    mixed.write(
        scale_entry(mixed.folder, "double", 2),
        stateful_entry("sum", running_sum_model(), mixed.folder, allow_in_pipelines=True),
        pipelines=[
            pipeline("quadruple", node("a", "double", "request/in"), node("b", "double", "a/y")),
            pipeline("p_over", node("a", "e_model", "request/in"), node("b", "double", "a/y")),
            pipeline("a_top", node("a", "e_deep", "request/in"), node("b", "negate", "a/y")),
        ],
    )
    with mixed.serve() as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        yield client


def ask(client, name, x=X, source="x", output="y", **more):
    return client.infer(name, [tensor(source, x)], **more).as_numpy(output)


@pytest.mark.parametrize(("name", "factor"), [("e_model", -2), ("a_outer", 2), ("e_pipeline", -4), ("e_deep", -4)])
def test_ensembles_are_there_at_the_start(client, name, factor):
    np.testing.assert_array_equal(ask(client, name), factor * X)


@pytest.mark.parametrize(("name", "factor"), [("p_over", -4), ("a_top", 4)])
def test_pipelines_over_such_ensembles_are_there_at_the_start(client, name, factor):
    np.testing.assert_array_equal(ask(client, name, source="in", output="out"), factor * X)


def test_no_failure_is_told_of_what_comes_right(server):
    assert "failed to load" not in server.log
    assert "Poll failed" not in server.log
    assert len(re.findall("successfully loaded 'e_model'", server.log)) == 1


def test_a_stateful_step(client):
    def turn(**more):
        return ask(client, "e_stateful", sequence_id=7, **more)

    np.testing.assert_array_equal(turn(sequence_start=True), -X)
    np.testing.assert_array_equal(turn(), -2 * X)
    np.testing.assert_array_equal(turn(sequence_end=True), -3 * X)
    with pytest.raises(InferenceServerException, match=MISSING):
        turn()


@pytest.mark.parametrize(
    ("servable", "fault"),
    [
        ("nowhere", "ensemble 'e' depends on 'nowhere' which has no loaded version."),
        ("broken", "ensemble 'e' depends on 'broken' which has no loaded version."),
        ("wide", "in ensemble 'e', "),
    ],
)
def test_a_step_that_is_missing_or_does_not_fit_fails_the_start(mixed, servable, fault):
    over(mixed.repository, "e", "double", servable)
    (mixed.folder / "broken" / "1").mkdir(parents=True)
    mixed.write(
        scale_entry(mixed.folder, "double", 2),
        scale_entry(mixed.folder, "wide", 2, shape=(1, 5, 2)),
        models.entry("broken", mixed.folder / "broken"),
    )
    with mixed.serve(ready=False, listening=False) as server:
        assert server.wait_exit() == 1
        server.stopped = True
    assert "error: creating server: Internal - failed to load all models" in server.log
    told = [line for line in server.log.splitlines() if "failed to load 'e' version 1: " in line]
    assert len(told) == 1
    assert fault in told[0]


def test_a_reload_that_replaces_the_step(mixed):
    over(mixed.repository, "e", "scale")
    mixed.write(scale_entry(mixed.folder, "scale", 2))
    with mixed.serve() as server, grpcclient.InferenceServerClient(server.grpc) as client:
        np.testing.assert_array_equal(ask(client, "e"), 2 * X)
        mixed.write(scale_entry(mixed.folder, "scale", 3))
        assert server.json("POST", "/v1/config/reload")[0] == 201
        np.testing.assert_array_equal(ask(client, "e"), 3 * X)
        server.wait_for_log("(?s)successfully loaded 'e'.*successfully loaded 'e'")
        assert len(re.findall("successfully loaded 'e'", server.log)) == 2

        # With a model that does not fit, the ensemble stays as it is, as over a model of the repository.
        mixed.write(scale_entry(mixed.folder, "scale", 4, shape=(1, 2, 2)))
        assert server.json("POST", "/v1/config/reload")[0] == 201
        assert "ensemble 'e' keeps the previous models: " in server.log
        with pytest.raises(InferenceServerException, match="in ensemble 'e'"):
            ask(client, "e")

        mixed.write()
        assert server.json("POST", "/v1/config/reload")[0] == 201
        with pytest.raises(InferenceServerException, match="depends on 'scale' which has no loaded version"):
            ask(client, "e")
        assert not client.is_model_ready("e")

        mixed.write(scale_entry(mixed.folder, "scale", 5))
        assert server.json("POST", "/v1/config/reload")[0] == 201
        np.testing.assert_array_equal(ask(client, "e"), 5 * X)
        assert client.is_server_ready()


def test_a_new_version_of_the_step_is_what_the_ensemble_asks(mixed):
    over(mixed.repository, "e", "scale")
    entry = scale_entry(mixed.folder, "scale", 2)
    mixed.write(entry)
    with mixed.serve() as server, grpcclient.InferenceServerClient(server.grpc) as client:
        models.save(models.scale(SHAPE, 7), entry["config"]["base_path"], version=2)
        assert server.json("POST", "/v1/config/reload")[0] == 201
        wait_until(lambda: np.array_equal(ask(client, "e"), 7 * X), what="version 2")
        server.wait_for_log("(?s)successfully loaded 'e'.*successfully loaded 'e'")
        assert len(re.findall("successfully loaded 'e'", server.log)) == 2


def test_a_reload_that_brings_the_step(mixed):
    over(mixed.repository, "e", "late")
    mixed.write(scale_entry(mixed.folder, "double", 2), pipelines=[pipeline("p", node("a", "e", "request/in"))])
    with mixed.serve("--exit-on-error=false", ready=False) as server:
        assert "ensemble 'e' depends on 'late' which has no loaded version." in server.log
        with grpcclient.InferenceServerClient(server.grpc) as client:
            assert not client.is_server_ready()
            mixed.write(
                scale_entry(mixed.folder, "late", 3),
                pipelines=[pipeline("p", node("a", "e", "request/in"))],
            )
            assert server.json("POST", "/v1/config/reload")[0] == 201
            np.testing.assert_array_equal(ask(client, "e"), 3 * X)
            np.testing.assert_array_equal(ask(client, "p", source="in", output="out"), 3 * X)
            assert client.is_server_ready()


def test_explicit_mode(mixed):
    over(mixed.repository, "e", "double")
    over(mixed.repository, "later", "double")
    mixed.write(scale_entry(mixed.folder, "double", 2))
    options = ("--model-control-mode=explicit", "--load-model=e")
    with mixed.serve(*options) as server, grpcclient.InferenceServerClient(server.grpc) as client:
        np.testing.assert_array_equal(ask(client, "e"), 2 * X)
        assert not client.is_model_ready("later")
        client.load_model("later")
        np.testing.assert_array_equal(ask(client, "later"), 2 * X)
        # Servables of the config.json are neither loaded nor unloaded with the ensemble.
        client.unload_model("later", unload_dependents=True)
        np.testing.assert_array_equal(ask(client, "double"), 2 * X)
        assert "failed to load" not in server.log
        # An ensemble that was unloaded does not return by itself.
        wait_until(lambda: not client.is_model_ready("later"), what="the end of the ensemble")
        mixed.write(scale_entry(mixed.folder, "double", 3))
        assert server.json("POST", "/v1/config/reload")[0] == 201
        np.testing.assert_array_equal(ask(client, "e"), 3 * X)
        assert not client.is_model_ready("later")


def test_models_on_demand(mixed):
    """Models of pipelines and graphs are loaded at the start and stay. An ensemble over the config.json is not."""
    for name in ("negate", "minus", "unused"):
        mixed.repository.add(name, NEGATE, model_config(name, IN, OUT))
    over(mixed.repository, "e", "double")
    graph = asks(mixed.folder, "graph", "minus", "x", "y")
    mixed.write(
        scale_entry(mixed.folder, "double", 2),
        graphs=[graph],
        pipelines=[pipeline("p", node("a", "double", "request/in"), node("b", "negate", "a/y"))],
    )
    options = ("--model-control-mode=explicit", "--load-on-demand")
    with mixed.serve(*options) as server, grpcclient.InferenceServerClient(server.grpc) as client:
        states = {model.name: model.state for model in client.get_model_repository_index().models}
        assert [states[name] for name in ("negate", "minus", "p", "graph")] == ["READY"] * 4
        assert [states[name] for name in ("unused", "e")] == ["UNAVAILABLE"] * 2
        np.testing.assert_array_equal(ask(client, "p", source="in", output="out"), -2 * X)
        np.testing.assert_array_equal(ask(client, "graph", source="in", output="out"), -X)
        np.testing.assert_array_equal(ask(client, "e"), 2 * X)


def test_a_circle_of_an_ensemble_and_a_pipeline_is_refused(mixed):
    over(mixed.repository, "e", ("p", "in", "out"))
    double = scale_entry(mixed.folder, "double", 2)
    mixed.write(double, pipelines=[pipeline("p", node("a", "double", "request/in"))])
    with mixed.serve() as server, grpcclient.InferenceServerClient(server.grpc) as client:
        mixed.write(double, pipelines=[pipeline("p", node("a", "e", "request/in"))])
        assert server.json("POST", "/v1/config/reload")[0] != 201
        assert "ensemble 'e' leads back to 'p'" in server.log
        np.testing.assert_array_equal(ask(client, "e"), 2 * X)
        np.testing.assert_array_equal(ask(client, "p", source="in", output="out"), 2 * X)
