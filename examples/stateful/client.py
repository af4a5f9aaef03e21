#!/usr/bin/env python3
"""Sends two sequences to a stateful model, turn by turn, and prints the responses.

client.py [--api kserve-grpc|kserve-rest|tfs-grpc|tfs-rest] [--grpc HOST:PORT] [--rest HOST:PORT] [--model lstm]

The first request of a sequence has START, the last one END. Both sequences start without an id: the server chooses one, and
returns it in each response.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request

import numpy as np

NO_CONTROL, START, END = 0, 1, 2
SHAPES = {"running_sum": (1, 4), "lstm": (1, 1, 8)}


class KserveClient:
    """Uses tritonclient's arguments sequence_id, sequence_start and sequence_end.

    They are sent only together with an id. To get an id from the server, the sequence is started by an input.
    """

    def __init__(self, module, address):
        self.module = module
        self.client = module.InferenceServerClient(address)

    def tensor(self, name, array, datatype):
        tensor = self.module.InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array)
        return tensor

    def step(self, model, x, sequence, control):
        inputs = [self.tensor("x", x, "FP32")]
        if sequence == 0:
            inputs.append(self.tensor("sequence_control_input", np.array([control], np.uint32), "UINT32"))
        answer = self.client.infer(
            model, inputs, sequence_id=sequence, sequence_start=control == START, sequence_end=control == END
        )
        return answer.as_numpy("y"), int(answer.as_numpy("sequence_id")[0])


def kserve_grpc(arguments):
    import tritonclient.grpc

    return KserveClient(tritonclient.grpc, arguments.grpc)


def kserve_rest(arguments):
    import tritonclient.http

    return KserveClient(tritonclient.http, arguments.rest)


class TfsGrpcClient:
    """Uses the inputs sequence_id (DT_UINT64) and sequence_control_input (DT_UINT32), each [1] with its value in its field.

    ovmsclient writes values to tensor_content, which servers of this API do not read for these two. Therefore this client
    uses the messages directly.
    """

    def __init__(self, arguments):
        import grpc
        from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import prediction_service_pb2_grpc

        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(arguments.grpc))

    def step(self, model, x, sequence, control):
        from ovmsclient.tfs_compat.protos.tensorflow.core.framework.tensor_pb2 import TensorProto
        from ovmsclient.tfs_compat.protos.tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
        from ovmsclient.tfs_compat.protos.tensorflow.core.framework.types_pb2 import DT_FLOAT, DT_UINT32, DT_UINT64
        from ovmsclient.tfs_compat.protos.tensorflow_serving.apis import predict_pb2

        def shape(*sizes):
            return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])

        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        request.inputs["x"].CopyFrom(
            TensorProto(dtype=DT_FLOAT, tensor_shape=shape(*x.shape), tensor_content=x.tobytes())
        )
        request.inputs["sequence_control_input"].CopyFrom(
            TensorProto(dtype=DT_UINT32, tensor_shape=shape(1), uint32_val=[control])
        )
        if sequence:
            request.inputs["sequence_id"].CopyFrom(
                TensorProto(dtype=DT_UINT64, tensor_shape=shape(1), uint64_val=[sequence])
            )
        outputs = self.stub.Predict(request, 30).outputs
        y = outputs["y"]
        sizes = [dim.size for dim in y.tensor_shape.dim]
        return np.frombuffer(y.tensor_content, np.float32).reshape(sizes), outputs["sequence_id"].uint64_val[0]


class TfsRestClient:
    """Uses the same two inputs in JSON."""

    def __init__(self, arguments):
        self.address = arguments.rest

    def step(self, model, x, sequence, control):
        inputs = {"x": x.tolist(), "sequence_control_input": [control]}
        if sequence:
            inputs["sequence_id"] = [sequence]
        url = f"http://{self.address}/v1/models/{model}:predict"
        body = json.dumps({"signature_name": "serving_default", "inputs": inputs}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as reply:
            outputs = json.load(reply)["outputs"]
        return np.array(outputs["y"], np.float32), outputs["sequence_id"][0]


APIS = {"kserve-grpc": kserve_grpc, "kserve-rest": kserve_rest, "tfs-grpc": TfsGrpcClient, "tfs-rest": TfsRestClient}


def inputs_of(model, sequence, steps):
    """Returns the inputs of a sequence, [steps, ...]; the same in each run."""
    rng = np.random.default_rng(sequence)
    return rng.integers(-5, 6, (steps, *SHAPES[model])).astype(np.float32)


def run(client, model, steps=4):
    """Sends two sequences, turn by turn. Returns their ids and responses, one list for each."""
    ids = [0, 0]
    answers = [[], []]
    for step in range(steps):
        control = START if step == 0 else END if step == steps - 1 else NO_CONTROL
        for which in range(2):
            x = inputs_of(model, which, steps)[step]
            y, ids[which] = client.step(model, x, ids[which], control)
            answers[which].append(y)
    return ids, answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", choices=APIS, default="kserve-grpc")
    parser.add_argument("--grpc", default="127.0.0.1:9000")
    parser.add_argument("--rest", default="127.0.0.1:8000")
    parser.add_argument("--model", choices=SHAPES, default="running_sum")
    arguments = parser.parse_args()
    try:
        ids, answers = run(APIS[arguments.api](arguments), arguments.model)
    except urllib.error.HTTPError as error:
        sys.exit(f"client: {error}: {error.read().decode(errors='replace')}")
    for sequence, steps in zip(ids, answers, strict=True):
        print(f"sequence {sequence}")
        for y in steps:
            print("  " + " ".join(f"{value:.6g}" for value in y.ravel()))


if __name__ == "__main__":
    main()
