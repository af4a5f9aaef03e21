"""Native code in separate processes: the same answers as inside the server, and the effects of a crash."""

import base64
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import threading

import numpy as np
import pytest
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.repository import config
from harness.server import BINARY, Server, children
from harness.stateful_models import running_sum_model, stateful_entry
from harness.waiting import wait_until
from PIL import Image
from tritonclient.utils import InferenceServerException

ISOLATED = ("--isolate", "openvino")
LIBRARY = BINARY.parent / "tests" / "native" / "libfaulty_operators.so"
NODE = BINARY.parent / "src" / "pipeline" / "testing" / "nodes" / "faulty_node.so"
CRASH, FAULT, SLOW = 666, 667, 668
PATIENCE = 20

FRAGILE = """<?xml version="1.0"?>
<net name="fragile" version="11">
  <layers>
    <layer id="0" name="x" type="Parameter" version="opset1">
      <data shape="-1,4" element_type="f32"/>
      <output><port id="0" precision="FP32" names="x"><dim>-1</dim><dim>4</dim></port></output>
    </layer>
    <layer id="1" name="fragile" type="Fragile" version="braid_test">
      <input><port id="0" precision="FP32"><dim>-1</dim><dim>4</dim></port></input>
      <output><port id="1" precision="FP32" names="y"><dim>-1</dim><dim>4</dim></port></output>
    </layer>
    <layer id="2" name="y" type="Result" version="opset1">
      <input><port id="0" precision="FP32"><dim>-1</dim><dim>4</dim></port></input>
    </layer>
  </layers>
  <edges>
    <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
    <edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
  </edges>
</net>
"""


def save_fragile(base):
    folder = pathlib.Path(base) / "1"
    folder.mkdir(parents=True)
    (folder / "model.xml").write_text(FRAGILE)
    (folder / "model.bin").touch()
    return base


def workers(server):
    """Returns the ids of the server's native workers."""
    found = []
    for pid in children(server.process.pid):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"native-worker" in words:
            found.append(pid)
    return found


def predict(server, name, rows, version=None):
    path = f"/v1/models/{name}" + (f"/versions/{version}" if version else "") + ":predict"
    return server.json("POST", path, {"instances": rows})


# ---- The same answers ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def entries(files):
    models.save(models.add(value=1.0), files / "versions", 1)
    models.save(models.add(value=2.0), files / "versions", 2)
    wide = models.save(models.add((-1, -1)), files / "any")
    return [
        models.entry("versions", files / "versions", model_version_policy={"all": {}}),
        models.entry("any", wide, nireq=2),
        models.entry("ranged", wide, shape="(1:4,3)"),
        models.entry("automatic", models.save(models.add((1, 4)), files / "automatic"), shape="auto"),
        models.entry("mlp", models.save(models.mlp(), files / "mlp"), batch_size=2),
        models.entry("halves", models.save(models.identity((-1, 2), np.float16), files / "halves")),
        models.entry("large", models.save(models.identity((-1, 1 << 18)), files / "large"), nireq=2),
        stateful_entry("sum", running_sum_model(), files),
        models.entry("broken", files / "mlp", shape="(1,7)"),
        models.entry("nowhere", files / "nowhere"),
    ]


@pytest.fixture(scope="module")
def both(entries, tmp_path_factory):
    """A server with its models inside, and one with each model in a separate process."""
    started = []
    for options in ((), ISOLATED):
        folder = tmp_path_factory.mktemp("server")
        started.append(OvmsServer({"model_config_list": entries}, *options, workdir=folder))
    yield started
    for server in started:
        server.stop()


def test_each_version_has_a_worker(both):
    inside, apart = both
    assert workers(inside) == []
    # Those of "broken" and "nowhere" have ended.
    assert len(workers(apart)) == 9


@pytest.mark.parametrize(
    ("name", "rows", "version"),
    [
        ("versions", [[1.0] * 10], None),
        ("versions", [[1.0] * 10], 1),
        ("versions", [[1.0] * 9], None),
        ("versions", [[1.0] * 10], 3),
        ("any", [[1.0, 2.0]], None),
        ("any", [[1.0], [2.0], [3.0]], None),
        ("any", [], None),
        ("ranged", [[1.0] * 3] * 4, None),
        ("ranged", [[1.0] * 3] * 5, None),
        ("automatic", [[1.0, 2.0, 3.0]] * 5, None),
        ("mlp", [[0.5] * 10] * 2, None),
        ("mlp", [[0.5] * 10] * 3, None),
        ("halves", [[0.5, 0.25]], None),
        ("broken", [[1.0]], None),
        ("nowhere", [[1.0]], None),
    ],
)
def test_rows_are_answered_alike(both, name, rows, version):
    inside, apart = (predict(server, name, rows, version) for server in both)
    assert apart == inside


@pytest.mark.parametrize("name", ["versions", "any", "ranged", "automatic", "mlp", "halves", "large", "sum", "broken"])
def test_models_are_described_alike(both, name):
    for path in (f"/v1/models/{name}", f"/v1/models/{name}/metadata", f"/v2/models/{name}"):
        inside, apart = (server.json("GET", path) for server in both)
        assert apart == inside


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_large_tensors_are_answered_alike(both, connect, protocol):
    x = np.arange(1 << 18, dtype=np.float32).reshape(1, -1)
    for rows in (1, 3, 1):
        sent = np.repeat(x, rows, axis=0)
        for server in both:
            answer = connect(protocol, server).infer("large", {"x": sent}).as_numpy("y")
            np.testing.assert_array_equal(answer, sent)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_errors_are_told_alike(both, connect, protocol):
    texts = []
    for server in both:
        client = connect(protocol, server)
        with pytest.raises(InferenceServerException) as error:
            client.infer("any", {"b": np.ones((1, 2), np.float64)})
        with pytest.raises(InferenceServerException) as other:
            client.infer("any", {"c": np.ones((1, 2), np.float32)})
        texts.append((error.value.message(), other.value.message()))
    assert texts[0] == texts[1]


def add_to_sequence(server, model, x, control=0):
    """Returns the sum so far of sequence 4711."""
    inputs = {"x": [x], "sequence_id": [4711], "sequence_control_input": [control]}
    status, answer = server.json("POST", f"/v1/models/{model}:predict", {"inputs": inputs})
    assert status == 200, answer
    return answer["outputs"]["y"][0]


def test_sequences_keep_their_states(both):
    for server in both:
        sums = [add_to_sequence(server, "sum", [1.0, 2.0, 3.0, 4.0], control) for control in (1, 0, 0, 2)]
        assert sums == [[n * value for value in (1.0, 2.0, 3.0, 4.0)] for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("size", [4, 1 << 15])
def test_sequences_survive_their_worker(tmp_path, size):
    entries = [stateful_entry("sum", running_sum_model(size), tmp_path)]
    with OvmsServer({"model_config_list": entries}, *ISOLATED, workdir=tmp_path) as server:
        x = [float(i % 100) for i in range(size)]
        assert add_to_sequence(server, "sum", x, 1) == x
        for step in (2, 3):
            [pid] = workers(server)
            os.kill(pid, signal.SIGKILL)
            assert add_to_sequence(server, "sum", x) == [step * each for each in x]
        assert add_to_sequence(server, "sum", x, 2) == [4 * each for each in x]


def test_many_clients_at_once_are_answered_rightly(both, connect):
    _, apart = both
    wrong = []

    def run(number):
        client = connect("grpc", apart)
        for i in range(40):
            x = np.full((1 + i % 3, 2 + i % 5), number * 100 + i, np.float32)
            if not np.array_equal(client.infer("any", {"b": x}).as_numpy("a"), x + 1):
                wrong.append((number, i))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_repository_says_which_of_its_models_are_isolated(repository, serve, connect):
    for name, isolate in (("inside", "false"), ("apart", "true"), ("unsaid", None), ("batched", "true")):
        parameter = f'parameters {{ key: "ISOLATE" value {{ string_value: "{isolate}" }} }}' if isolate else ""
        batched = "dynamic_batching { max_queue_delay_microseconds: 1000 }" if name == "batched" else ""
        text = config(None, backend="openvino", max_batch_size=8 if batched else 0, extra=parameter + batched)
        models.save(models.add((1 if batched else -1, 3)), repository.add(name, None, text, versions=()))
    server = serve(repository)
    assert len(workers(server)) == 2
    client = connect("grpc", server)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name in ("inside", "apart", "unsaid", "batched"):
        np.testing.assert_array_equal(client.infer(name, {"b": x}).as_numpy("a"), x + 1)
    status, body = server.json("GET", "/v2/models/batched")
    assert status == 200
    assert body["outputs"] == [{"name": "a", "datatype": "FP32", "shape": [-1, 3]}]


def test_a_wrong_parameter_is_named(repository, serve):
    text = config(None, backend="openvino", extra='parameters { key: "ISOLATE" value { string_value: "yes" } }')
    models.save(models.add((-1, 3)), repository.add("wrong", None, text, versions=()))
    server = serve(repository, "--exit-on-error=false", "--strict-readiness=false")
    _, index = server.json("POST", "/v2/repository/index")
    assert index[0]["reason"].endswith("parameter 'ISOLATE' is 'yes', expected \"true\" or \"false\"")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            "openvino,python",
            "cannot isolate 'python'; expected any of openvino,custom-nodes,images,calculators",
        ),
    ],
)
def test_what_cannot_be_isolated_is_refused(repository, tmp_path, value, text):
    server = Server([repository.path], f"--isolate={value}", workdir=tmp_path, ready=False, listening=False)
    assert server.wait_exit() == 1
    assert f"--isolate: {text}" in server.log
    server.stop(status=1)


# ---- Effects of a crash --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    return save_fragile(tmp_path_factory.mktemp("fragile") / "fragile")


@pytest.fixture
def server(fragile, tmp_path):
    """A server with a model whose library crashes on command, and an independent model."""
    entries = [
        models.entry("fragile", fragile, nireq=2),
        models.entry("other", models.save(models.add((-1, 4)), tmp_path / "other")),
    ]
    options = ("--cpu_extension", LIBRARY, *ISOLATED)
    with OvmsServer({"model_config_list": entries}, *options, workdir=tmp_path) as started:
        yield started


def order(number):
    return np.array([[1, 2, 3, number]], np.float32)


def works(client):
    try:
        return np.array_equal(client.infer("fragile", {"x": order(4)}).as_numpy("y"), order(4))
    except InferenceServerException:
        return False


def test_a_library_that_crashes_costs_its_request_and_comes_back(server, connect):
    client = connect("grpc", server)
    assert works(client)
    before = set(workers(server))
    with pytest.raises(InferenceServerException) as error:
        client.infer("fragile", {"x": order(CRASH)})
    assert error.value.message() == (
        "Stub process 'fragile' is not healthy. It was ended by signal 11 (Segmentation fault)"
    )
    # The other model is unaffected.
    np.testing.assert_array_equal(client.infer("other", {"b": order(0)}).as_numpy("a"), order(0) + 1)
    wait_until(lambda: works(client), PATIENCE, "the model's return")
    after = set(workers(server))
    assert len(after) == 2
    assert len(after & before) == 1
    server.wait_for_log("the native worker of model 'fragile' is back")


def test_a_library_that_throws_costs_its_request_alone(server, connect):
    client = connect("http", server)
    before = workers(server)
    with pytest.raises(InferenceServerException, match="it was told to fail"):
        client.infer("fragile", {"x": order(FAULT)})
    assert works(client)
    assert workers(server) == before


def test_each_request_has_one_outcome_while_the_worker_is_killed(server, connect):
    """Eight clients send requests while the worker is repeatedly killed. Each request is answered once, correctly or
    with the cause."""
    ended = threading.Event()
    good, bad, wrong = [], [], []

    def run(number):
        client = connect("grpc", server)
        i = 0
        while not ended.is_set():
            i += 1
            x = np.full((1, 4), 1000 * number + i % 500, np.float32)
            try:
                answer = client.infer("fragile", {"x": x}).as_numpy("y")
            except InferenceServerException as error:
                bad.append(error.message())
                continue
            (good if np.array_equal(answer, x) else wrong).append((number, i))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        count = len(good)
        wait_until(lambda count=count: len(good) > count + 100, PATIENCE, "answers")
        for pid in workers(server):
            os.kill(pid, signal.SIGKILL)
    count = len(good)
    wait_until(lambda: len(good) > count + 100, PATIENCE, "answers after the last kill")
    ended.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a request without an outcome"
    assert wrong == []
    causes = ("Stub process 'fragile' is not healthy. It was ended by signal 9", "no instance of model 'fragile'")
    assert [text for text in bad if not text.startswith(causes)] == []
    # A kill fails the requests inside, eight at most.
    assert len(bad) <= 5 * 8


def test_a_stop_leaves_no_process_though_one_hangs(fragile, tmp_path, connect):
    entries = [models.entry("fragile", fragile)]
    options = ("--cpu_extension", LIBRARY, *ISOLATED, "--exit-timeout-secs", "1")
    begun = tmp_path / "begun"
    env = {"BRAID_TEST_FRAGILE_BEGUN": str(begun)}
    server = OvmsServer({"model_config_list": entries}, *options, workdir=tmp_path, env=env)
    client = connect("grpc", server)
    outcome = []

    def ask():
        try:
            outcome.append(client.infer("fragile", {"x": np.full((20, 4), SLOW, np.float32)}))
        except InferenceServerException as error:
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(begun.exists, PATIENCE, "its begin")
    server.stop()
    thread.join(PATIENCE)
    assert len(outcome) == 1
    assert isinstance(outcome[0], InferenceServerException)


def test_a_server_that_is_killed_leaves_no_worker(fragile, tmp_path):
    entries = [models.entry("fragile", fragile)]
    server = OvmsServer({"model_config_list": entries}, "--cpu_extension", LIBRARY, *ISOLATED, workdir=tmp_path)
    left = workers(server)
    assert len(left) == 1
    server.process.kill()
    server.wait_exit()
    wait_until(lambda: not pathlib.Path(f"/proc/{left[0]}").exists(), PATIENCE, "the end of the worker")
    server.stopped = True


def test_a_library_that_crashes_when_it_is_loaded_is_an_error_of_the_start(fragile, tmp_path):
    server = OvmsServer(
        {"model_config_list": [models.entry("fragile", fragile)]},
        "--cpu_extension",
        LIBRARY,
        *ISOLATED,
        workdir=tmp_path,
        env={"BRAID_TEST_FRAGILE": "load"},
        ready=False,
        listening=False,
    )
    assert server.wait_exit() == 1
    assert "Stub process 'cpu_extension' is not healthy. It was ended by signal 11" in server.log
    server.stop(status=1)


def test_a_model_of_a_config_can_be_the_only_one_that_is_isolated(tmp_path):
    wide = models.save(models.add((-1, 2)), tmp_path / "any")
    entries = [models.entry("apart", wide, isolate=True), models.entry("inside", wide)]
    with OvmsServer({"model_config_list": entries}, workdir=tmp_path) as server:
        assert len(workers(server)) == 1
        for name in ("apart", "inside"):
            assert predict(server, name, [[1.0, 2.0]]) == (200, {"predictions": [[2.0, 3.0]]})
        # A reload with another setting moves it.
        entries[0]["config"]["isolate"] = False
        server.write_config({"model_config_list": entries})
        assert server.reload()[0] == 201
        wait_until(lambda: workers(server) == [], PATIENCE, "the end of the worker")
        assert predict(server, "apart", [[1.0, 2.0]]) == (200, {"predictions": [[2.0, 3.0]]})


def test_files_that_change_under_a_worker_are_not_taken_for_the_version(tmp_path, connect):
    base = models.save(models.add((-1, 2)), tmp_path / "any")
    entries = [models.entry("any", base)]
    options = ("--file_system_poll_wait_seconds", "0", "--outage-wait-ms", "200", *ISOLATED)
    with OvmsServer({"model_config_list": entries}, *options, workdir=tmp_path) as server:
        models.save(models.add((-1, 3)), tmp_path / "any")
        [pid] = workers(server)
        os.kill(pid, signal.SIGKILL)
        server.wait_for_log("the files of model 'any' changed since it was loaded; reload it")
        client = connect("grpc", server)
        with pytest.raises(InferenceServerException, match="reload it"):
            client.infer("any", {"b": np.ones((1, 2), np.float32)})


def test_the_console_counts_the_worker_once(tmp_path):
    wide = models.save(models.add((-1, 2)), tmp_path / "any")
    with OvmsServer({"model_config_list": [models.entry("any", wide, nireq=3)]}, *ISOLATED, workdir=tmp_path) as server:
        [pid] = workers(server)

        def shown():
            status, _, body = server.request("GET", "/console/api/models/any/versions/1", address=server.metrics)
            assert status == 200, body
            return [worker for worker in json.loads(body)["workers"] if worker["pid"]]

        assert [worker["pid"] for worker in shown()] == [pid]
        wait_until(lambda: shown()[0].get("memory_bytes", 0) > 1 << 20, PATIENCE, "its memory")


# ---- Custom nodes --------------------------------------------------------------------------------


def adder(name, fault="", addend=1):
    """Returns a pipeline of one custom node, which adds to a vector x."""
    node = {
        "name": f"node_of_{name}",
        "library_name": "faulty",
        "type": "custom",
        "params": {"fault": fault, "addend": str(addend), "items": "1"},
        "inputs": [{"in": {"node_name": "request", "data_item": "x"}}],
        "outputs": [{"data_item": "sum", "alias": "y"}],
    }
    outputs = [{"y": {"node_name": node["name"], "data_item": "y"}}]
    return {"name": name, "inputs": ["x"], "nodes": [node], "outputs": outputs}


@pytest.mark.parametrize("level", ["basic", "strict", "separate"])
def test_native_code_has_the_level_of_isolation_that_workers_have(tmp_path, tmp_path_factory, connect, level):
    if level == "separate" and os.geteuid() != 0:
        pytest.skip("takes root")
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "secret"
    elsewhere.write_text("secret", encoding="utf-8")
    pipelines = [adder("sum"), adder("reads", "no_file")]
    pipelines[1]["nodes"][0]["params"]["file"] = str(elsewhere)
    config = nodes_config(*pipelines)
    models.save(models.add((-1, 3)), tmp_path / "any", 1)
    models.save(models.identity((-1, 2, 3, 3), input_name="image", output="pixels"), tmp_path / "image", 1)
    config["model_config_list"] = [
        models.entry("any", tmp_path / "any"),
        models.entry("image", tmp_path / "image", layout={"image": "NHWC"}),
    ]
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    options = ("--isolate=openvino,custom-nodes,images", f"--worker-isolation={level}")
    with OvmsServer(config, *options, "--cache_dir", tmp_path / "cache", workdir=tmp_path) as server:
        client = connect("grpc", server)
        np.testing.assert_array_equal(add(client, "sum", [1, 2]), [2, 3])
        x = np.ones((2, 3), np.float32)
        np.testing.assert_array_equal(client.infer("any", {"b": x}).as_numpy("a"), x + 1)
        status, answer = show(server, picture((3, 2, 1)))
        assert status == 200, answer
        if level == "basic":
            np.testing.assert_array_equal(add(client, "reads", [1, 2]), [2, 3])
        else:
            with pytest.raises(InferenceServerException, match="execute returned 21"):
                add(client, "reads", [1, 2])
        assert len(workers(server)) == 5


def test_a_library_has_a_level_by_its_name(tmp_path, tmp_path_factory, connect):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("secret", encoding="utf-8")
    reads = adder("reads", "no_file")
    reads["nodes"][0]["params"]["file"] = str(secret)
    options = ("--isolate=custom-nodes", "--worker-isolation=faulty=strict")
    with (
        OvmsServer(nodes_config(reads), *options, workdir=tmp_path) as server,
        pytest.raises(InferenceServerException, match="execute returned 21"),
    ):
        add(connect("grpc", server), "reads", [1, 2])


def test_a_level_of_a_model_inside_the_server_is_refused(repository, serve):
    text = config(
        None, backend="openvino", extra='parameters { key: "WORKER_ISOLATION" value { string_value: "strict" } }'
    )
    models.save(models.add((-1, 3)), repository.add("wrong", None, text, versions=()))
    server = serve(repository, "--exit-on-error=false", "--strict-readiness=false", ready=False)
    status, index = server.json("POST", "/v2/repository/index")
    assert status == 200
    assert "parameter 'WORKER_ISOLATION' needs an isolated model" in index[0]["reason"]


def nodes_config(*pipelines, **library):
    libraries = [{"name": "faulty", "base_path": str(NODE), **library}]
    return {"model_config_list": [], "pipeline_config_list": pipelines, "custom_node_library_config_list": libraries}


def add(client, name, values):
    """Returns the pipeline's results for some values, in rows of ten."""
    rows = np.resize(np.array(values, np.float32), (-(-len(values) // 10), 10))
    return client.infer(name, {"x": rows}).as_numpy("y").ravel()[: len(values)]


def test_a_custom_node_that_crashes_costs_its_request_and_comes_back(tmp_path, connect):
    config = nodes_config(adder("fragile", "crash_of_666"), adder("other", addend=7))
    with OvmsServer(config, "--isolate", "custom-nodes", workdir=tmp_path) as server:
        assert len(workers(server)) == 2
        for protocol in ("grpc", "http"):
            client = connect(protocol, server)
            with pytest.raises(InferenceServerException) as error:
                add(client, "fragile", [666, 1])
            text = error.value.message()
            assert "Custom node failed during execution" in text
            assert "library 'faulty', node 'node_of_fragile': Stub process 'node_of_fragile' is not healthy." in text
            np.testing.assert_array_equal(add(client, "other", [1, 2]), [8, 9])
            np.testing.assert_array_equal(add(client, "fragile", [1, 2]), [2, 3])
        metrics = server.metric_values()
        for name, pipeline in (("node_of_fragile", "fragile"), ("node_of_other", "other")):
            [size] = [
                value
                for key, value in metrics.items()
                if key.startswith("braid_worker_pss_bytes{") and f'"{name}"' in key and f'"{pipeline}"' in key
            ]
            assert 1 << 20 < size < 1 << 30
        large = np.arange(1 << 20, dtype=np.float32)
        np.testing.assert_array_equal(add(connect("grpc", server), "other", large), large + 7)
        before = set(workers(server))
        # Changed pipelines end their workers.
        server.write_config(nodes_config(adder("other", addend=5)))
        assert server.reload()[0] == 201
        wait_until(lambda: len(workers(server)) == 1, PATIENCE, "the end of the workers")
        assert not before & set(workers(server))
        np.testing.assert_array_equal(add(connect("grpc", server), "other", [1, 2]), [6, 7])


def test_a_library_says_for_itself_where_it_runs(tmp_path, connect):
    for option, isolate, count in (("", True, 1), ("custom-nodes", False, 0)):
        config = nodes_config(adder("sum"), isolate=isolate)
        with OvmsServer(config, f"--isolate={option}", workdir=tmp_path) as server:
            np.testing.assert_array_equal(add(connect("grpc", server), "sum", [1, 2]), [2, 3])
            assert len(workers(server)) == count


def kill_workers_under_load(server, connect, ask, said):
    """Four clients call ask(client, values), which returns whether the answer was right. Meanwhile all workers are
    killed five times.

    Each kill may fail one request of each client, with an error that matches the pattern `said`.
    """
    outcomes = []
    stop = threading.Event()

    def run(number):
        client = connect("grpc", server)
        while not stop.is_set():
            try:
                outcomes.append("right" if ask(client, [number, len(outcomes)]) else "wrong")
            except InferenceServerException as error:
                outcomes.append(error.message())

    def await_answers():
        reached = len(outcomes) + 50
        wait_until(lambda: len(outcomes) >= reached, PATIENCE, "answers")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            await_answers()
            for pid in workers(server):
                os.kill(pid, signal.SIGKILL)
        await_answers()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(outcomes[-20:]) == {"right"}
    others = [each for each in outcomes if each != "right"]
    assert all(re.search(said, each) for each in others), others
    assert len(others) <= 5 * len(threads)


def test_each_request_of_a_pipeline_has_one_outcome_while_its_node_is_killed(tmp_path, connect):
    def ask(client, values):
        return np.array_equal(add(client, "sum", values), np.add(values, 1))

    with OvmsServer(nodes_config(adder("sum")), "--isolate=custom-nodes", workdir=tmp_path) as server:
        kill_workers_under_load(server, connect, ask, "is not healthy")


# ---- Images --------------------------------------------------------------------------------------


def picture(colour, width=3, height=2):
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def show(server, *pictures):
    rows = [{"image": {"b64": each}} for each in pictures]
    return server.json("POST", "/v1/models/image:predict", {"instances": rows})


def test_images_are_decoded_apart(tmp_path):
    models.save(models.identity((-1, 2, 3, 3), input_name="image", output="pixels"), tmp_path / "image", 1)
    config = {"model_config_list": [models.entry("image", tmp_path / "image", layout={"image": "NHWC"})]}
    with OvmsServer(config, "--isolate=images", workdir=tmp_path) as server:
        assert workers(server) == []
        for _ in range(3):
            # A picture of another size is resized in the worker, too.
            status, answer = show(server, picture((30, 20, 10)), picture((3, 2, 1), 30, 20))
            assert status == 200, answer
            blue_green_red = np.array(answer["predictions"], np.float32)
            np.testing.assert_array_equal(blue_green_red[0], np.broadcast_to([10, 20, 30], (2, 3, 3)))
            np.testing.assert_array_equal(blue_green_red[1], np.broadcast_to([1, 2, 3], (2, 3, 3)))
            maps = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text(encoding="utf-8")
            assert "opencv" not in maps
            [pid] = workers(server)
            os.kill(pid, signal.SIGKILL)
        broken = base64.b64encode(base64.b64decode(picture((1, 2, 3)))[:60]).decode()
        status, answer = show(server, broken)
        assert 1 << 20 < server.metric_values()['braid_worker_pss_bytes{instance="images"}'] < 1 << 30
        assert status == 400
        assert "Image parsing failed" in answer["error"]


# ---- Calculators ---------------------------------------------------------------------------------

CALCULATORS = BINARY.parent / "src" / "mediapipe_graph" / "testing" / "plugins" / "test_calculators.so"


def calculators_config(folder, **graphs):
    """Returns a config.json with a graph for each name; the text has the nodes between the streams "in" and "out"."""
    entries = []
    for name, nodes in graphs.items():
        (folder / name).mkdir()
        text = f'input_stream: "OVTENSOR:in"\noutput_stream: "OVTENSOR:out"\n{nodes}\n'
        (folder / name / "graph.pbtxt").write_text(text, encoding="utf-8")
        entries.append({"name": name, "base_path": str(folder / name)})
    return {"model_config_list": [], "mediapipe_config_list": entries}


def calculator(name, source="in", sink="out", **given):
    pairs = " ".join(f'option {{ key: "{key}" value: "{value}" }}' for key, value in given.items())
    extra = f"node_options: {{ [type.googleapis.com/braid.PluginOptions] {{ {pairs} }} }}" if given else ""
    return f'node {{ calculator: "{name}" input_stream: "{source}" output_stream: "{sink}" {extra} }}'


def through(client, graph, values):
    return client.infer(graph, {"in": np.array(values, np.float32)}).as_numpy("out")


def test_a_calculator_that_crashes_costs_its_requests_and_comes_back(tmp_path, connect):
    config = calculators_config(
        tmp_path,
        fragile=calculator("FaultyCalculator", fault="crash_of_666"),
        failing=calculator("FaultyCalculator", fault="process_fail"),
        several=calculator("PassOnCalculator", sink="x") + calculator("DelayCalculator", "x"),
    )
    options = ("--isolate=calculators", "--calculator-library", CALCULATORS)
    with OvmsServer(config, *options, workdir=tmp_path) as server:
        maps = pathlib.Path(f"/proc/{server.process.pid}/maps").read_text(encoding="utf-8")
        assert "test_calculators" not in maps
        [first] = workers(server)
        for protocol in ("grpc", "http"):
            client = connect(protocol, server)
            np.testing.assert_array_equal(through(client, "fragile", [1, 2]), [1, 2])
            np.testing.assert_array_equal(through(client, "several", [3, 4]), [3, 4])
            with pytest.raises(InferenceServerException, match="it fails in process"):
                through(client, "failing", [1])
            with pytest.raises(InferenceServerException) as error:
                through(client, "fragile", [666, 1])
            assert "Stub process 'test_calculators' is not healthy. It was ended by signal 6" in error.value.message()
            np.testing.assert_array_equal(through(client, "fragile", [1, 2]), [1, 2])
        assert workers(server) != [first]
        large = np.arange(1 << 20, dtype=np.float32)
        np.testing.assert_array_equal(through(connect("grpc", server), "several", large), large)
        assert 1 << 20 < server.metric_values()['braid_worker_pss_bytes{instance="test_calculators"}'] < 1 << 30


def test_each_request_of_a_graph_has_one_outcome_while_its_library_is_killed(tmp_path, connect):
    def ask(client, values):
        return np.array_equal(through(client, "passes", values), values)

    config = calculators_config(tmp_path, passes=calculator("DelayCalculator"))
    options = ("--isolate=calculators", "--calculator-library", CALCULATORS)
    with OvmsServer(config, *options, workdir=tmp_path) as server:
        kill_workers_under_load(server, connect, ask, "is not healthy|its state is lost")


@pytest.mark.parametrize(
    ("library", "text"),
    [
        ("wrong_version", "it was built for version 2 of the calculator interface"),
        ("crash_at_open", "is not healthy. It was ended by signal 6"),
    ],
)
def test_a_library_of_calculators_that_cannot_be_used_is_told(tmp_path, library, text):
    path = CALCULATORS.with_name(f"{library}.so")
    options = ("--isolate=calculators", "--calculator-library", path)
    server = OvmsServer({"model_config_list": []}, *options, workdir=tmp_path, ready=False, listening=False)
    server.process.wait(PATIENCE)
    assert f"the calculator library '{path}' cannot be used: " in server.log
    assert text in server.log


# A folder with all necessary files becomes the root of the command. Unlike in a container, it is not a mount.
CHROOT = """
for each in /*; do
  [ -d "$each" ] && mkdir -p "$0$each" && mount --rbind "$each" "$0$each"
done
exec chroot "$0" "$@"
"""


@pytest.mark.parametrize("place", ["machine", "chroot"])
@pytest.mark.parametrize("level", ["strict", "separate"])
def test_calculators_run_at_a_level_of_their_library(tmp_path, tmp_path_factory, connect, level, place):
    if level == "separate" and os.geteuid() != 0:
        pytest.skip("takes root")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    config = calculators_config(tmp_path, passes=calculator("DelayCalculator"))
    options = ("--isolate=calculators", f"--worker-isolation=test_calculators={level}")
    through_chroot = []
    if place == "chroot":
        own_mounts = ["unshare", "--mount"]
        if subprocess.run([*own_mounts, "true"], check=False, capture_output=True).returncode != 0:
            pytest.skip("takes root, outside of a chroot")
        through_chroot = [*own_mounts, "sh", "-c", CHROOT, tmp_path_factory.mktemp("chroot")]
    options += ("--calculator-library", CALCULATORS)
    with OvmsServer(config, *options, workdir=tmp_path, through=through_chroot) as server:
        np.testing.assert_array_equal(through(connect("grpc", server), "passes", [1, 2]), [1, 2])
        assert len(workers(server)) == 1


def test_a_description_that_crashes_keeps_its_graph_away(tmp_path, connect):
    config = calculators_config(
        tmp_path,
        fragile=calculator("FaultyCalculator", fault="describe_crash"),
        good=calculator("FaultyCalculator", fault="none"),
    )
    options = ("--isolate=calculators", "--calculator-library", CALCULATORS)
    with OvmsServer(config, *options, workdir=tmp_path, ready=False) as server:
        wait_until(lambda: server.states("good").get(1) == "AVAILABLE", PATIENCE, "the good graph")
        np.testing.assert_array_equal(through(connect("grpc", server), "good", [1, 2]), [1, 2])
        assert server.states("fragile").get(1) != "AVAILABLE"
        assert "is not healthy" in server.log
