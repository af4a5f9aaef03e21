"""Thousands of requests drawn from a seed, over four APIs, checked against a short Python model of the rules of
sequences.

The server is reloaded and restarted on the way. With a folder for the states, clients must not notice it.
"""

import json
import random

import grpc
import numpy as np
import pytest
from harness.ovms import OvmsServer
from harness.stateful_models import running_sum_model, stateful_entry
from ovmsclient.tfs_compat.protos.tensorflow.core.framework import tensor_pb2, types_pb2
from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

NONE, START, END, BOTH = 0, 1, 2, 3
LIMIT = 4
IDS = [None, 0, 1, 2, 3, 5, 8, 2**64 - 1]
SIZE = 2

MISSING = "Sequence with provided ID does not exist"
EXISTS = "Sequence with provided ID already exists"
FULL = "Max sequence number has been reached. Could not create new sequence."
NO_ID = "Sequence ID has not been provided in request inputs"
BAD_CONTROL = "Unexpected value of sequence control input"
BAD_SHAPE = "Invalid input shape - Expected: (1,2); Actual: (1,3); input name: x"
# {text: (code over gRPC, code over REST)}
CODES = {
    MISSING: ("NOT_FOUND", 404),
    EXISTS: ("ALREADY_EXISTS", 409),
    FULL: ("UNAVAILABLE", 503),
    NO_ID: ("INVALID_ARGUMENT", 400),
    BAD_CONTROL: ("INVALID_ARGUMENT", 400),
    BAD_SHAPE: ("INVALID_ARGUMENT", 400),
}


class Rules:
    """The expected answers of a summing model: (sums, id), or the text of a refusal."""

    def __init__(self):
        self.sums = {}
        self.next_id = 1

    def restart(self):
        """A new version restarts its id counter, and keeps the sequences."""
        self.next_id = 1

    def ask(self, x, sequence, control):
        if control not in (None, NONE, START, END):
            return BAD_CONTROL
        if not sequence and control != START:
            return NO_ID
        if len(x) != SIZE:
            return BAD_SHAPE
        if control == START:
            if len(self.sums) == LIMIT:
                return FULL
            if not sequence:
                while self.next_id in self.sums:
                    self.next_id += 1
                sequence = self.next_id
            if sequence in self.sums:
                return EXISTS
            self.sums[sequence] = [0.0] * SIZE
        if sequence not in self.sums:
            return MISSING
        self.sums[sequence] = [a + b for a, b in zip(self.sums[sequence], x, strict=True)]
        answer = (self.sums[sequence], sequence)
        if control == END:
            del self.sums[sequence]
        return answer


class RefusedError(Exception):
    """Its arguments: the code and the text."""


class TfsGrpc:
    place = 0

    def __init__(self, server):
        self.channel = grpc.insecure_channel(server.grpc)
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)

    def ask(self, x, sequence, control):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "sum"

        def add(name, kind, **values):
            request.inputs[name].CopyFrom(tensor_pb2.TensorProto(dtype=kind, **values))
            for size in (1, len(x)) if name == "x" else (1,):
                request.inputs[name].tensor_shape.dim.add(size=size)

        add("x", types_pb2.DT_FLOAT, float_val=x)
        if sequence is not None:
            add("sequence_id", types_pb2.DT_UINT64, uint64_val=[sequence])
        if control is not None:
            add("sequence_control_input", types_pb2.DT_UINT32, uint32_val=[control])
        try:
            outputs = self.stub.Predict(request, timeout=60).outputs
        except grpc.RpcError as error:
            raise RefusedError(error.code().name, error.details()) from None
        return np.frombuffer(outputs["y"].tensor_content, np.float32).tolist(), outputs["sequence_id"].uint64_val[0]


class TfsRest:
    place = 1

    def __init__(self, server):
        self.server = server

    def ask(self, x, sequence, control):
        inputs = {"x": [x]}
        if sequence is not None:
            inputs["sequence_id"] = [sequence]
        if control is not None:
            inputs["sequence_control_input"] = [control]
        status, answer = self.server.json("POST", "/v1/models/sum:predict", {"inputs": inputs})
        if status != 200:
            raise RefusedError(status, answer["error"])
        return answer["outputs"]["y"][0], answer["outputs"]["sequence_id"][0]


class KserveGrpc:
    place = 0

    def __init__(self, server):
        self.channel = grpc.insecure_channel(server.grpc)
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)

    def ask(self, x, sequence, control):
        request = service_pb2.ModelInferRequest(model_name="sum")
        request.inputs.add(name="x", datatype="FP32", shape=[1, len(x)]).contents.fp32_contents.extend(x)
        if sequence is not None:
            request.inputs.add(name="sequence_id", datatype="UINT64", shape=[1]).contents.uint64_contents.append(
                sequence
            )
        if control is not None:
            made = request.inputs.add(name="sequence_control_input", datatype="UINT32", shape=[1])
            made.contents.uint_contents.append(control)
        try:
            response = self.stub.ModelInfer(request, timeout=60)
        except grpc.RpcError as error:
            raise RefusedError(error.code().name, error.details()) from None
        kinds = {"y": np.float32, "sequence_id": np.uint64}
        found = {
            output.name: np.frombuffer(raw, kinds[output.name]).tolist()
            for output, raw in zip(response.outputs, response.raw_output_contents, strict=True)
        }
        return found["y"], found["sequence_id"][0]


class KserveRest:
    """Uses parameters instead of inputs if they can express the same."""

    place = 1

    def __init__(self, server):
        self.server = server

    def ask(self, x, sequence, control):
        inputs = [{"name": "x", "datatype": "FP32", "shape": [1, len(x)], "data": x}]
        parameters = {}
        if sequence:
            parameters["sequence_id"] = sequence
        if control in (START, END):
            parameters["sequence_start" if control == START else "sequence_end"] = True
        elif control is not None:
            inputs.append({"name": "sequence_control_input", "datatype": "UINT32", "shape": [1], "data": [control]})
        body = {"inputs": inputs, "parameters": parameters}
        status, answer = self.server.json("POST", "/v2/models/sum/infer", body)
        if status != 200:
            raise RefusedError(status, answer["error"])
        found = {output["name"]: output["data"] for output in answer["outputs"]}
        return found["y"], found["sequence_id"][0]


APIS = [TfsGrpc, TfsRest, KserveGrpc, KserveRest]


class Run:
    """One server, and its expected behaviour."""

    def __init__(self, folder, seed):
        self.folder = folder
        self.random = random.Random(seed)
        self.entry = stateful_entry("sum", running_sum_model(SIZE), folder / "models", max_sequence_number=LIMIT)
        self.rules = Rules()
        self.said = []  # the requests and answers since the last start
        self.server = None
        self.start()

    def config(self):
        settings = {**self.entry["config"], "nireq": self.random.randrange(1, 5)}
        return {"model_config_list": [{"config": settings}]}

    def start(self):
        options = ["--sequence_state_path", self.folder / "states", "--file_system_poll_wait_seconds", 0]
        self.server = OvmsServer(self.config(), *options, workdir=self.folder)
        self.apis = [api(self.server) for api in APIS]
        self.rules.restart()
        self.said.clear()

    def restart(self):
        self.stop()
        self.start()

    def stop(self):
        for api in self.apis:
            if hasattr(api, "channel"):
                api.channel.close()
        self.server.stop()

    def reload(self):
        before = json.loads(self.server.config_path.read_text())
        config = self.config()
        self.server.write_config(config)
        status, answer = self.server.reload()
        assert status == (200 if config == before else 201), answer
        if config != before:
            self.rules.restart()

    def step(self):
        x = [float(self.random.randrange(100)) for _ in range(SIZE + (self.random.random() < 0.05))]
        control = self.random.choices([None, NONE, START, END, BOTH, 2**32 - 1], [30, 30, 20, 15, 2, 2])[0]
        sequence = self.random.choice(IDS)
        api = self.random.choice(self.apis)
        expected = self.rules.ask(x, sequence, control)
        self.said.append((type(api).__name__, x, sequence, control, expected))
        try:
            answer = api.ask(x, sequence, control)
        except RefusedError as refusal:
            answer = refusal.args
        if isinstance(expected, str):
            expected = (CODES[expected][api.place], expected)
        assert tuple(answer) == tuple(expected), self.said[-8:]
        return expected


@pytest.mark.parametrize("seed", range(4))
def test_every_answer_is_the_one_that_the_rules_give(tmp_path, seed):
    run = Run(tmp_path, seed)
    seen = set()
    for _ in range(12):
        for _ in range(100):
            answer = run.step()
            seen.add(answer[1] if isinstance(answer[1], str) else "good")
        run.random.choice([run.reload, run.reload, run.restart])()
    run.stop()
    assert seen == {"good", *CODES}
