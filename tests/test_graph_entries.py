"""Graphs and their models: search paths, name conflicts, queues, and reloading."""

import json
import queue
import textwrap
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness import openvino_models as models
from harness.graph_texts import (
    GATES,
    GOOD,
    NODE,
    ONE,
    ask,
    inference,
    python,
    refused,
    renamed,
)
from harness.graphs import config, tensor, write_graph
from harness.ovms import OvmsServer
from harness.server import Server
from harness.waiting import wait_until

# --- Names and places


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Graphs that are found in many places, and conflicting names. OUT of each identifies its origin."""
    folder = tmp_path_factory.mktemp("places")

    def adds(place, value):
        """Makes a graph that calls a model of its own subconfig."""
        text = inference(renamed("input", "IN", "b") + renamed("output", "OUT", "a"), servable=f"plus{value}")
        entry = write_graph(folder, place, text)
        models.save(models.add(value=value), folder / place / "plus")
        return entry, {"model_config_list": [models.entry(f"plus{value}", "plus")]}

    relative, sub = adds("relative", 3)
    (folder / "relative" / "subconfig.json").write_text(json.dumps(sub))
    named, sub = adds("named", 4)
    (folder / "named" / "other.pbtxt").write_text((folder / "named" / "graph.pbtxt").read_text())
    (folder / "named" / "graph.pbtxt").unlink()
    (folder / "named" / "other.json").write_text(json.dumps(sub))
    again, sub = adds("again", 5)
    # The model of this name in config.json takes precedence.
    sub["model_config_list"].append(models.entry("plus", "plus"))
    (folder / "again" / "subconfig.json").write_text(json.dumps(sub))
    listed, sub = adds("listed", 6)
    (folder / "listed" / "subconfig.json").write_text(json.dumps(sub))
    asks = renamed("input", "IN", "b") + renamed("output", "OUT", "a")
    plus = write_graph(folder, "asks_plus", inference(asks))
    pipeline = {
        "name": "dag", "inputs": ["b"], "outputs": [{"result": {"node_name": "n", "data_item": "sum"}}],
        "nodes": [{"name": "n", "type": "DL model", "model_name": "plus", "inputs": [{"b": {"node_name": "request", "data_item": "b"}}],
                   "outputs": [{"data_item": "a", "alias": "sum"}]}],
    }  # fmt: skip
    written = config(
        {"name": "relative"},
        {**named, "base_path": "named", "graph_path": "other.pbtxt", "subconfig": "other.json"},
        again,
        plus,
        {**plus, "name": "twice"},
        {**relative, "name": "twice"},
        {**plus, "name": "plus"},
        {**plus, "name": "dag"},
        models=[
            models.entry("plus", models.save(models.add(), folder / "models" / "plus")),
            {"config": {"name": "listed", "base_path": listed["base_path"]}},
        ],
        pipeline_config_list=[pipeline],
    )
    (folder / "config.json").write_text(json.dumps(written))
    server = OvmsServer(folder / "config.json", workdir=tmp_path_factory.mktemp("server"))
    with server, grpcclient.InferenceServerClient(server.grpc) as client:
        yield server, client


ROW = np.arange(10, dtype=np.float32).reshape(1, 10)


@pytest.mark.parametrize(
    ("graph", "added"),
    [("relative", 3), ("named", 4), ("again", 5), ("listed", 6), ("asks_plus", 1), ("twice", 1)],
)
def test_where_graphs_and_their_models_are(places, graph, added):
    server, client = places
    assert ask(client, graph, ROW).tolist() == (ROW + added).tolist()
    assert server.states(graph) == {1: "AVAILABLE"}


def test_models_of_a_subconfig_are_models(places):
    server, client = places
    assert client.infer("plus3", [tensor("b", ROW)]).as_numpy("a").tolist() == (ROW + 3).tolist()
    assert server.states("plus4") == {1: "AVAILABLE"}


def test_names_that_are_taken(places):
    server, client = places
    assert client.infer("plus", [tensor("b", ROW)]).as_numpy("a").tolist() == (ROW + 1).tolist()
    assert client.infer("dag", [tensor("b", ROW)]).as_numpy("result").tolist() == (ROW + 1).tolist()
    for name in ("plus", "dag"):
        assert [line for line in server.log.splitlines() if "already occupied" in line and f"'{name}'" in line], name


@pytest.mark.parametrize("place", ["", "1"])
def test_a_single_graph(tmp_path, place):
    folder = tmp_path / "mine"
    write_graph(folder, place, GOOD)
    options = "--model_name", "mine", "--model_path", folder
    with Server([], *options, workdir=tmp_path) as server, grpcclient.InferenceServerClient(server.grpc) as client:
        assert ask(client, "mine").tolist() == [1]
        assert client.get_model_metadata("mine", as_json=True)["versions"] == ["1"]


# --- Queues

COUNT = """
    import threading, time
    import numpy as np
    from pyovms import Tensor

    class OvmsPythonModel:
        def initialize(self, kwargs):
            self.changed = threading.Condition()
            self.inside = self.most = 0

        def execute(self, inputs):
            wanted = int(np.array(inputs[0])[0])
            with self.changed:
                self.inside += 1
                self.most = max(self.most, self.inside)
                self.changed.notify_all()
                self.changed.wait_for(lambda: self.most >= wanted, timeout=0.3 if wanted == 9 else 10)
                self.inside -= 1
                return [Tensor("out", np.array([self.most], np.int64))]
"""


def most_inside(server, graph, wanted, requests=4):
    """Returns the largest number of concurrent executions, of requests that wait there until `wanted` are inside (9:
    for 0.3 seconds)."""
    with grpcclient.InferenceServerClient(server.grpc) as client:
        answers = queue.Queue()
        for _ in range(requests):
            client.async_infer(
                graph, [tensor("in", np.array([wanted], np.int64))], lambda result, error: answers.put((result, error))
            )
        found = [answers.get(timeout=30) for _ in range(requests)]
        assert [error for _, error in found] == [None] * requests
        return max(int(result.as_numpy("out")[0]) for result, _ in found)


def test_how_many_run_at_once(tmp_path):
    one = write_graph(tmp_path / "g", "one", "# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n" + python(), model=COUNT)
    free = write_graph(tmp_path / "g", "free", python(), model=COUNT)
    with OvmsServer(config(one, free), workdir=tmp_path) as server:
        assert most_inside(server, "free", 4) == 4
        assert most_inside(server, "one", 9) == 1


def test_queues_that_are_switched_off(tmp_path):
    one = write_graph(tmp_path / "g", "one", "# OVMS_GRAPH_QUEUE_MAX_SIZE: 1\n" + python(), model=COUNT)
    gate = write_graph(tmp_path / "g", "gate", "# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO\n" + GATES["gate"])
    env = {"OVMS_GRAPH_QUEUE_OFF": "1"}
    with OvmsServer(config(one, gate), workdir=tmp_path, env=env) as server:
        assert most_inside(server, "one", 4) == 4
        with grpcclient.InferenceServerClient(server.grpc) as client:
            assert ask(client, "gate", allow=True).tolist() == [1]


# --- Reload


def test_a_graph_that_is_being_loaded(tmp_path):
    """A graph that is being loaded has the state LOADING without an error, and requests do not wait."""
    go = tmp_path / "go"
    slow = "import pathlib, time\n" + textwrap.dedent(NODE).replace(
        "        print(",
        f"        while not pathlib.Path({str(go)!r}).exists():\n            time.sleep(0.01)\n        print(",
    )
    graph = write_graph(tmp_path / "g", "slow", python(), model=slow)
    quick = write_graph(tmp_path / "g", "quick", GOOD)
    server = OvmsServer(config(quick), workdir=tmp_path)
    with server, grpcclient.InferenceServerClient(server.grpc) as client:
        server.write_config(config(quick, graph))
        reloading = threading.Thread(target=server.reload)
        reloading.start()
        wait_until(lambda: server.states("slow") == {1: "LOADING"}, what="the loading")
        assert not client.is_model_ready("slow")
        error = refused(client, "slow")
        assert (error.status(), error.message()) == ("StatusCode.UNAVAILABLE", "Mediapipe is not loaded yet")
        told = server.json("GET", "/v1/models/slow")[1]["model_version_status"][0]
        assert told == {"version": "1", "state": "LOADING", "status": {"error_code": "OK", "error_message": "OK"}}
        assert ask(client, "quick").tolist() == [1]
        go.write_text("")
        reloading.join(20)
        assert client.infer("slow", [tensor("in", ONE)]).as_numpy("out").tobytes() == ONE.tobytes()


def test_a_graph_is_repaired_changed_and_taken_away(tmp_path):
    graph = write_graph(tmp_path / "g", "mine", GOOD.replace("PassThrough", "PassTrough"))
    file = tmp_path / "g" / "mine" / "graph.pbtxt"
    server = OvmsServer(config(graph), workdir=tmp_path)
    with server, grpcclient.InferenceServerClient(server.grpc) as client:
        error = refused(client, "mine")
        assert error.status() == "StatusCode.UNAVAILABLE"
        file.write_text(GOOD)
        assert server.reload()[0] == 201
        assert ask(client, "mine").tolist() == [1]
        # A change that does not load leaves the running graph alone.
        file.write_text(GOOD + "colour: 5\n")
        assert server.reload()[0] >= 400
        assert ask(client, "mine").tolist() == [1]
        file.write_text(
            'input_stream: "OVTENSOR:other"\n'
            + GOOD.replace('input_stream: "OVTENSOR:in"\n', "").replace('"in"', '"other"')
        )
        assert server.reload()[0] == 201
        assert "Unexpected input - in is unexpected" in refused(client, "mine").message()
        assert client.infer("mine", [tensor("other", ONE)]).as_numpy("out").tolist() == [1]
        server.write_config(config())
        assert server.reload()[0] == 201
        wait_until(lambda: server.states("mine") == {1: "END"}, what="the end of the graph")
        assert refused(client, "mine").message() == "Mediapipe is retired"
        file.write_text(GOOD)
        server.write_config(config(graph))
        assert server.reload()[0] == 201
        assert ask(client, "mine").tolist() == [1]
        assert server.states("mine") == {1: "AVAILABLE"}
