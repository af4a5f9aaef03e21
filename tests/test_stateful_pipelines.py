"""Sequences through pipelines, graphs, ensembles and calls of user code: one id for all stateful models behind them,
and no effect of a failed request."""

import concurrent.futures
import contextlib
import json
import re

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness import openvino_models as models
from harness.graph_texts import model_status
from harness.graphs import Stream, config, tensor, write_graph
from harness.ovms import OvmsServer
from harness.pipelines import node, pipeline
from harness.repository import Repository, per_request
from harness.repository import config as model_config
from harness.server import Server
from harness.stateful_models import running_sum_model, stateful_entry
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

SHAPE = (1, 4)
X = np.arange(1, 5, dtype=np.float32).reshape(SHAPE)

OPT_IN = '("allow_in_pipelines": true in the model\'s entry allows it)'
LOADING, FAILED_PRECONDITION = 20, 9  # as in GetModelStatus
EXISTS = "Sequence with provided ID already exists"
MISSING = "Sequence with provided ID does not exist"


def session(model):
    return (
        f'node {{ calculator: "OpenVINOModelServerSessionCalculator" output_side_packet: "SESSION:{model}" '
        "node_options { [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions] "
        f'{{ servable_name: "{model}" }} }} }}\n'
    )


def infer(model, before, after):
    return (
        f'node {{ calculator: "OpenVINOInferenceCalculator" input_side_packet: "SESSION:{model}" '
        f'input_stream: "IN:{before}" output_stream: "OUT:{after}" node_options {{ '
        "[type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] { "
        'tag_to_input_tensor_names { key: "IN" value: "x" } tag_to_output_tensor_names { key: "OUT" value: "y" } } } }\n'
    )


def graph(*nodes):
    return 'input_stream: "OVTENSOR:in"\noutput_stream: "OVTENSOR:out"\n' + "".join(nodes)


def stateful_models(folder):
    return [
        stateful_entry("sum", running_sum_model(), folder, allow_in_pipelines=True),
        stateful_entry("sum2", running_sum_model(), folder, allow_in_pipelines=True),
        stateful_entry("private", running_sum_model(), folder),
        models.entry("double", models.save(models.scale(SHAPE), folder / "double")),
        models.entry("cut", models.save(models.scale((2, *SHAPE), 1.0), folder / "cut")),
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stateful-pipelines")
    graphs = [
        write_graph(folder, "g_one", graph(session("sum"), infer("sum", "in", "out"))),
        write_graph(
            folder,
            "g_two",
            graph(session("sum"), session("sum2"), infer("sum", "in", "mid"), infer("sum2", "mid", "out")),
        ),
        write_graph(folder, "g_private", graph(session("private"), infer("private", "in", "out"))),
    ]
    pipelines = [
        pipeline("chain", node("a", "sum", "request/in"), node("b", "double", "a/y")),
        pipeline("two", node("a", "sum", "request/in"), node("b", "sum2", "a/y")),
        pipeline("p_private", node("a", "private", "request/in")),
        pipeline("p_cut", node("c", "cut", "request/in", demultiply_count=2), node("a", "sum", "c/y")),
        pipeline("p_twice", node("a", "sum", "request/in"), node("b", "sum", "a/y")),
    ]
    entries = config(*graphs, models=stateful_models(folder), pipeline_config_list=pipelines)
    with OvmsServer(entries, workdir=folder) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        yield client


def ask(client, name, sequence, *, start=False, end=False, x=X, source="in", output="out", more=()):
    result = client.infer(
        name,
        [tensor(source, x), *more],
        sequence_id=sequence,
        sequence_start=start,
        sequence_end=end,
    )
    return result.as_numpy(output)


def model(client, name, sequence, **more):
    return ask(client, name, sequence, source="x", output="y", **more)


def refusal(call, *args, **more):
    with pytest.raises(InferenceServerException) as caught:
        call(*args, **more)
    return caught.value.message()


def end_quietly(client, name, sequence):
    with contextlib.suppress(InferenceServerException):
        model(client, name, sequence, end=True)


# ---- pipelines ----


def test_the_sequence_goes_through_a_pipeline(client):
    np.testing.assert_array_equal(ask(client, "chain", 7, start=True), 2 * X)
    np.testing.assert_array_equal(ask(client, "chain", 7), 4 * X)
    # It is the model's sequence.
    np.testing.assert_array_equal(model(client, "sum", 7), 3 * X)
    assert EXISTS in refusal(ask, client, "chain", 7, start=True)
    np.testing.assert_array_equal(ask(client, "chain", 7, end=True), 8 * X)
    assert refusal(ask, client, "chain", 7).startswith(MISSING)
    assert refusal(model, client, "sum", 7).startswith(MISSING)


def test_two_stateful_nodes_know_the_same_sequence(client):
    np.testing.assert_array_equal(ask(client, "two", 8, start=True), X)
    np.testing.assert_array_equal(ask(client, "two", 8), 3 * X)
    np.testing.assert_array_equal(ask(client, "two", 8, end=True), 6 * X)
    for name in ("sum", "sum2"):
        assert MISSING in refusal(model, client, name, 8)


def test_every_response_tells_the_sequence_once(client):
    control = tensor("sequence_control_input", np.array([1], np.uint32))
    result = client.infer("two", [tensor("in", X), control])
    assert sorted(output.name for output in result.get_response().outputs) == ["out", "sequence_id"]
    [sequence] = result.as_numpy("sequence_id")
    assert result.get_output("sequence_id").datatype == "UINT64"
    assert 0 < sequence < 2**63
    # All nodes know the id that the server assigned.
    for name in ("sum", "sum2"):
        assert EXISTS in refusal(model, client, name, int(sequence), start=True)
    result = client.infer("two", [tensor("in", X)], sequence_id=int(sequence), sequence_end=True)
    assert result.as_numpy("sequence_id").tolist() == [sequence]
    np.testing.assert_array_equal(result.as_numpy("out"), 3 * X)


def test_metadata_knows_nothing_of_sequences(client):
    metadata = client.get_model_metadata("two")
    assert [each.name for each in metadata.inputs] == ["in"]
    assert [each.name for each in metadata.outputs] == ["out"]


def test_a_pipeline_over_tensorflow_servings_api(server):
    def predict(**inputs):
        body = {"inputs": {"in": X.tolist(), **inputs}}
        return server.json("POST", "/v1/models/chain:predict", body=body)

    status, answer = predict(sequence_id=[21], sequence_control_input=[1])
    assert status == 200, answer
    assert (status, answer["outputs"]) == (200, {"out": (2 * X).tolist(), "sequence_id": [21]})
    status, answer = predict(sequence_id=[21], sequence_control_input=[2])
    assert (status, answer["outputs"]) == (200, {"out": (4 * X).tolist(), "sequence_id": [21]})
    assert predict() == (400, {"error": "Sequence ID has not been provided in request inputs"})


def test_the_header_names_the_sequence_of_a_pipeline(server):
    headers = {"braid-sequence-id": "22"}
    body = {"inputs": {"in": X.tolist(), "sequence_control_input": [1]}}
    status, answer = server.json("POST", "/v1/models/chain:predict", body=body, headers=headers)
    assert (status, answer["outputs"]["sequence_id"]) == (200, [22])
    body["inputs"]["sequence_control_input"] = [2]
    status, answer = server.json("POST", "/v1/models/chain:predict", body=body, headers=headers)
    assert (status, answer["outputs"]) == (200, {"out": (4 * X).tolist(), "sequence_id": [22]})


def test_a_start_that_fails_on_its_way_leaves_nothing(client):
    model(client, "sum2", 31, start=True)
    # sum begins the sequence, but sum2 already has one with that id.
    assert EXISTS in refusal(ask, client, "two", 31, start=True)
    np.testing.assert_array_equal(model(client, "sum2", 31, end=True), 2 * X)
    assert MISSING in refusal(model, client, "sum", 31)
    np.testing.assert_array_equal(ask(client, "two", 31, start=True), X)
    ask(client, "two", 31, end=True)


@pytest.mark.parametrize("name", ["two", "g_two"])
def test_a_step_that_fails_on_its_way_changes_nothing(client, name):
    ask(client, name, 34, start=True)
    model(client, "sum2", 34, end=True)
    for _ in range(3):
        assert MISSING in refusal(ask, client, name, 34)
    model(client, "sum2", 34, start=True, x=0 * X)
    # The first model's sum is twice X now; each failure would have added one more.
    np.testing.assert_array_equal(ask(client, name, 34), 2 * X)
    np.testing.assert_array_equal(model(client, "sum", 34, end=True), 3 * X)
    model(client, "sum2", 34, end=True)


def test_an_end_that_fails_on_its_way_ends_all(client):
    ask(client, "two", 32, start=True)
    model(client, "sum2", 32, end=True)
    assert MISSING in refusal(ask, client, "two", 32, end=True)
    np.testing.assert_array_equal(ask(client, "two", 32, start=True), X)
    # In the other direction, the end has no effect.
    model(client, "sum", 32, end=True)
    assert MISSING in refusal(ask, client, "two", 32, end=True)
    np.testing.assert_array_equal(model(client, "sum2", 32, end=True), 2 * X)


def test_what_is_wrong_with_a_request_ends_nothing(client):
    ask(client, "two", 33, start=True)
    wrong = np.ones((1, 5), np.float32)
    assert "Invalid input shape" in refusal(ask, client, "two", 33, x=wrong, end=True)
    np.testing.assert_array_equal(ask(client, "two", 33, end=True), 3 * X)


def test_many_sequences_beside_each_other(server):
    def one(sequence):
        with grpcclient.InferenceServerClient(server.grpc) as client:
            x = np.full(SHAPE, sequence, np.float32)
            answers = [ask(client, "two", sequence, start=turn == 0, end=turn == 19, x=x).item(0) for turn in range(20)]
        return answers == [sequence * (turn + 1) * (turn + 2) / 2 for turn in range(20)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(1000, 1016)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "p_private",
            f"Stateful model cannot be subscribed to pipeline - pipeline 'p_private', node 'a': model 'private' {OPT_IN}",
        ),
        (
            "p_cut",
            "Functionality not implemented - pipeline 'p_cut', node 'a': model 'sum' is stateful and would run once for "
            "each piece of 'c'; a request can run it only once",
        ),
        (
            "p_twice",
            "Functionality not implemented - pipeline 'p_twice', node 'b': model 'sum' is stateful and already used "
            "by node 'a'; a request can run it only once",
        ),
    ],
)
def test_pipelines_that_cannot_be(client, server, name, text):
    server.wait_for_log(re.escape(text))
    assert not client.is_model_ready(name)
    assert model_status(server, name) == (1, LOADING, FAILED_PRECONDITION, "FAILED_PRECONDITION")


def test_the_opt_in_and_statefulness_may_change(tmp_path):
    """A reload cannot make a pipeline's model stateful. If the model is removed and added anew, it needs the opt-in,
    which restores the pipeline."""
    stateful = stateful_entry("m", running_sum_model(), tmp_path)
    plain = models.entry("m", tmp_path / "m")
    pipelines = [pipeline("p", node("a", "m", "request/in"))]

    def config_of(*entries):
        return {"model_config_list": list(entries), "pipeline_config_list": pipelines}

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(OvmsServer(config_of(plain), workdir=tmp_path))
        client = stack.enter_context(grpcclient.InferenceServerClient(server.grpc))
        np.testing.assert_array_equal(ask(client, "p", 0), X)
        server.write_config(config_of(stateful))
        assert server.reload()[0] == 412
        server.wait_for_log("a loaded model cannot be made stateful or stateless by a reload")
        np.testing.assert_array_equal(ask(client, "p", 0), X)

        server.write_config(config_of())
        server.reload()
        server.write_config(config_of(stateful))
        assert server.reload()[0] == 412
        server.wait_for_log("Stateful model cannot be subscribed to pipeline - pipeline 'p', node 'a'")
        server.write_config(config_of({"config": {**stateful["config"], "allow_in_pipelines": True}}))
        assert server.reload()[0] == 201
        np.testing.assert_array_equal(ask(client, "p", 5, start=True), X)
        np.testing.assert_array_equal(ask(client, "p", 5), 2 * X)


# ---- graphs ----


def told(result):
    return result.get_response().parameters["sequence_id"].int64_param


def test_the_sequence_goes_through_a_graph(client):
    result = client.infer("g_two", [tensor("in", X)], sequence_id=41, sequence_start=True)
    np.testing.assert_array_equal(result.as_numpy("out"), X)
    assert told(result) == 41
    np.testing.assert_array_equal(ask(client, "g_two", 41), 3 * X)
    assert "inference of 'sum' failed: " + EXISTS in refusal(ask, client, "g_two", 41, start=True)
    np.testing.assert_array_equal(ask(client, "g_two", 41, end=True), 6 * X)
    assert "inference of 'sum' failed: " + MISSING in refusal(ask, client, "g_two", 41)
    assert "Sequence ID has not been provided" in refusal(ask, client, "g_two", 0)


def test_a_graph_tells_the_servers_id(server, client):
    body = {
        "parameters": {"sequence_start": True},
        "inputs": [{"name": "in", "shape": list(SHAPE), "datatype": "FP32", "data": X.ravel().tolist()}],
    }
    status, answer = server.json("POST", "/v2/models/g_two/infer", body=body)
    assert status == 200, answer
    sequence = answer["parameters"]["sequence_id"]
    assert 0 < sequence < 2**63
    np.testing.assert_array_equal(model(client, "sum", sequence, end=True), 2 * X)
    np.testing.assert_array_equal(model(client, "sum2", sequence, end=True), 2 * X)


def test_a_graph_leaves_nothing_of_a_start_that_fails(client):
    model(client, "sum2", 42, start=True)
    assert EXISTS in refusal(ask, client, "g_two", 42, start=True)
    model(client, "sum2", 42, end=True)
    np.testing.assert_array_equal(ask(client, "g_two", 42, start=True), X)
    ask(client, "g_two", 42, end=True)


def test_messages_of_a_stream_have_sequences_of_their_own(server, client):
    def message(sequence, x, **flags):
        request = service_pb2.ModelInferRequest(model_name="g_one")
        request.inputs.add(name="in", datatype="FP32", shape=SHAPE)
        request.raw_input_contents.append(np.full(SHAPE, x, np.float32).tobytes())
        request.parameters["sequence_id"].int64_param = sequence
        for name, value in flags.items():
            request.parameters[f"sequence_{name}"].bool_param = value
        return request

    messages = [
        message(51, 1, start=True),
        message(52, 10, start=True),
        message(51, 2),
        message(52, 20, end=True),
    ]
    with grpcclient.InferenceServerClient(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel._channel)
        answers = list(stub.ModelStreamInfer(iter(messages), timeout=30))
    assert [answer.error_message for answer in answers] == [""] * 4
    seen = [
        (
            answer.infer_response.parameters["sequence_id"].int64_param,
            np.frombuffer(answer.infer_response.raw_output_contents[0], np.float32)[0],
        )
        for answer in answers
    ]
    assert seen == [(51, 1), (52, 10), (51, 3), (52, 30)]
    np.testing.assert_array_equal(model(client, "sum", 51, end=True), 3 + X)
    assert MISSING in refusal(model, client, "sum", 52)


def test_a_stream_that_fails_takes_back_what_it_has_not_answered(server, client):
    model(client, "sum2", 53, start=True)
    with Stream(server.grpc, "g_two") as stream:
        stream.client.async_stream_infer("g_two", [tensor("in", X)], sequence_id=53, sequence_start=True)
        assert EXISTS in stream.error().message()
    assert MISSING in refusal(model, client, "sum", 53)
    end_quietly(client, "sum2", 53)


def test_a_graph_over_a_model_that_forbids_it(client, server):
    text = f"graph 'g_private': 'private' is a stateful model, which sessions of graphs cannot call {OPT_IN}"
    server.wait_for_log(re.escape(text))
    assert not client.is_model_ready("g_private")
    assert model_status(server, "g_private") == (1, LOADING, FAILED_PRECONDITION, "FAILED_PRECONDITION")


# ---- Triton's and OpenVINO Model Server's models together ----

GUARD = per_request("""
    x = get(request, "x")
    if x[0, 0] < 0:
        raise pb_utils.TritonModelException("below zero")
    return respond(y=x)
""")

CALLER = per_request("""
    id, flags = (int(value) for value in get(request, "turn"))
    call = pb_utils.InferenceRequest(
        model_name="sum", inputs=[pb_utils.Tensor("x", get(request, "x"))],
        requested_output_names=["y", "sequence_id"], correlation_id=id, flags=flags,
    )
    answer = call.exec()
    if answer.has_error():
        raise pb_utils.TritonModelException(answer.error().message())
    named = {tensor.name(): tensor.as_numpy() for tensor in answer.output_tensors()}
    return respond(y=named["y"], id=named["sequence_id"].astype(np.uint64))
""")

TEXT_CALLER = per_request("""
    call = pb_utils.InferenceRequest(
        model_name="sum", inputs=[pb_utils.Tensor("x", get(request, "x"))], requested_output_names=["y"],
        correlation_id="a text", flags=pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START,
    )
    return pb_utils.InferenceResponse([], error=pb_utils.TritonError(call.exec().error().message()))
""")

ENSEMBLE = """
ensemble_scheduling {
  step { model_name: "sum" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "m" } }
  step { model_name: "guard" model_version: -1 input_map { key: "x" value: "m" } output_map { key: "y" value: "y" } }
}
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Python models, an ensemble and config.json in one server; ensembles are loaded once their models exist."""
    folder = tmp_path_factory.mktemp("mixed")
    repository = Repository(folder / "repository")
    x, y = ("x", "FP32", [1, 4]), ("y", "FP32", [1, 4])
    repository.add("guard", GUARD, model_config("guard", [x], [y]))
    turn, told_id = ("turn", "UINT64", [2]), ("id", "UINT64", [1])
    repository.add("caller", CALLER, model_config("caller", [x, turn], [y, told_id]))
    repository.add("text_caller", TEXT_CALLER, model_config("text_caller", [x], [y]))
    for name, stateful in (("ensemble", "sum"), ("e_private", "private")):
        text = ENSEMBLE.replace('"sum"', f'"{stateful}"')
        repository.add(name, None, model_config(name, [x], [y], backend=None, extra='platform: "ensemble"' + text))
    pipelines = [pipeline("guarded", node("a", "sum", "request/in"), node("g", "guard", "a/y"))]
    entries = config(models=stateful_models(folder), pipeline_config_list=pipelines)
    path = folder / "config.json"
    path.write_text(json.dumps(entries))
    options = ["--model-control-mode=explicit"]
    options += [f"--load-model={name}" for name in ("guard", "caller", "text_caller")]
    with Server([repository.path], "--config_path", path, *options, workdir=folder) as server:
        yield server


@pytest.fixture(scope="module")
def mixed_client(mixed):
    with grpcclient.InferenceServerClient(mixed.grpc) as client:
        yield client


def test_a_start_is_taken_back_when_a_later_node_fails(mixed_client):
    assert "below zero" in refusal(ask, mixed_client, "guarded", 61, x=-X, start=True)
    assert MISSING in refusal(model, mixed_client, "sum", 61)
    np.testing.assert_array_equal(ask(mixed_client, "guarded", 61, start=True), X)
    # In the middle, the sequence stays as it was before the request.
    assert "below zero" in refusal(ask, mixed_client, "guarded", 61, x=-2 * X)
    np.testing.assert_array_equal(ask(mixed_client, "guarded", 61, x=3 * X), 4 * X)
    # The first model has ended it.
    assert "below zero" in refusal(ask, mixed_client, "guarded", 61, x=-9 * X, end=True)
    assert MISSING in refusal(model, mixed_client, "sum", 61)


def test_an_ensemble_over_a_stateful_model(mixed_client):
    mixed_client.load_model("ensemble")
    np.testing.assert_array_equal(model(mixed_client, "ensemble", 62, start=True), X)
    result = mixed_client.infer("ensemble", [tensor("x", X)], sequence_id=62)
    np.testing.assert_array_equal(result.as_numpy("y"), 2 * X)
    assert result.as_numpy("sequence_id").tolist() == [62]
    assert "below zero" in refusal(model, mixed_client, "ensemble", 62, x=-9 * X)
    assert "below zero" in refusal(model, mixed_client, "ensemble", 63, x=-X, start=True)
    assert MISSING in refusal(model, mixed_client, "sum", 63)
    np.testing.assert_array_equal(model(mixed_client, "ensemble", 62, end=True), 3 * X)


def test_an_ensemble_over_a_model_that_forbids_it(mixed_client):
    text = refusal(mixed_client.load_model, "e_private")
    assert f"in ensemble 'e_private', step 'private' (number 1) is a stateful model {OPT_IN}" in text


def call(client, x, sequence, flags):
    result = client.infer("caller", [tensor("x", x), tensor("turn", np.array([sequence, flags], np.uint64))])
    [told_id] = result.as_numpy("id")
    return result.as_numpy("y"), int(told_id)


def test_user_code_asks_a_stateful_model(mixed_client):
    y, sequence = call(mixed_client, X, 0, 1)
    np.testing.assert_array_equal(y, X)
    assert sequence != 0
    y, again = call(mixed_client, X, sequence, 0)
    np.testing.assert_array_equal(y, 2 * X)
    assert again == sequence
    y, again = call(mixed_client, X, sequence, 2)
    np.testing.assert_array_equal(y, 3 * X)
    assert again == sequence
    assert MISSING in refusal(call, mixed_client, X, sequence, 0)


def test_user_code_cannot_name_a_sequence_by_a_text(mixed_client):
    text = refusal(mixed_client.infer, "text_caller", [tensor("x", X)])
    assert "needs a numeric id, not 'a text'" in text
