"""Sequences of stateful models over KServe: gRPC, its streams, HTTP in binary and in JSON, and generate.

Also the header that names the sequence of a request, for these and for Triton's models with sequences.
"""

import itertools
import json
import queue
import socket
import struct
import threading

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from harness import openvino_models as models
from harness.ovms import OvmsServer
from harness.repository import config, per_request
from harness.stateful_models import lstm_answers, lstm_model, running_sum_model, stateful_entry
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

NONE, START, END = 0, 1, 2
SIZE = 4
HEADER = "braid-sequence-id"
INVALID = ("StatusCode.INVALID_ARGUMENT", 400)

MISSING = (("StatusCode.NOT_FOUND", 404), "Sequence with provided ID does not exist")
EXISTS = (("StatusCode.ALREADY_EXISTS", 409), "Sequence with provided ID already exists")
TERMINATED = (
    ("StatusCode.FAILED_PRECONDITION", 412),
    "Sequence last request is being processed and it's not available anymore",
)
FULL = (
    ("StatusCode.UNAVAILABLE", 503),
    "Max sequence number has been reached. Could not create new sequence.",
)
NO_ID = (INVALID, "Sequence ID has not been provided in request inputs")
BAD_CONTROL = (INVALID, "Unexpected value of sequence control input")
ID_TYPE = (INVALID, "Could not find sequence id in expected tensor proto field uint64_val")
CONTROL_TYPE = (INVALID, "Could not find sequence control input in expected tensor proto field uint32_val")
NO_SHAPE = (INVALID, "Special input proto does not contain tensor shape information")
ID_RANK = (INVALID, "Invalid number of shape dimensions - Required shape for sequence_id is: (1)")
ID_SHAPE = (INVALID, "Invalid input shape - Required shape for sequence_id is: (1)")
CONTROL_SHAPE = (INVALID, "Invalid input shape - Required shape for sequence_control_input is: (1)")


def header_error(header, body):
    return (INVALID, f"the request names two sequences: '{header}' by its header {HEADER} and '{body}' by its body")


class RefusedError(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class Tensor:
    """An input as sent; properties of the array can be overridden."""

    def __init__(self, name, array, datatype, shape=None):
        self.name = name
        self.array = array
        self.datatype = datatype
        self.shape = list(array.shape) if shape is None else list(shape)


def naming(sequence, control):
    made = []
    if sequence is not None:
        made.append(Tensor("sequence_id", np.array([sequence], np.uint64), "UINT64"))
    if control is not None:
        made.append(Tensor("sequence_control_input", np.array([control], np.uint32), "UINT32"))
    return made


class Caller:
    """ask() of each protocol returns (y, sequence_id) of the response, or raises RefusedError."""

    def ask(self, model, x, sequence=None, control=None, *, header=None, parameters=None, inputs=None, outputs=()):
        tensors = [Tensor("x", x, "FP32"), *(naming(sequence, control) if inputs is None else inputs)]
        return self.send(model, tensors, {HEADER: str(header)} if header is not None else {}, parameters or {}, outputs)

    def refuses(self, fault, *args, **more):
        """Asserts that the request is refused with the code and the whole text of the fault."""
        with pytest.raises(RefusedError) as error:
            self.ask(*args, **more)
        (grpc_code, http_code), text = fault
        assert error.value.text == text
        assert error.value.code == (grpc_code if self.over_grpc else str(http_code))


class TritonCaller(Caller):
    """tritonclient, which sends bytes on both protocols."""

    def __init__(self, server, protocol):
        self.over_grpc = protocol == "grpc"
        self.module = tritonclient.grpc if self.over_grpc else tritonclient.http
        self.client = self.module.InferenceServerClient(server.grpc if self.over_grpc else server.http)
        self.close = self.client.close

    def input(self, tensor):
        made = self.module.InferInput(tensor.name, list(tensor.array.shape), tensor.datatype)
        made.set_data_from_numpy(tensor.array)
        made.set_shape(tensor.shape)
        return made

    def send(self, model, tensors, headers, parameters, outputs):
        wanted = [self.module.InferRequestedOutput(name) for name in outputs] or None
        try:
            result = self.client.infer(
                model, [self.input(each) for each in tensors], outputs=wanted, headers=headers, **parameters
            )
        except InferenceServerException as error:
            raise RefusedError(error.status(), error.message()) from None
        return answer_of(result)


def answer_of(result):
    told = result.as_numpy("sequence_id")
    assert told.dtype == np.uint64
    assert told.shape == (1,)
    return result.as_numpy("y"), int(told[0])


class TypedCaller(Caller):
    """gRPC with typed contents."""

    over_grpc = True
    FIELDS = {
        "FP32": "fp32_contents",
        "UINT64": "uint64_contents",
        "UINT32": "uint_contents",
        "INT64": "int64_contents",
    }

    def __init__(self, server):
        self.channel = grpc.insecure_channel(server.grpc)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.close = self.channel.close

    def request(self, model, tensors, parameters, outputs=()):
        request = service_pb2.ModelInferRequest(model_name=model)
        for tensor in tensors:
            made = request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            getattr(made.contents, self.FIELDS[tensor.datatype]).extend(tensor.array.reshape(-1).tolist())
        for name, value in parameters.items():
            if isinstance(value, bool):
                request.parameters[name].bool_param = value
            elif isinstance(value, int):
                request.parameters[name].int64_param = value
            else:
                request.parameters[name].string_param = value
        for name in outputs:
            request.outputs.add(name=name)
        return request

    def send(self, model, tensors, headers, parameters, outputs):
        try:
            response = self.stub.ModelInfer(
                self.request(model, tensors, parameters, outputs), metadata=list(headers.items()), timeout=60
            )
        except grpc.RpcError as error:
            raise RefusedError(str(error.code()), error.details()) from None
        return answer_of(tritonclient.grpc.InferResult(response))


class JsonCaller(Caller):
    """HTTP with everything in JSON."""

    over_grpc = False

    def __init__(self, server):
        self.server = server

    def close(self):
        pass

    def body(self, tensors, parameters, outputs=()):
        body = {
            "inputs": [
                {
                    "name": each.name,
                    "datatype": each.datatype,
                    "shape": each.shape,
                    "data": each.array.reshape(-1).tolist(),
                }
                for each in tensors
            ]
        }
        if parameters:
            body["parameters"] = parameters
        if outputs:
            body["outputs"] = [{"name": name} for name in outputs]
        return body

    def send(self, model, tensors, headers, parameters, outputs):
        body = json.dumps(self.body(tensors, parameters, outputs)).encode()
        status, _, answer = self.server.request("POST", f"/v2/models/{model}/infer", body, headers)
        answer = json.loads(answer)
        if status != 200:
            raise RefusedError(str(status), answer["error"])
        found = {each["name"]: each for each in answer["outputs"]}
        told = found["sequence_id"]
        assert (told["datatype"], told["shape"]) == ("UINT64", [1])
        y = found.get("y")
        return y and np.array(y["data"], np.float32).reshape(y["shape"]), told["data"][0]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stateful")
    entries = [
        stateful_entry("sum", running_sum_model(SIZE), folder),
        stateful_entry("lstm", lstm_model(), folder, low_latency_transformation=True),
        stateful_entry("few", running_sum_model(SIZE), folder, max_sequence_number=2),
        stateful_entry("auto", running_sum_model(SIZE), folder),
        stateful_entry("slow", running_sum_model(SIZE, products=100), folder),
        stateful_entry("shared", running_sum_model(SIZE), folder, allow_in_pipelines=True),
        models.entry("stateless", models.save(models.scale((1, SIZE)), folder / "stateless")),
    ]
    node = {
        "name": "node",
        "type": "DL model",
        "model_name": "shared",
        "inputs": [{"x": {"node_name": "request", "data_item": "x"}}],
        "outputs": [{"data_item": "y", "alias": "y"}],
    }
    outputs = [{"y": {"node_name": "node", "data_item": "y"}}]
    pipeline = {"name": "pipeline", "inputs": ["x"], "nodes": [node], "outputs": outputs}
    served = {"model_config_list": entries, "pipeline_config_list": [pipeline]}
    with OvmsServer(served, "--metrics_enable", workdir=folder) as server:
        yield server


CALLERS = {
    "grpc": lambda server: TritonCaller(server, "grpc"),
    "typed": TypedCaller,
    "http": lambda server: TritonCaller(server, "http"),
    "json": JsonCaller,
}


@pytest.fixture(params=list(CALLERS))
def caller(request, server):
    made = CALLERS[request.param](server)
    yield made
    made.close()


@pytest.fixture
def callers(server):
    made = {name: make(server) for name, make in CALLERS.items()}
    yield made
    for each in made.values():
        each.close()


@pytest.fixture
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


_ids = itertools.count(1000)


@pytest.fixture
def sequence():
    return next(_ids)


def row(*values):
    """Returns [1,SIZE] with these values first."""
    made = np.zeros((1, SIZE), np.float32)
    made[0, : len(values)] = values
    return made


def answers(answer, y, sequence):
    np.testing.assert_array_equal(answer[0], y)
    assert answer[1] == sequence


# ---- lifetime of a sequence --------------------------------------------------------------------------


def test_from_start_to_end(caller, sequence):
    answers(caller.ask("sum", row(1, 2), sequence, START), row(1, 2), sequence)
    answers(caller.ask("sum", row(10), sequence), row(11, 2), sequence)
    answers(caller.ask("sum", row(100), sequence, NONE), row(111, 2), sequence)
    answers(caller.ask("sum", row(1000), sequence, END), row(1111, 2), sequence)
    caller.refuses(MISSING, "sum", row(1), sequence)
    answers(caller.ask("sum", row(5), sequence, START), row(5), sequence)
    answers(caller.ask("sum", row(5), sequence, END), row(10), sequence)


def test_the_largest_id(caller):
    most = 2**64 - 1
    answers(caller.ask("sum", row(1), most, START), row(1), most)
    answers(caller.ask("sum", row(2), header=most), row(3), most)
    answers(caller.ask("sum", row(1), most, END), row(4), most)


def test_one_sequence_over_all_protocols(callers, sequence):
    answers(callers["grpc"].ask("sum", row(1), sequence, START), row(1), sequence)
    answers(callers["json"].ask("sum", row(2), sequence), row(3), sequence)
    answers(callers["typed"].ask("sum", row(3), sequence), row(6), sequence)
    answers(callers["http"].ask("sum", row(4), sequence, END), row(10), sequence)
    for caller in callers.values():
        caller.refuses(MISSING, "sum", row(1), sequence, END)


def test_an_lstm(caller, sequence):
    rng = np.random.default_rng(3)
    rows = [rng.standard_normal((1, 1, 3)).astype(np.float32) for _ in range(5)]
    for x, control, expected in zip(rows, [START, NONE, NONE, NONE, END], lstm_answers(rows), strict=True):
        y, told = caller.ask("lstm", x, sequence, control)
        np.testing.assert_allclose(y, expected, atol=1e-5)
        assert told == sequence


def test_the_server_names_a_sequence(caller):
    one = caller.ask("auto", row(1), None, START)[1]
    answers(caller.ask("auto", row(1), one, END), row(2), one)
    # Free ids are given again; used ones are skipped.
    assert caller.ask("auto", row(1), None, START)[1] == one
    two = caller.ask("auto", row(10), 0, START)[1]
    assert two == one + 1
    answers(caller.ask("auto", row(2), one, END), row(3), one)
    answers(caller.ask("auto", row(20), two, END), row(30), two)


def test_no_more_than_there_may_be(caller, sequence):
    caller.ask("few", row(1), sequence, START)
    caller.ask("few", row(1), sequence + 1_000_000, START)
    caller.refuses(FULL, "few", row(1), next(_ids), START)
    caller.refuses(FULL, "few", row(1), None, START)
    # The server checks the limit before it looks for the sequence.
    caller.refuses(FULL, "few", row(1), sequence, START)
    answers(caller.ask("few", row(1), sequence, END), row(2), sequence)
    answers(caller.ask("few", row(5), sequence, START), row(5), sequence)
    caller.ask("few", row(1), sequence, END)
    caller.ask("few", row(1), sequence + 1_000_000, END)


def test_faults_of_the_sequence(caller, sequence):
    caller.refuses(MISSING, "sum", row(1), sequence)
    caller.refuses(MISSING, "sum", row(1), sequence, END)
    caller.refuses(MISSING, "sum", row(1), header=sequence)
    caller.ask("sum", row(1), sequence, START)
    caller.refuses(EXISTS, "sum", row(1), sequence, START)
    caller.refuses(NO_ID, "sum", row(1))
    caller.refuses(NO_ID, "sum", row(1), 0)
    caller.refuses(NO_ID, "sum", row(1), None, END)
    caller.refuses(NO_ID, "sum", row(1), 0, NONE)
    caller.refuses(BAD_CONTROL, "sum", row(1), sequence, 3)
    caller.refuses(BAD_CONTROL, "sum", row(1), 0, 2**32 - 1)
    # None of the refusals has changed it.
    answers(caller.ask("sum", row(1), sequence, END), row(2), sequence)


# ---- invalid inputs ----------------------------------------------------------------------------------


def fine(name):
    return naming(7, None)[0] if name == "sequence_id" else naming(None, START)[0]


@pytest.mark.parametrize(
    ("tensor", "fault"),
    [
        (Tensor("sequence_id", np.array([7], np.uint64), "UINT64", [1, 1]), ID_RANK),
        (Tensor("sequence_id", np.array([7], np.uint64), "UINT64", []), NO_SHAPE),
        (Tensor("sequence_id", np.array([7, 8], np.uint64), "UINT64"), ID_SHAPE),
        (Tensor("sequence_id", np.array([7], np.int64), "INT64"), ID_TYPE),
        (Tensor("sequence_id", np.array([7], np.uint32), "UINT32"), ID_TYPE),
        (Tensor("sequence_id", np.array([7, 8], np.uint64), "UINT64", [1]), ID_TYPE),
        (Tensor("sequence_control_input", np.array([1, 1], np.uint32), "UINT32"), CONTROL_SHAPE),
        (Tensor("sequence_control_input", np.array([1], np.uint64), "UINT64"), CONTROL_TYPE),
        (Tensor("sequence_control_input", np.array([1], np.float32), "FP32"), CONTROL_TYPE),
    ],
)
def test_faults_of_the_inputs(caller, tensor, fault):
    other = fine("sequence_control_input" if tensor.name == "sequence_id" else "sequence_id")
    # These faults are reported before those of the model's own inputs.
    caller.refuses(fault, "sum", np.zeros((1, 9), np.float32), inputs=[other, tensor])


def test_a_request_that_is_wrong_leaves_the_sequence_alone(caller, sequence):
    wrong = np.ones((1, 9), np.float32)
    shape = "Invalid input shape - Expected: (1,4); Actual: (1,9); input name: x"
    caller.refuses((INVALID, shape), "sum", wrong, sequence, START)
    caller.refuses(MISSING, "sum", row(1), sequence)
    caller.ask("sum", row(1), sequence, START)
    for control in (None, END):
        caller.refuses((INVALID, shape), "sum", wrong, sequence, control)
    extra = [*naming(sequence, END), Tensor("more", np.zeros(1, np.float32), "FP32")]
    count = "Invalid number of inputs - Expected: 3; Actual: 4"
    caller.refuses((INVALID, count), "sum", row(1), inputs=extra)
    twice = [*naming(sequence, END), *naming(sequence, None)]
    caller.refuses((INVALID, "Unexpected input - sequence_id is given more than once"), "sum", row(1), inputs=twice)
    answers(caller.ask("sum", row(1), sequence, END), row(2), sequence)


def test_stateless_models_have_no_such_inputs(caller, sequence):
    caller.refuses((INVALID, "Invalid number of inputs - Expected: 1; Actual: 2"), "stateless", row(1), sequence)


def test_raw_contents_that_nobody_can_tell_apart(stub, sequence):
    def refused(text):
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelInfer(request)
        assert (error.value.code(), error.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, text)

    structure = (
        "Passing buffers both in ModelInferRequest::InferInputTensor::contents and in "
        "ModelInferRequest::raw_input_contents is not allowed - "
    )
    request = service_pb2.ModelInferRequest(model_name="sum")
    request.inputs.add(name="x", datatype="FP32", shape=[1, SIZE])
    request.inputs.add(name="sequence_id", datatype="UINT64", shape=[1])
    request.raw_input_contents.append(row(1).tobytes())
    refused(structure + "Size of raw_input_contents: 1 is different than number of inputs: 2")
    request.inputs[1].contents.uint64_contents.append(sequence)
    request.raw_input_contents.append(struct.pack("<Q", sequence))
    refused(
        structure + "Passing buffers both in InferInputTensor contents and in raw_input_contents is not allowed. "
        "Detected buffer in InferInputTensor contents for input: sequence_id"
    )
    request.inputs[1].contents.Clear()
    request.inputs[1].ClearField("contents")
    request.raw_input_contents[1] = b"1234567"
    refused(ID_TYPE[1])


# ---- parameters and the header -----------------------------------------------------------------------


def test_parameters(caller, sequence):
    more = {"sequence_id": sequence}
    answers(caller.ask("sum", row(1), parameters={**more, "sequence_start": True}), row(1), sequence)
    answers(caller.ask("sum", row(2), parameters=more), row(3), sequence)
    # As in inputs.
    answers(caller.ask("sum", row(3), sequence, NONE, parameters=more), row(6), sequence)
    disagree = f"the request names two sequences: '7' by its inputs and '{sequence}' by its parameters"
    caller.refuses((INVALID, disagree), "sum", row(1), 7, parameters=more)
    disagree = "sequence_control_input contradicts the parameters sequence_start and sequence_end"
    caller.refuses((INVALID, disagree), "sum", row(1), None, START, parameters={**more, "sequence_end": True})
    answers(caller.ask("sum", row(4), parameters={**more, "sequence_end": True}), row(10), sequence)
    # A single request can be a whole sequence.
    both = {**more, "sequence_start": True, "sequence_end": True}
    answers(caller.ask("sum", row(4), parameters=both), row(4), sequence)
    caller.refuses(MISSING, "sum", row(1), parameters=more)
    text = "a sequence of a stateful model needs a numeric id, not 'name'"
    caller.refuses((INVALID, text), "sum", row(1), parameters={"sequence_id": "name"})


def test_the_header(caller, sequence):
    answers(caller.ask("sum", row(1), None, START, header=sequence), row(1), sequence)
    answers(caller.ask("sum", row(2), header=sequence), row(3), sequence)
    answers(caller.ask("sum", row(3), sequence, header=sequence), row(6), sequence)
    caller.refuses(header_error(7, sequence), "sum", row(1), sequence, header=7)
    more = {"sequence_id": sequence}
    caller.refuses(header_error(7, sequence), "sum", row(1), parameters=more, header=7)
    answers(caller.ask("sum", row(4), parameters=more, header=sequence), row(10), sequence)
    caller.refuses(NO_ID, "sum", row(1), header=0)
    text = "a sequence of a stateful model needs a numeric id, not 'seven'"
    caller.refuses((INVALID, text), "sum", row(1), header="seven")
    answers(caller.ask("sum", row(5), None, END, header=sequence), row(15), sequence)


def test_a_pipeline_has_sequences_as_its_models_have(caller, sequence):
    answers(caller.ask("pipeline", row(1), sequence, START), row(1), sequence)
    answers(caller.ask("pipeline", row(2), header=sequence), row(3), sequence)
    answers(caller.ask("pipeline", row(3), parameters={"sequence_id": sequence}), row(6), sequence)
    # The model behind it is the same.
    answers(caller.ask("shared", row(4), sequence), row(10), sequence)
    caller.refuses(header_error(7, sequence), "pipeline", row(1), sequence, header=7)
    caller.refuses(NO_ID, "pipeline", row(1))
    caller.refuses(ID_TYPE, "pipeline", row(1), inputs=[Tensor("sequence_id", np.array([7], np.int64), "INT64")])
    answers(caller.ask("pipeline", row(5), sequence, outputs=["y"]), row(15), sequence)
    answers(caller.ask("pipeline", row(6), None, END, header=sequence), row(21), sequence)
    caller.refuses(MISSING, "shared", row(1), sequence)


# ---- responses ---------------------------------------------------------------------------------------


def test_outputs_that_are_asked_for(caller, sequence):
    answers(caller.ask("sum", row(1), sequence, START, outputs=["y"]), row(1), sequence)
    answers(caller.ask("sum", row(2), sequence, outputs=["sequence_id", "y"]), row(3), sequence)
    y, told = caller.ask("sum", row(3), sequence, outputs=["sequence_id"])
    assert (y, told) == (None, sequence)
    answers(caller.ask("sum", row(4), sequence, END, outputs=["y"]), row(10), sequence)
    text = "requested output 'z' is not an output of 'sum'"
    caller.refuses((INVALID, text), "sum", row(1), sequence, START, outputs=["z"])
    caller.refuses(MISSING, "sum", row(1), sequence)


def test_binary_and_json_outputs(server, sequence):
    body = {
        "parameters": {"sequence_id": sequence, "sequence_start": True, "sequence_end": True},
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, SIZE], "data": [1, 0, 0, 0]}],
        "outputs": [{"name": "y"}, {"name": "sequence_id", "parameters": {"binary_data": True}}],
    }
    status, headers, answer = server.request("POST", "/v2/models/sum/infer", json.dumps(body).encode())
    assert status == 200, answer
    size = int(dict((k.lower(), v) for k, v in dict(headers).items())["inference-header-content-length"])
    told = json.loads(answer[:size])["outputs"][1]
    assert told == {
        "name": "sequence_id",
        "datatype": "UINT64",
        "shape": [1],
        "parameters": {"binary_data_size": 8},
    }
    assert answer[size:] == struct.pack("<Q", sequence)


def test_metadata_knows_nothing_of_it(server, stub):
    status, metadata = server.json("GET", "/v2/models/sum")
    assert status == 200
    assert [each["name"] for each in metadata["inputs"]] == ["x"]
    assert [each["name"] for each in metadata["outputs"]] == ["y"]
    metadata = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="sum"))
    assert [each.name for each in metadata.inputs] == ["x"]
    assert [each.name for each in metadata.outputs] == ["y"]


def test_generate(server, sequence):
    def generate(headers=None, **members):
        body = json.dumps({"x": [1, 0, 0, 0], **members}).encode()
        status, _, answer = server.request("POST", "/v2/models/sum/generate", body, headers or {})
        return status, json.loads(answer)

    def told(y):
        return 200, {"model_name": "sum", "model_version": "1", "y": [y, 0, 0, 0], "sequence_id": sequence}

    assert generate(sequence_id=sequence, sequence_start=True) == told(1)
    assert generate(sequence_id=sequence) == told(2)
    assert generate(headers={HEADER: str(sequence)}) == told(3)
    assert generate() == (400, {"error": NO_ID[1]})
    assert generate(sequence_id=sequence, sequence_control_input=START) == (409, {"error": EXISTS[1]})
    assert generate(sequence_id=sequence, sequence_control_input=[END]) == told(4)
    assert generate(sequence_id=sequence) == (404, {"error": MISSING[1]})


# ---- streams -----------------------------------------------------------------------------------------


class Stream:
    """A stream of tritonclient; answers arrive as (request id, y, sequence id), faults as (request id, text)."""

    def __init__(self, server, headers=None):
        self.client = tritonclient.grpc.InferenceServerClient(server.grpc)
        self.results = queue.Queue()
        self.client.start_stream(lambda result, error: self.results.put((result, error)), headers=headers)
        self.numbers = itertools.count()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()

    def send(self, model, x, sequence=None, control=None, **parameters):
        inputs = []
        for tensor in [Tensor("x", x, "FP32"), *naming(sequence, control)]:
            made = tritonclient.grpc.InferInput(tensor.name, tensor.shape, tensor.datatype)
            made.set_data_from_numpy(tensor.array)
            inputs.append(made)
        self.client.async_stream_infer(model, inputs, request_id=str(next(self.numbers)), **parameters)

    def next(self):
        result, error = self.results.get(timeout=60)
        if error is not None:
            return error.message()
        return (result.as_numpy("y")[0, 0], int(result.as_numpy("sequence_id")[0]))


def test_a_stream(server, sequence):
    with Stream(server) as stream:
        stream.send("sum", row(1), sequence, START)
        for _ in range(98):
            # The client waits for no answer, so the stream decides the order.
            stream.send("sum", row(1), sequence)
        stream.send("sum", row(1), sequence, END)
        assert [stream.next() for _ in range(100)] == [(i, sequence) for i in range(1, 101)]
        stream.send("sum", row(7), sequence_id=sequence, sequence_start=True)
        stream.send("sum", row(7), sequence_id=sequence, sequence_end=True)
        assert [stream.next() for _ in range(2)] == [(7, sequence), (14, sequence)]


def test_sequences_of_one_stream(server):
    ids = [next(_ids) for _ in range(20)]
    with Stream(server) as stream:
        for i in range(10):
            for each in ids:
                stream.send("sum", row(each), each, {0: START, 9: END}.get(i))
        for i in range(10):
            for each in ids:
                assert stream.next() == (each * (i + 1), each)


def test_many_streams_at_once(server):
    def run(result):
        sequence = next(_ids)
        with Stream(server) as stream:
            for i in range(50):
                stream.send("sum", row(1), sequence, {0: START, 49: END}.get(i))
            result.append([stream.next() for _ in range(50)] == [(i, sequence) for i in range(1, 51)])

    results = [[] for _ in range(8)]
    threads = [threading.Thread(target=run, args=(result,)) for result in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [[True]] * 8


def test_metadata_of_a_stream_names_all_of_it(server, sequence):
    with Stream(server, headers={HEADER: str(sequence)}) as stream:
        stream.send("sum", row(1), None, START)
        stream.send("sum", row(2))
        stream.send("sum", row(3), sequence)
        stream.send("sum", row(4), 7)
        stream.send("sum", row(5), None, END)
        told = [stream.next() for _ in range(5)]
    assert told == [(1, sequence), (3, sequence), (6, sequence), header_error(sequence, 7)[1], (11, sequence)]


def test_faults_in_a_stream(server, stub, sequence):
    """Faults arrive as messages with the id of their request; the stream continues."""
    typed = TypedCaller(server)
    requests = [
        typed.request("sum", [Tensor("x", row(1), "FP32"), *naming(*names)], {})
        for names in [
            (sequence, None),
            (None, None),
            (sequence, 3),
            (sequence, START),
            (sequence, START),
            (sequence, END),
            (sequence, END),
        ]
    ]
    typed.close()
    for i, request in enumerate(requests):
        request.id = f"request {i}"
    told = [(each.infer_response.id, each.error_message) for each in stub.ModelStreamInfer(iter(requests), timeout=60)]
    texts = [MISSING[1], NO_ID[1], BAD_CONTROL[1], "", EXISTS[1], "", MISSING[1]]
    assert told == [(f"request {i}", text) for i, text in enumerate(texts)]


def test_a_start_while_the_last_request_runs(server, stub, sequence):
    """A slow end and a start directly after it run in order, so the start finds the sequence ending."""
    typed = TypedCaller(server)
    started = typed.request("slow", [Tensor("x", row(1), "FP32"), *naming(sequence, START)], {})
    end = typed.request("slow", [Tensor("x", row(1), "FP32"), *naming(sequence, END)], {})

    def try_once():
        told = [each.error_message for each in stub.ModelStreamInfer(iter([started, end, started]), timeout=60)]
        if told[2] == "":
            assert stub.ModelInfer(end, timeout=60).outputs
        assert told[:2] == ["", ""]
        return told[2]

    # Otherwise the server would take longer to read a message than to run the model.
    assert next(filter(None, (try_once() for _ in range(20))), None) == TERMINATED[1]
    code = None
    for _ in range(20):
        stub.ModelInfer(started, timeout=60)
        ending = stub.ModelInfer.future(end, timeout=60)
        while code is None and not ending.done():
            try:
                stub.ModelInfer(started, timeout=60)
            except grpc.RpcError as error:
                if error.details() != EXISTS[1]:
                    code = (str(error.code()), error.details())
            else:
                stub.ModelInfer(end, timeout=60)
                break
        ending.result()
        if code is not None:
            break
    assert code == (TERMINATED[0][0], TERMINATED[1])
    typed.close()


def test_pipelined_requests_of_one_connection(server, sequence):
    """Requests that arrive on one HTTP connection without waiting run in order."""
    host, port = server.http.split(":")
    caller = JsonCaller(server)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        sent = b""
        for i in range(20):
            control = {0: START, 19: END}.get(i)
            body = json.dumps(caller.body([Tensor("x", row(1), "FP32"), *naming(sequence, control)], {})).encode()
            sent += b"POST /v2/models/sum/infer HTTP/1.1\r\nHost: localhost\r\n"
            sent += b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
        connection.sendall(sent)
        with connection.makefile("rb") as answers_read:
            for i in range(20):
                assert answers_read.readline().split()[1] == b"200"
                length = 0
                while line := answers_read.readline().strip():
                    name, _, value = line.partition(b":")
                    if name.lower() == b"content-length":
                        length = int(value)
                outputs = json.loads(answers_read.read(length))["outputs"]
                assert outputs[0]["data"] == [i + 1, 0, 0, 0]


def test_async_requests(server, sequence):
    client = tritonclient.http.InferenceServerClient(server.http, concurrency=4)
    sequences = [next(_ids) for _ in range(4)]

    def ask(each, control):
        inputs = []
        for tensor in [Tensor("x", row(each), "FP32"), *naming(each, control)]:
            made = tritonclient.http.InferInput(tensor.name, tensor.shape, tensor.datatype)
            made.set_data_from_numpy(tensor.array)
            inputs.append(made)
        return client.async_infer("sum", inputs)

    for i, control in enumerate([START, NONE, END]):
        pending = [ask(each, control) for each in sequences]
        for each, result in zip(sequences, pending, strict=True):
            answers(answer_of(result.get_result()), row(each * (i + 1)), each)
    client.close()


# ---- Triton's models with sequences ------------------------------------------------------------------

SUM = per_request("""
    if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
        self.__dict__.setdefault("sums", {})[request.correlation_id()] = 0
    self.sums[request.correlation_id()] += int(get(request, "IN").reshape(-1)[0])
    total = np.array([[self.sums[request.correlation_id()]]], dtype=np.int32)
    return respond(OUT=total, ID=np.array([[repr(request.correlation_id())]], dtype=object))
""")


def with_sequences(id_type):
    batching = f"""
      sequence_batching {{
        max_sequence_idle_microseconds: 60000000
        control_input [ {{ name: "ID_INPUT" control [ {{ kind: CONTROL_SEQUENCE_CORRID data_type: {id_type} }} ] }} ]
      }}
    """
    outputs = [("OUT", "INT32", [1]), ("ID", "STRING", [1])]
    return config(None, [("IN", "INT32", [1])], outputs, max_batch_size=4, extra=batching)


@pytest.fixture(scope="module")
def triton(module_repository, module_serve):
    module_repository.add("numbers", SUM, with_sequences("TYPE_UINT64"))
    module_repository.add("texts", SUM, with_sequences("TYPE_STRING"))
    return module_serve(module_repository)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize(("model", "name", "shown"), [("numbers", "12", "12"), ("texts", "13", "'13'")])
def test_the_header_for_models_with_sequence_batching(triton, connect, protocol, model, name, shown):
    client = connect(protocol, triton)

    def ask(**more):
        result = client.infer(model, {"IN": np.array([[5]], np.int32)}, **more)
        return int(result.as_numpy("OUT")[0, 0]), result.as_numpy("ID")[0, 0].decode()

    own = int(name) if model == "numbers" else name
    header = {HEADER: name}
    assert ask(sequence_id=own, sequence_start=True, headers=header) == (5, shown)
    assert ask(headers=header) == (10, shown)
    assert ask(sequence_id=own) == (15, shown)
    with client.fails("INVALID_ARG", text=header_error(99, name)[1]):
        ask(sequence_id=own, headers={HEADER: "99"})
    assert ask(sequence_id=own, sequence_end=True, headers=header) == (20, shown)
