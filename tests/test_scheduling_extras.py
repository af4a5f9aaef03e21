"""Reshape, warm-up, the response cache and the rate limiter (12.3, 12.5, 12.6, 12.4)."""

import concurrent.futures
import struct

import numpy as np
import pytest
from harness.clients import Client
from harness.ensembles import ensemble, step
from harness.repository import config, per_request


def statistics(server, model):
    return server.json("GET", f"/v2/models/{model}/stats")[1]["model_stats"][0]


# --- reshape


@pytest.fixture(scope="module")
def reshaping(module_repository, module_serve):
    module_repository.add(
        "fixed",
        per_request("values = get(request, 'IN'); return respond(OUT=values, SHAPE=np.array(values.shape))"),
        config(
            "fixed",
            [("IN", "FP32", [2, 6], "reshape { shape: [3, 4] }")],
            [("OUT", "FP32", [12], "reshape { shape: [3, 4] }"), ("SHAPE", "INT64", [-1])],
        ),
    )
    module_repository.add(
        "batched",
        per_request(
            "values = get(request, 'IN'); return respond(OUT=values, RANK=np.full((len(values), 1), values.ndim))"
        ),
        config(
            "batched",
            [("IN", "INT32", [1], "reshape { shape: [] }")],
            [("OUT", "INT32", [1], "reshape { shape: [] }"), ("RANK", "INT64", [1])],
            max_batch_size=4,
        ),
    )
    module_repository.add(
        "variable",
        per_request("values = get(request, 'IN'); return respond(OUT=values, SHAPE=np.array(values.shape))"),
        config(
            "variable",
            [("IN", "INT32", [-1, 4], "reshape { shape: [-1, 2, 2] }")],
            [("OUT", "INT32", [-1, 4], "reshape { shape: [-1, 2, 2] }"), ("SHAPE", "INT64", [-1])],
        ),
    )
    return module_serve(module_repository)


def test_fixed_shape_is_another_for_the_model(reshaping, connect):
    values = np.arange(12, dtype=np.float32).reshape(2, 6)
    for protocol in ("http", "grpc"):
        client = connect(protocol, reshaping)
        result = client.infer("fixed", {"IN": values})
        assert result.as_numpy("SHAPE").tolist() == [3, 4]
        assert result.as_numpy("OUT").shape == (12,)
        assert result.as_numpy("OUT").tolist() == list(range(12))


def test_batch_of_scalars(reshaping, connect):
    client = connect("grpc", reshaping)
    result = client.infer("batched", {"IN": np.array([[5], [6], [7]], dtype=np.int32)})
    assert result.as_numpy("RANK")[0] == 1
    assert result.as_numpy("OUT").tolist() == [[5], [6], [7]]


def test_variable_dimension_keeps_its_size(reshaping, connect):
    client = connect("http", reshaping)
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    result = client.infer("variable", {"IN": values})
    assert result.as_numpy("SHAPE").tolist() == [3, 2, 2]
    assert result.as_numpy("OUT").tolist() == values.tolist()


def test_metadata_and_checks_show_the_shape_of_clients(reshaping, connect):
    status, metadata = reshaping.json("GET", "/v2/models/fixed")
    assert status == 200
    assert metadata["inputs"][0]["shape"] == [2, 6]
    assert metadata["outputs"][0]["shape"] == [12]
    with connect("grpc", reshaping).fails("INVALID_ARG", contains="Expected [2,6], got [3,4]"):
        connect("grpc", reshaping).infer("fixed", {"IN": np.zeros((3, 4), dtype=np.float32)})


# --- warm-up

# Writes its input to a file per instance and request.
RECORD = """
import os
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.path = os.path.join(args["model_repository"], "seen_" + args["model_instance_name"])

    def execute(self, requests):
        responses = []
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            with open(self.path, "a") as file:
                file.write(repr(values.tolist()) + "\\n")
            if values.dtype == object and values.reshape(-1)[0] == b"bad":
                raise ValueError("no such text")
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)]))
        return responses
"""


def warm(data_type, dims, sample, max_batch_size=2, instances=1):
    return config(
        "warm",
        [("IN", data_type, dims)],
        [("OUT", data_type, dims)],
        max_batch_size=max_batch_size,
        extra=f"model_warmup [ {sample} ] instance_group [ {{ count: {instances} }} ]",
    )


def test_warmup_runs_on_every_instance_before_ready_and_is_not_counted(repository, serve):
    sample = """{ name: "zeros" batch_size: 2 count: 3
                  inputs { key: "IN" value { data_type: TYPE_INT32 dims: [2] zero_data: true } } },
                { name: "skipped" batch_size: 0
                  inputs { key: "IN" value { data_type: TYPE_INT32 dims: [2] zero_data: true } } },
                { name: "from_file" batch_size: 1
                  inputs { key: "IN" value { data_type: TYPE_INT32 dims: [2] input_data_file: "two" } } }"""
    folder = repository.add(
        "warm", RECORD, warm("INT32", [2], sample, instances=2), files={"warmup/two": struct.pack("<2i", 7, 8)}
    )
    server = serve(repository)
    for instance in ("warm_0_0", "warm_0_1"):
        seen = (folder / f"seen_{instance}").read_text().splitlines()
        assert seen == ["[[0, 0], [0, 0]]"] * 3 + ["[[7, 8]]"]
    stats = statistics(server, "warm")
    assert stats["inference_count"] == 0
    assert stats["execution_count"] == 0
    assert stats["inference_stats"]["success"]["count"] == 0
    client = Client("grpc", server)
    assert client.infer("warm", {"IN": np.array([[1, 2]], dtype=np.int32)}).as_numpy("OUT").tolist() == [[1, 2]]
    client.close()


def test_random_warmup_has_the_shape_and_strings_of_the_type(repository, serve):
    sample = """{ name: "random" batch_size: 1
                  inputs { key: "IN" value { data_type: TYPE_STRING dims: [3] random_data: true } } }"""
    folder = repository.add("warm", RECORD, warm("STRING", [3], sample))
    serve(repository)
    (line,) = (folder / "seen_warm_0_0").read_text().splitlines()
    rows = eval(line)
    assert len(rows) == 1
    assert len(rows[0]) == 3
    assert all(text.isalpha() or text == b"" for text in rows[0])


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        (
            """{ name: "bad" batch_size: 1
                 inputs { key: "IN" value { data_type: TYPE_STRING dims: [1] input_data_file: "bad" } } }""",
            "failed to run warmup sample 'bad': Failed to process the request(s) for model 'warm_0_0', message: "
            "ValueError: no such text",
        ),
        (
            """{ name: "other" batch_size: 1
                 inputs { key: "THAT" value { data_type: TYPE_STRING dims: [1] zero_data: true } } }""",
            "failed to run warmup sample 'other': [request id: <id_unknown>] expected 1 inputs but got 0 inputs for model "
            "'warm'. Got input(s) [], but missing required input(s) ['IN']. Please provide all required input(s).; ",
        ),
        (
            """{ name: "large" batch_size: 3
                 inputs { key: "IN" value { data_type: TYPE_STRING dims: [1] zero_data: true } } }""",
            "batch_size 3 is not allowed, max_batch_size is 2",
        ),
        (
            """{ name: "free" batch_size: 1
                 inputs { key: "IN" value { data_type: TYPE_STRING dims: [-1] zero_data: true } } }""",
            "input 'IN' has a variable dimension, all dims must be fixed",
        ),
        (
            """{ name: "out" batch_size: 1
                 inputs { key: "IN" value { data_type: TYPE_STRING dims: [1] input_data_file: "../1/model.py" } } }""",
            "'input_data_file' must stay within the model's warmup folder",
        ),
        (
            """{ name: "gone" batch_size: 1
                 inputs { key: "IN" value { data_type: TYPE_STRING dims: [1] input_data_file: "gone" } } }""",
            "cannot read 'warmup/gone'",
        ),
        (
            """{ name: "short" batch_size: 1
                 inputs { key: "IN" value { data_type: TYPE_STRING dims: [1] input_data_file: "short" } } }""",
            "'warmup/short' must hold 1 elements of TYPE_STRING, got 3 bytes",
        ),
    ],
)
def test_warmup_that_fails_fails_the_load(repository, serve, sample, reason):
    repository.add(
        "warm",
        RECORD,
        warm("STRING", [1], sample),
        files={"warmup/bad": struct.pack("<I", 3) + b"bad", "warmup/short": b"abc"},
    )
    server = serve(repository, "--exit-on-error=false", "--strict-readiness=false")
    (entry,) = server.json("POST", "/v2/repository/index")[1]
    assert entry["state"] == "UNAVAILABLE"
    assert reason in entry["reason"]


# Writes the names and values of all its inputs.
RECORD_ALL = """
import os
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.path = os.path.join(args["model_repository"], "seen_" + args["model_instance_name"])

    def execute(self, requests):
        responses = []
        for request in requests:
            given = [(tensor.name(), tensor.as_numpy().tolist()) for tensor in request.inputs()]
            with open(self.path, "a") as file:
                file.write(repr(sorted(given)) + "\\n")
            values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)]))
        return responses
"""


def value(name, data_type, data="zero_data: true"):
    return f'inputs {{ key: "{name}" value {{ data_type: TYPE_{data_type} dims: [1] {data} }} }}'


def test_warmup_may_name_inputs_that_the_configuration_does_not_have(repository, serve):
    inputs = value("IN", "INT32") + value("SEED", "INT64", 'input_data_file: "seed"')
    sample = f'{{ name: "more" batch_size: 2 {inputs} }}'
    files = {"warmup/seed": struct.pack("<q", 7)}
    folder = repository.add("warm", RECORD_ALL, warm("INT32", [1], sample), files=files)
    server = serve(repository)
    assert (folder / "seen_warm_0_0").read_text() == "[('IN', [[0], [0]]), ('SEED', [[7], [7]])]\n"
    # Clients do not see it.
    assert [each["name"] for each in server.json("GET", "/v2/models/warm")[1]["inputs"]] == ["IN"]


@pytest.mark.parametrize("strategy", ["direct", "oldest { max_candidate_sequences: 2 }"])
@pytest.mark.parametrize("max_batch_size", [0, 2])
def test_a_sequence_model_is_warmed_up_with_controls_of_its_own(repository, serve, strategy, max_batch_size):
    controls = """control_input [
      { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } ] },
      { name: "END" control [ { kind: CONTROL_SEQUENCE_END fp32_false_true: [0, 1] } ] },
      { name: "ID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] } ]"""
    state = """state [ { input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_INT32 dims: [1]
      initial_state: { data_type: TYPE_INT32 dims: [1] zero_data: true name: "zero" } } ]"""
    inputs = [
        value("IN", "INT32"),
        value("START", "INT32"),
        value("ID", "UINT64", 'input_data_file: "id"'),
        value("S_IN", "INT32", 'input_data_file: "state"'),
    ]
    text = config(
        "warm",
        [("IN", "INT32", [1])],
        [("OUT", "INT32", [1])],
        max_batch_size=max_batch_size,
        extra=f"sequence_batching {{ {strategy if '{' in strategy else 'direct {}'} {controls} {state} }}"
        f'model_warmup [ {{ name: "controls" batch_size: 1 {" ".join(inputs)} }} ]'
        "instance_group [ { count: 2 } ]",
    )
    files = {"warmup/id": struct.pack("<Q", 42), "warmup/state": struct.pack("<i", 9)}
    folder = repository.add("warm", RECORD_ALL, text, files=files)
    serve(repository)
    given = [("END", 1.0), ("ID", 42), ("IN", 0), ("START", 0), ("S_IN", 9)]
    expected = [(name, [[number]] if max_batch_size else [number]) for name, number in given]
    for instance in ("warm_0_0", "warm_0_1"):
        assert (folder / f"seen_{instance}").read_text() == f"{expected!r}\n"


# --- response cache

COUNTING = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.calls = 0

    def execute(self, requests):
        responses = []
        for request in requests:
            self.calls += 1
            values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if values[0] < 0:
                error = pb_utils.TritonError("negative", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(error=error))
                continue
            tensors = [pb_utils.Tensor("OUT", values), pb_utils.Tensor("CALL", np.array([self.calls], np.int32))]
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses
"""
CACHED = config(
    "cached",
    [("IN", "INT32", [-1])],
    [("OUT", "INT32", [-1]), ("CALL", "INT32", [1])],
    extra="response_cache { enable: true }",
)


def call(client, *values, **more):
    return client.infer("cached", {"IN": np.array(values, dtype=np.int32)}, **more).as_numpy("CALL")[0]


def test_same_inputs_are_answered_once(repository, serve, connect):
    repository.add("cached", COUNTING, CACHED)
    server = serve(repository, "--cache-config=local,size=1048576")
    http, grpc = connect("http", server), connect("grpc", server)
    assert call(http, 1, 2) == 1
    assert call(grpc, 1, 2, request_id="other") == 1
    assert call(http, 2, 1) == 2
    assert call(http, 1, 2) == 1
    # A request for other outputs is a different one.
    assert call(http, 1, 2, outputs=["CALL"]) == 3
    assert call(grpc, 1, 2, parameters={"mood": "new"}) == 4
    result = grpc.infer("cached", {"IN": np.array([1, 2], dtype=np.int32)}, request_id="mine")
    assert result.as_numpy("OUT").tolist() == [1, 2]
    assert result.get_response().id == "mine"
    stats = statistics(server, "cached")
    assert stats["inference_stats"]["success"]["count"] == 7
    assert stats["inference_stats"]["cache_hit"]["count"] == 3
    assert stats["inference_stats"]["cache_hit"]["ns"] > 0
    assert stats["inference_stats"]["cache_miss"]["count"] == 4
    assert stats["inference_count"] == 4
    assert stats["execution_count"] == 4
    metrics = server.metric_values()
    assert metrics['nv_cache_num_hits_per_model{model="cached",version="1"}'] == 3
    assert metrics['nv_cache_num_misses_per_model{model="cached",version="1"}'] == 4


def test_errors_are_not_kept(repository, serve, connect):
    repository.add("cached", COUNTING, CACHED)
    client = connect("grpc", serve(repository, "--cache-config", "local,size=1048576"))
    for _ in range(2):
        with client.fails("INVALID_ARG", "negative"):
            call(client, -1)
    assert call(client, 5) == 3


def test_what_does_not_fit_is_asked_for_again(repository, serve, connect):
    repository.add("cached", COUNTING, CACHED)
    client = connect("grpc", serve(repository, "--cache-config=local,size=4096"))
    large = range(2000)
    assert [call(client, *large), call(client, *large)] == [1, 2]
    assert [call(client, 1), call(client, 1)] == [3, 3]


def test_a_reload_empties_the_cache(repository, serve, connect):
    repository.add("cached", COUNTING, CACHED)
    server = serve(
        repository, "--cache-config=local,size=1048576", "--model-control-mode=explicit", "--load-model=cached"
    )
    client = connect("grpc", server)
    assert [call(client, 1), call(client, 2), call(client, 1)] == [1, 2, 1]
    repository.add("cached", COUNTING.replace("self.calls = 0", "self.calls = 100"), CACHED)
    assert server.json("POST", "/v2/repository/models/cached/load")[0] == 200
    assert call(client, 1) == 101


def test_a_reload_of_a_step_empties_the_cache_of_an_ensemble(repository, serve, connect):
    tensors = [("IN", "INT32", [-1])], [("OUT", "INT32", [-1]), ("CALL", "INT32", [1])]
    repository.add("counts", COUNTING, config("counts", *tensors))
    steps = [step("counts", {"IN": "IN"}, {k: k for k in ("OUT", "CALL")})]
    ensemble(repository, "cached", steps, *tensors, more_fields="response_cache { enable: true }")
    server = serve(
        repository, "--cache-config=local,size=1048576", "--model-control-mode=explicit", "--load-model=cached"
    )
    client = connect("http", server)
    assert [call(client, 1), call(client, 2), call(client, 1)] == [1, 2, 1]
    assert statistics(server, "cached")["inference_stats"]["cache_hit"]["count"] == 1
    repository.add("counts", COUNTING.replace("self.calls = 0", "self.calls = 100"), config("counts", *tensors))
    assert server.json("POST", "/v2/repository/models/counts/load")[0] == 200
    assert call(client, 1) == 101


def test_without_a_cache_the_model_is_served_and_the_log_says_so(repository, serve, connect):
    repository.add("cached", COUNTING, CACHED)
    server = serve(repository)
    client = connect("grpc", server)
    assert [call(client, 1), call(client, 1)] == [1, 2]
    server.wait_for_log("'cached' enables the response cache, but the server has none")


# --- rate limiter

# Reports by files how many run at once. The first execution waits until as many run as its request says.
COUNT_RUNNING = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.folder = os.path.join(os.path.dirname(args["model_repository"]), "running")
        os.makedirs(self.folder, exist_ok=True)
        self.mine = os.path.join(self.folder, args["model_instance_name"])

    def execute(self, requests):
        wanted = pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0]
        reached = f"{self.folder}-reached-{wanted}"
        open(self.mine, "w").close()
        deadline = time.monotonic() + 30
        while len(os.listdir(self.folder)) < wanted and not os.path.exists(reached) and time.monotonic() < deadline:
            time.sleep(0.002)
        open(reached, "w").close()
        time.sleep(0.02)
        running = len(os.listdir(self.folder))
        os.remove(self.mine)
        tensor = pb_utils.Tensor("OUT", np.array([running], dtype=np.int32))
        return [pb_utils.InferenceResponse([tensor]) for _ in requests]
"""


def limited(name, needs, instances):
    return config(
        name,
        [("IN", "INT32", [1])],
        [("OUT", "INT32", [1])],
        extra=f"""instance_group [ {{ count: {instances}
                   rate_limiter {{ resources [ {{ name: "R" global: true count: {needs} }} ] }} }} ]""",
    )


def most_at_once(server, requests, wanted=1):
    """Returns how many ran at once. The first waits until `wanted` run, since a busy machine may run them in turn."""

    def run(model):
        client = Client("grpc", server)
        try:
            return client.infer(model, {"IN": np.array([wanted], dtype=np.int32)}).as_numpy("OUT")[0]
        finally:
            client.close()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return max(pool.map(run, requests))


def test_resources_bound_what_runs_at_once(repository, serve):
    repository.add("one", COUNT_RUNNING, limited("one", 1, 3))
    repository.add("two", COUNT_RUNNING, limited("two", 2, 2))
    (repository.path / "running").mkdir()
    server = serve(
        repository,
        "--rate-limit=execution_count",
        "--rate-limit-resource=R:2",
        "--model-control-mode=explicit",
        "--load-model=one",
        "--load-model=two",
    )
    assert most_at_once(server, ["one"] * 12, wanted=2) == 2
    assert most_at_once(server, ["two"] * 6) == 1
    assert most_at_once(server, ["one", "two"] * 8) <= 2


def test_resources_mean_nothing_without_the_option(repository, serve):
    repository.add("one", COUNT_RUNNING, limited("one", 1, 3))
    (repository.path / "running").mkdir()
    server = serve(repository, "--model-control-mode=explicit", "--load-model=one")
    assert most_at_once(server, ["one"] * 12, wanted=3) == 3


def test_a_need_beyond_the_limit_fails_the_load(repository, serve):
    repository.add("greedy", COUNT_RUNNING, limited("greedy", 3, 1))
    server = serve(
        repository,
        "--rate-limit=execution_count",
        "--rate-limit-resource=R:2",
        "--exit-on-error=false",
        "--strict-readiness=false",
    )
    (entry,) = server.json("POST", "/v2/repository/index")[1]
    assert 'Resource count for "R" is limited to 2' in entry["reason"]
    assert "the minimum required count is 3" in entry["reason"]
