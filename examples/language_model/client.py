#!/usr/bin/env python3
"""Asks the model `writer` to continue a text, and prints each token as it arrives.

client.py [--api grpc|rest] [--grpc HOST:PORT] [--rest HOST:PORT] [--temperature T] [--seed N] [PROMPT]
"""

import argparse
import http.client
import json
import queue

import numpy as np


def tokens_grpc(address, inputs):
    """Uses ModelStreamInfer, with Triton's client."""
    import tritonclient.grpc

    answers = queue.SimpleQueue()
    tensors = []
    for name, (value, datatype) in inputs.items():
        tensors.append(tritonclient.grpc.InferInput(name, [1], datatype))
        array = np.array(
            [value], {"BYTES": np.object_, "INT32": np.int32, "INT64": np.int64, "FP32": np.float32}[datatype]
        )
        tensors[-1].set_data_from_numpy(array)
    with tritonclient.grpc.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("writer", tensors, enable_empty_final_response=True)
        while True:
            result, error = answers.get(timeout=60)
            if error is not None:
                raise error
            if result.get_response().outputs:
                yield result.as_numpy("TOKEN")[0].decode()
            if result.get_response().parameters["triton_final_response"].bool_param:
                return


def tokens_rest(address, inputs):
    """Uses generate_stream, whose response has a line "data: {json}" for each token."""
    connection = http.client.HTTPConnection(address, timeout=60)
    body = json.dumps({name: value for name, (value, _) in inputs.items()})
    connection.request("POST", "/v2/models/writer/generate_stream", body)
    for line in connection.getresponse():
        if line.startswith(b"data: "):
            event = json.loads(line.removeprefix(b"data: "))
            if "error" in event:
                raise RuntimeError(event["error"])
            yield event["TOKEN"]
    connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", choices=["grpc", "rest"], default="grpc")
    parser.add_argument("--grpc", default="localhost:8001")
    parser.add_argument("--rest", default="localhost:8000")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("prompt", nargs="?", default="A braid")
    arguments = parser.parse_args()
    inputs = {
        "PROMPT": (arguments.prompt, "BYTES"),
        "TEMPERATURE": (arguments.temperature, "FP32"),
        "SEED": (arguments.seed, "INT64"),
    }
    read, address = {"grpc": (tokens_grpc, arguments.grpc), "rest": (tokens_rest, arguments.rest)}[arguments.api]
    print(arguments.prompt, end="", flush=True)
    for token in read(address, inputs):
        print(token, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
