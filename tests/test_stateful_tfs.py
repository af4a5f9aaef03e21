"""Sequences of stateful models over TensorFlow Serving's APIs, gRPC and REST."""

import concurrent.futures
import dataclasses
import itertools
import json

import grpc
import numpy as np
import ovmsclient
import pytest
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.stateful_models import lstm_answers, lstm_model, running_sum_model, save, stateful_entry
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import tensor_pb2, types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

NONE, START, END = 0, 1, 2
SIZE = 4
PROTOCOLS = ["grpc", "rest"]

NO_SHAPE = "Special input proto does not contain tensor shape information"
ID_RANK = "Invalid number of shape dimensions - Required shape for sequence_id is: (1)"
ID_SHAPE = "Invalid input shape - Required shape for sequence_id is: (1)"
ID_TYPE = "Could not find sequence id in expected tensor proto field uint64_val"
CONTROL_RANK = "Invalid number of shape dimensions - Required shape for sequence_control_input is: (1)"
CONTROL_SHAPE = "Invalid input shape - Required shape for sequence_control_input is: (1)"
CONTROL_TYPE = "Could not find sequence control input in expected tensor proto field uint32_val"


@dataclasses.dataclass(frozen=True)
class Fault:
    """A refusal in the form of either protocol."""

    grpc: grpc.StatusCode
    rest: int
    text: str


def invalid(text):
    return Fault(grpc.StatusCode.INVALID_ARGUMENT, 400, text)


MISSING = Fault(grpc.StatusCode.NOT_FOUND, 404, "Sequence with provided ID does not exist")
EXISTS = Fault(grpc.StatusCode.ALREADY_EXISTS, 409, "Sequence with provided ID already exists")
TERMINATED = Fault(
    grpc.StatusCode.FAILED_PRECONDITION, 412, "Sequence last request is being processed and it's not available anymore"
)
FULL = Fault(grpc.StatusCode.UNAVAILABLE, 503, "Max sequence number has been reached. Could not create new sequence.")
NO_ID = invalid("Sequence ID has not been provided in request inputs")
BAD_CONTROL = invalid("Unexpected value of sequence control input")


class RefusedError(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


def refused(fault, client, *args, **more):
    """Asserts that the request is refused with the code and the whole text of the fault."""
    with pytest.raises(RefusedError) as error:
        client.ask(*args, **more)
    assert error.value.text == fault.text
    assert error.value.code == (fault.grpc if client.protocol == "grpc" else fault.rest)


def number(dtype, shape=(1,), **values):
    proto = tensor_pb2.TensorProto(dtype=getattr(types_pb2, f"DT_{dtype}"), **values)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


class GrpcClient:
    protocol = "grpc"

    def __init__(self, server):
        self.channel = grpc.insecure_channel(server.grpc)
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)

    def close(self):
        self.channel.close()

    def send(self, request, header=None):
        metadata = [("braid-sequence-id", header)] if header is not None else []
        try:
            return self.stub.Predict(request, metadata=metadata, timeout=60)
        except grpc.RpcError as error:
            raise RefusedError(error.code(), error.details()) from None

    @staticmethod
    def request(model, x, version=None, **protos):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        if version is not None:
            request.model_spec.version.value = version
        request.inputs["x"].CopyFrom(number("FLOAT", x.shape, tensor_content=x.tobytes()))
        for name, proto in protos.items():
            request.inputs[name].CopyFrom(proto)
        return request

    def ask(self, model, x, sequence=None, control=None, header=None, version=None):
        protos = {}
        if sequence is not None:
            protos["sequence_id"] = number("UINT64", uint64_val=[sequence])
        if control is not None:
            protos["sequence_control_input"] = number("UINT32", uint32_val=[control])
        answer = self.send(self.request(model, x, version, **protos), header)
        assert set(answer.outputs) == {"y", "sequence_id"}
        told = answer.outputs["sequence_id"]
        assert told.dtype == types_pb2.DT_UINT64
        assert [dim.size for dim in told.tensor_shape.dim] == [1]
        assert told.tensor_content == b""
        assert len(told.uint64_val) == 1
        y = answer.outputs["y"]
        shape = [dim.size for dim in y.tensor_shape.dim]
        return np.frombuffer(y.tensor_content, np.float32).reshape(shape), told.uint64_val[0]


class RestClient:
    protocol = "rest"

    def __init__(self, server):
        self.server = server

    def close(self):
        pass

    def send(self, model, body, header=None, version=None):
        path = f"/v1/models/{model}" + (f"/versions/{version}" if version is not None else "")
        headers = {"Braid-Sequence-Id": header} if header is not None else {}
        status, _, answer = self.server.request("POST", f"{path}:predict", json.dumps(body), headers)
        value = json.loads(answer)
        if status != 200:
            assert list(value) == ["error"]
            raise RefusedError(status, value["error"])
        return value

    def ask(self, model, x, sequence=None, control=None, header=None, version=None):
        inputs = {"x": x.tolist()}
        if sequence is not None:
            inputs["sequence_id"] = [sequence]
        if control is not None:
            inputs["sequence_control_input"] = [control]
        value = self.send(model, {"signature_name": "serving_default", "inputs": inputs}, header, version)
        assert list(value) == ["outputs"]
        assert set(value["outputs"]) == {"y", "sequence_id"}
        assert len(value["outputs"]["sequence_id"]) == 1
        return np.array(value["outputs"]["y"], np.float32), value["outputs"]["sequence_id"][0]


def row(*values):
    """Returns an input of the summing models."""
    return np.resize(np.array(values, np.float32), (1, SIZE))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stateful")
    total = running_sum_model(SIZE)
    entries = [
        stateful_entry("sum", total, folder),
        stateful_entry("lstm", lstm_model(), folder, low_latency_transformation=True),
        stateful_entry("slow", running_sum_model(SIZE, products=100), folder),
        stateful_entry("versions", total, folder, model_version_policy={"all": {}}),
        models.entry("stateless", models.save(models.scale((1, SIZE)), folder / "stateless")),
    ]
    save(total, folder / "versions", version=2)
    for protocol in PROTOCOLS:
        entries.append(stateful_entry(f"counted_{protocol}", total, folder))
        entries.append(stateful_entry(f"few_{protocol}", total, folder, max_sequence_number=2))
    entries.append(stateful_entry("shared", total, folder, allow_in_pipelines=True))
    pipelines = [
        {
            "name": "pipeline",
            "inputs": ["x"],
            "nodes": [
                {
                    "name": "node",
                    "model_name": "shared",
                    "type": "DL model",
                    "inputs": [{"x": {"node_name": "request", "data_item": "x"}}],
                    "outputs": [{"data_item": "y", "alias": "y"}],
                }
            ],
            "outputs": [{"y": {"node_name": "node", "data_item": "y"}}],
        }
    ]
    config = {"model_config_list": entries, "pipeline_config_list": pipelines}
    with OvmsServer(config, workdir=folder) as server:
        yield server


@pytest.fixture
def clients(server):
    made = {"grpc": GrpcClient(server), "rest": RestClient(server)}
    yield made
    for client in made.values():
        client.close()


@pytest.fixture(params=PROTOCOLS)
def client(request, clients):
    return clients[request.param]


# Each test has its own sequences.
_ids = itertools.count(1000)


@pytest.fixture
def sequence():
    return next(_ids)


def answers(answer, y, sequence):
    np.testing.assert_array_equal(answer[0], y)
    assert answer[1] == sequence


# ---- lifetime of a sequence ----


def test_from_start_to_end(client, sequence):
    answers(client.ask("sum", row(1, 2), sequence, START), row(1, 2), sequence)
    answers(client.ask("sum", row(10), sequence), row(11, 12), sequence)
    answers(client.ask("sum", row(100), sequence, NONE), row(111, 112), sequence)
    answers(client.ask("sum", row(1000), sequence, END), row(1111, 1112), sequence)
    refused(MISSING, client, "sum", row(1), sequence)
    # A new sequence with the same id does not have the old one's state.
    answers(client.ask("sum", row(5), sequence, START), row(5), sequence)
    answers(client.ask("sum", row(5), sequence, END), row(10), sequence)


def test_the_largest_id(client):
    most = 2**64 - 1
    answers(client.ask("sum", row(1), most, START), row(1), most)
    answers(client.ask("sum", row(1), most, END), row(2), most)


def test_sequences_know_nothing_of_each_other(client, sequence):
    other = next(_ids)
    client.ask("sum", row(1), sequence, START)
    client.ask("sum", row(10), other, START)
    answers(client.ask("sum", row(1), sequence), row(2), sequence)
    answers(client.ask("sum", row(10), other), row(20), other)
    answers(client.ask("sum", row(1), sequence, END), row(3), sequence)
    answers(client.ask("sum", row(10), other, END), row(30), other)


def test_one_sequence_over_both_protocols(clients, sequence):
    answers(clients["grpc"].ask("sum", row(1), sequence, START), row(1), sequence)
    answers(clients["rest"].ask("sum", row(2), sequence), row(3), sequence)
    answers(clients["grpc"].ask("sum", row(3), sequence), row(6), sequence)
    answers(clients["rest"].ask("sum", row(4), sequence, END), row(10), sequence)
    refused(MISSING, clients["grpc"], "sum", row(1), sequence, END)


def test_an_lstm_with_low_latency_transformation(client, sequence):
    rng = np.random.default_rng(3)
    rows = [rng.standard_normal((1, 1, 3)).astype(np.float32) for _ in range(6)]
    controls = [START, *[NONE] * 4, END]
    for x, control, expected in zip(rows, controls, lstm_answers(rows), strict=True):
        y, told = client.ask("lstm", x, sequence, control)
        np.testing.assert_allclose(y, expected, atol=1e-5)
        assert told == sequence


def test_each_version_has_its_own(client, sequence):
    answers(client.ask("versions", row(1), sequence, START, version=1), row(1), sequence)
    refused(MISSING, client, "versions", row(1), sequence)
    answers(client.ask("versions", row(10), sequence, START), row(10), sequence)
    answers(client.ask("versions", row(1), sequence, END, version=1), row(2), sequence)
    answers(client.ask("versions", row(10), sequence, END, version=2), row(20), sequence)


def test_ids_that_the_server_gives(client):
    model = f"counted_{client.protocol}"
    answers(client.ask(model, row(1), control=START), row(1), 1)
    answers(client.ask(model, row(1), 1, END), row(2), 1)
    # A free id is given again, but a used one is not.
    answers(client.ask(model, row(1), control=START), row(1), 1)
    answers(client.ask(model, row(1), 0, START), row(1), 2)
    answers(client.ask(model, row(1), 3, START), row(1), 3)
    answers(client.ask(model, row(1), control=START), row(1), 4)
    for each in (1, 2, 3, 4):
        answers(client.ask(model, row(1), each, END), row(2), each)


def test_there_is_a_limit(client):
    model = f"few_{client.protocol}"
    client.ask(model, row(1), 1, START)
    client.ask(model, row(1), 2, START)
    refused(FULL, client, model, row(1), 3, START)
    refused(FULL, client, model, row(1), control=START)
    # The limit is checked before everything else.
    refused(FULL, client, model, row(1), 2, START)
    answers(client.ask(model, row(1), 1), row(2), 1)
    refused(MISSING, client, model, row(1), 3)
    client.ask(model, row(1), 1, END)
    refused(EXISTS, client, model, row(1), 2, START)
    answers(client.ask(model, row(1), 3, START), row(1), 3)
    for each in (2, 3):
        client.ask(model, row(1), each, END)


def test_many_at_once(clients):
    rounds, width = 20, 12
    names = [next(_ids) for _ in range(width)]

    def play(place):
        client = clients[PROTOCOLS[place % 2]]
        for turn in range(1, rounds + 1):
            control = START if turn == 1 else END if turn == rounds else NONE
            y, told = client.ask("sum", row(place + 1), names[place], control)
            assert told == names[place]
            np.testing.assert_array_equal(y, row((place + 1) * turn))
        return True

    with concurrent.futures.ThreadPoolExecutor(width) as pool:
        assert all(pool.map(play, range(width)))


def test_requests_of_one_sequence_at_once(clients, sequence):
    """Concurrent requests of one sequence each add one, so the answers must form a sequence without gaps."""
    clients["grpc"].ask("sum", row(0), sequence, START)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(clients[PROTOCOLS[i % 2]].ask, "sum", row(1), sequence) for i in range(64)]
        sums = sorted(float(each.result()[0][0, 0]) for each in asked)
    assert sums == [float(i) for i in range(1, 65)]
    answers(clients["rest"].ask("sum", row(0), sequence, END), row(64), sequence)


def test_a_pipeline_over_a_stateful_model(client, sequence):
    answers(client.ask("pipeline", row(1), sequence, START), row(1), sequence)
    answers(client.ask("pipeline", row(2), header=str(sequence)), row(3), sequence)
    answers(client.ask("shared", row(3), sequence), row(6), sequence)
    refused(NO_ID, client, "pipeline", row(1))
    refused(BAD_CONTROL, client, "pipeline", row(1), sequence, 3)
    answers(client.ask("pipeline", row(4), sequence, END), row(10), sequence)
    where = " (pipeline 'pipeline', node 'node')"
    refused(dataclasses.replace(MISSING, text=MISSING.text + where), client, "pipeline", row(1), sequence)


# ---- refusals ----


def test_what_sequences_refuse(client, sequence):
    refused(MISSING, client, "sum", row(1), sequence)
    refused(MISSING, client, "sum", row(1), sequence, NONE)
    refused(MISSING, client, "sum", row(1), sequence, END)
    client.ask("sum", row(1), sequence, START)
    refused(EXISTS, client, "sum", row(1), sequence, START)
    answers(client.ask("sum", row(1), sequence, END), row(2), sequence)


def test_a_request_that_names_no_sequence(client):
    refused(NO_ID, client, "sum", row(1))
    refused(NO_ID, client, "sum", row(1), 0)
    refused(NO_ID, client, "sum", row(1), control=NONE)
    refused(NO_ID, client, "sum", row(1), control=END)
    refused(NO_ID, client, "sum", row(1), 0, END)
    refused(BAD_CONTROL, client, "sum", row(1), 0, 3)
    refused(BAD_CONTROL, client, "sum", row(1), 5, 2**32 - 1)


def start_while_it_ends(client, sequence):
    """Returns the error of a start while the sequence ends; None if the end was over first."""
    client.ask("slow", row(1), sequence, START)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        end = pool.submit(client.ask, "slow", row(1), sequence, END)
        while True:
            try:
                client.ask("slow", row(1), sequence, START)
            except RefusedError as error:
                if error.text == EXISTS.text:
                    continue
                answers(end.result(), row(2), sequence)
                return error
            end.result()
            client.ask("slow", row(1), sequence, END)
            return None


def test_a_start_while_the_last_request_runs(client, sequence):
    # The end takes hundreds of milliseconds and a refusal one, so the first attempt usually succeeds.
    error = next(filter(None, (start_while_it_ends(client, sequence) for _ in range(20))), None)
    assert error is not None
    assert error.text == TERMINATED.text
    assert error.code == (TERMINATED.grpc if client.protocol == "grpc" else TERMINATED.rest)
    refused(MISSING, client, "slow", row(1), sequence)


GRPC_FORMS = [
    (dict(sequence_id=number("UINT64", (), uint64_val=[1])), NO_SHAPE),
    (dict(sequence_id=number("UINT64", (1, 1), uint64_val=[1])), ID_RANK),
    (dict(sequence_id=number("UINT64", (2,), uint64_val=[1, 2])), ID_SHAPE),
    (dict(sequence_id=number("UINT64", (0,))), ID_SHAPE),
    (dict(sequence_id=number("UINT64")), ID_TYPE),
    (dict(sequence_id=number("UINT64", uint64_val=[1, 2])), ID_TYPE),
    (dict(sequence_id=number("UINT64", tensor_content=bytes(8))), ID_TYPE),
    (dict(sequence_id=number("UINT64", int64_val=[1])), ID_TYPE),
    (dict(sequence_id=number("UINT32", uint32_val=[1])), ID_TYPE),
    (dict(sequence_control_input=number("UINT32", (), uint32_val=[1])), NO_SHAPE),
    (dict(sequence_control_input=number("UINT32", (1, 1), uint32_val=[1])), CONTROL_RANK),
    (dict(sequence_control_input=number("UINT32", (2,), uint32_val=[1, 2])), CONTROL_SHAPE),
    (dict(sequence_control_input=number("UINT32")), CONTROL_TYPE),
    (dict(sequence_control_input=number("UINT32", tensor_content=bytes(4))), CONTROL_TYPE),
    (dict(sequence_control_input=number("UINT32", int_val=[1])), CONTROL_TYPE),
    (dict(sequence_control_input=number("UINT64", uint64_val=[1])), CONTROL_TYPE),
    # The server checks the id first, then the control, then its value, then everything else.
    (
        dict(
            sequence_id=number("UINT64", (2,), uint64_val=[1, 2]),
            sequence_control_input=number("UINT32", (), uint32_val=[1]),
        ),
        ID_SHAPE,
    ),
    (
        dict(sequence_id=number("UINT64", uint64_val=[0]), sequence_control_input=number("UINT32", (), uint32_val=[3])),
        NO_SHAPE,
    ),
    (
        dict(
            unknown=number("UINT64", uint64_val=[0]),
            sequence_control_input=number("UINT32", uint32_val=[3]),
        ),
        BAD_CONTROL.text,
    ),
    (dict(unknown=number("UINT64", uint64_val=[0])), NO_ID.text),
]


@pytest.mark.parametrize(("protos", "text"), GRPC_FORMS)
def test_forms_over_grpc(clients, protos, text):
    client = clients["grpc"]
    with pytest.raises(RefusedError) as error:
        client.send(client.request("sum", row(1), **protos))
    assert (error.value.code, error.value.text) == (grpc.StatusCode.INVALID_ARGUMENT, text)


def test_the_dtype_is_not_looked_at(clients, sequence):
    client = clients["grpc"]
    named = number("FLOAT", uint64_val=[sequence])
    start = number("STRING", uint32_val=[START])
    client.send(client.request("sum", row(1), sequence_id=named, sequence_control_input=start))
    answers(client.ask("sum", row(1), sequence, END), row(2), sequence)


def no_number(what, name):
    return f"Could not parse {what} content. Not valid ndarray detected - expected a non-negative integer; input name: {name}"


REST_FORMS = [
    *[(value, no_number("input", "{}")) for value in (["1"], [1.5], [1.0], [-1], [[1]], [None], [True], "1", -1, None)],
    ([1, 2], "Invalid input shape - Required shape for {} is: (1)"),
    ([], "Invalid input shape - Required shape for {} is: (1)"),
    (1, NO_SHAPE),
]


@pytest.mark.parametrize("name", ["sequence_id", "sequence_control_input"])
@pytest.mark.parametrize(("value", "text"), REST_FORMS)
def test_forms_over_rest(clients, name, value, text):
    inputs = {"x": row(1).tolist(), "sequence_id": [1], name: value}
    with pytest.raises(RefusedError) as error:
        clients["rest"].send("sum", {"inputs": inputs})
    assert (error.value.code, error.value.text) == (400, text.format(name))


def test_a_request_that_fails_its_checks_leaves_the_sequence_alone(client, sequence):
    wide = np.ones((1, SIZE + 1), np.float32)
    text = f"Invalid input shape - Expected: (1,{SIZE}); Actual: (1,{SIZE + 1}); input name: x"
    refused(invalid(text), client, "sum", wide, sequence, START)
    refused(MISSING, client, "sum", row(1), sequence)
    client.ask("sum", row(1), sequence, START)
    refused(invalid(text), client, "sum", wide, sequence)
    refused(invalid(text), client, "sum", wide, sequence, END)
    refused(BAD_CONTROL, client, "sum", row(1), sequence, 3)
    answers(client.ask("sum", row(1), sequence, END), row(2), sequence)


def test_the_inputs_of_the_sequence_are_counted(clients, sequence):
    client = clients["grpc"]
    named = number("UINT64", uint64_val=[sequence])
    start = number("UINT32", uint32_val=[START])
    more = number("FLOAT", float_val=[1])
    for protos, counts in [
        (dict(sequence_id=named), "Expected: 2; Actual: 3"),
        (dict(sequence_id=named, sequence_control_input=start), "Expected: 3; Actual: 4"),
        (dict(sequence_control_input=start), "Expected: 2; Actual: 3"),
    ]:
        with pytest.raises(RefusedError) as error:
            client.send(client.request("sum", row(1), more=more, **protos))
        assert error.value.text == f"Invalid number of inputs - {counts}"
        values = {"sequence_id": [sequence], "sequence_control_input": [START]}
        inputs = {"x": row(1).tolist(), "more": [1], **{name: values[name] for name in protos}}
        with pytest.raises(RefusedError) as error:
            clients["rest"].send("sum", {"inputs": inputs})
        assert error.value.text == f"Invalid number of inputs - {counts}"
    with pytest.raises(RefusedError) as error:
        clients["rest"].send("sum", {"inputs": {"sequence_id": [sequence], "y": [1]}})
    assert error.value.text == "Missing input with specific name - Required input: x"


def test_other_models_know_no_sequences(client):
    refused(invalid("Invalid number of inputs - Expected: 1; Actual: 2"), client, "stateless", row(1), 1)
    refused(invalid("Invalid number of inputs - Expected: 1; Actual: 3"), client, "stateless", row(1), 1, START)


# ---- the header ----


def test_a_header_names_the_sequence(client, sequence):
    header = str(sequence)
    answers(client.ask("sum", row(1), control=START, header=header), row(1), sequence)
    answers(client.ask("sum", row(1), header=header), row(2), sequence)
    answers(client.ask("sum", row(1), sequence, header=header), row(3), sequence)
    text = f"the request names two sequences: '{sequence}' by its header braid-sequence-id and '7' by its body"
    refused(invalid(text), client, "sum", row(1), 7, header=header)
    answers(client.ask("sum", row(1), 0, END, header=header), row(4), sequence)
    refused(MISSING, client, "sum", row(1), header=header)
    refused(NO_ID, client, "sum", row(1), header="0")


# ---- features of one protocol ----


def test_rows(clients, sequence):
    client = clients["rest"]
    x = [1.0] * SIZE
    body = {"instances": [{"x": x, "sequence_id": sequence, "sequence_control_input": START}]}
    assert client.send("sum", body) == {"predictions": [{"y": x, "sequence_id": sequence}]}
    body = {"instances": [{"x": x, "sequence_id": sequence}]}
    assert client.send("sum", body) == {"predictions": [{"y": [2.0] * SIZE, "sequence_id": sequence}]}
    # Without a name, for the model's only input.
    assert client.send("sum", {"instances": [x]}, str(sequence))["predictions"][0]["y"] == [3.0] * SIZE
    for wrong, text in [
        ({"sequence_id": [sequence]}, ID_RANK),
        ({"sequence_id": sequence, "sequence_control_input": [END]}, CONTROL_RANK),
        ({"sequence_id": "1"}, no_number("instance", "sequence_id")),
        ({"sequence_id": sequence, "sequence_control_input": 0.5}, no_number("instance", "sequence_control_input")),
    ]:
        with pytest.raises(RefusedError) as error:
            client.send("sum", {"instances": [{"x": x, **wrong}]})
        assert (error.value.code, error.value.text) == (400, text)
    two = [{"x": x, "sequence_id": sequence}, {"x": x, "sequence_id": sequence + 1}]
    with pytest.raises(RefusedError) as error:
        client.send("sum", {"instances": two})
    assert error.value.code == 400
    assert error.value.text == (
        f"all instances of a request must have the same sequence_id: it is {sequence} in the first "
        f"and {sequence + 1} in instance 2"
    )
    two[1]["sequence_id"] = sequence
    with pytest.raises(RefusedError) as error:
        client.send("sum", {"instances": two})
    assert error.value.text == "Invalid input batch size - Expected: 1; Actual: 2; input name: x"
    body["instances"][0]["sequence_control_input"] = END
    assert client.send("sum", body) == {"predictions": [{"y": [4.0] * SIZE, "sequence_id": sequence}]}


@pytest.mark.parametrize("model", ["sum", "pipeline"])
def test_a_filter_keeps_the_sequence(clients, model, sequence):
    client = clients["grpc"]
    named = number("UINT64", uint64_val=[sequence])
    start = number("UINT32", uint32_val=[START])
    request = client.request(model, row(1), sequence_id=named, sequence_control_input=start)
    request.output_filter.append("sequence_id")
    answer = client.send(request)
    assert list(answer.outputs) == ["sequence_id"]
    assert list(answer.outputs["sequence_id"].uint64_val) == [sequence]
    request = client.request(model, row(1), sequence_id=named)
    request.output_filter.append("y")
    assert set(client.send(request).outputs) == {"y", "sequence_id"}
    request.output_filter.append("z")
    with pytest.raises(RefusedError, match=f"unexpected inference output 'z' for model '{model}'"):
        client.send(request)
    answers(client.ask(model, row(1), sequence, END), row(3), sequence)


def test_metadata_knows_nothing_of_sequences(server):
    for make, address in ((ovmsclient.make_grpc_client, server.grpc), (ovmsclient.make_http_client, server.http)):
        metadata = make(address).get_model_metadata("sum")
        assert metadata["inputs"] == {"x": {"shape": [1, SIZE], "dtype": "DT_FLOAT"}}
        assert metadata["outputs"] == {"y": {"shape": [1, SIZE], "dtype": "DT_FLOAT"}}


def test_the_http_client_of_ovms(server, sequence):
    client = ovmsclient.make_http_client(server.http)
    inputs = {"x": row(1), "sequence_id": [sequence], "sequence_control_input": [START]}
    for expected, control in ((1, START), (2, NONE), (3, END)):
        inputs["sequence_control_input"] = [control]
        result = client.predict(inputs, "sum")
        np.testing.assert_array_equal(result["y"], row(expected))
        assert result["sequence_id"].tolist() == [sequence]
