#!/usr/bin/env python3
"""Calls the example graphs, by single requests (gRPC, REST) and over streams (gRPC).

client.py [GRAPH ...] [--grpc localhost:9000] [--rest localhost:8000]
"""

import argparse
import json
import queue
import urllib.request

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

TIMEOUT_SECONDS = 60


def inputs_of(module, tensors):
    """Makes InferInputs from numpy arrays by name; strings are arrays of objects."""
    inputs = []
    for name, array in tensors.items():
        datatype = "BYTES" if array.dtype == np.object_ else None
        given = module.InferInput(name, list(array.shape), datatype or datatype_of(array))
        given.set_data_from_numpy(array)
        inputs.append(given)
    return inputs


def datatype_of(array):
    kind = {"f": "FP", "i": "INT", "u": "UINT"}[array.dtype.kind]
    return f"{kind}{array.dtype.itemsize * 8}"


def text(string):
    return np.array([string.encode()], np.object_)


def plain(result, name):
    """Returns an output as an array, or as a string if a handler returned text as bytes."""
    array = result.as_numpy(name)
    return array.tobytes().decode() if array.dtype == np.uint8 else array


class Stream:
    """A stream to one graph, which is one run of the graph with its own node state."""

    def __init__(self, address, graph):
        self.client = grpcclient.InferenceServerClient(address)
        self.graph = graph
        self.answers = queue.Queue()
        self.client.start_stream(lambda result, error: self.answers.put((result, error)))

    def send(self, tensors, timestamp=None):
        parameters = None if timestamp is None else {"OVMS_MP_TIMESTAMP": timestamp}
        self.client.async_stream_infer(self.graph, inputs_of(grpcclient, tensors), parameters=parameters)

    def receive(self):
        """Returns the next packet: (name of its stream, value, timestamp)."""
        result, error = self.answers.get(timeout=TIMEOUT_SECONDS)
        if error is not None:
            raise error
        response = result.get_response()
        name = response.outputs[0].name
        return name, plain(result, name), response.parameters["OVMS_MP_TIMESTAMP"].int64_param

    def finish(self):
        """Closes the sending side, waits for the end, and returns the remaining packets."""
        self.client.stop_stream()
        self.client.close()
        packets = []
        while not self.answers.empty():
            packets.append(self.receive())
        return packets

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()


def infer_grpc(arguments, graph, tensors, output):
    with grpcclient.InferenceServerClient(arguments.grpc) as client:
        return plain(client.infer(graph, inputs_of(grpcclient, tensors)), output)


def infer_rest(arguments, graph, tensors, output):
    with httpclient.InferenceServerClient(arguments.rest) as client:
        return plain(client.infer(graph, inputs_of(httpclient, tensors)), output)


def increment(arguments):
    """Adds three, one by one."""
    numbers = {"number": np.array([1, 2.5], np.float32)}
    yield "gRPC", infer_grpc(arguments, "increment", numbers, "incremented")
    yield "REST", infer_rest(arguments, "increment", numbers, "incremented")
    with Stream(arguments.grpc, "increment") as stream:
        for value in range(3):
            stream.send({"number": np.array([value], np.float32)})
            yield "stream", stream.receive()


def partial(arguments):
    """Some inputs now, others later."""
    numbers = {"numbers": np.array([1, 2, 3], np.float32)}
    words = {"words": text("three strands make a braid")}
    with Stream(arguments.grpc, "partial") as stream:
        stream.send(numbers)
        yield "numbers alone", stream.receive()
        stream.send(words)
        yield "words alone", stream.receive()


def generate(arguments):
    """One prompt, many tokens."""
    with Stream(arguments.grpc, "generate") as stream:
        stream.send({"prompt": text("A braid")})
        yield "stream", "A braid " + " ".join(token for _, token, _ in stream.finish())


def counter(arguments):
    """Two independent streams."""
    with Stream(arguments.grpc, "counter") as first, Stream(arguments.grpc, "counter") as second:
        for value in (1, 2, 3):
            first.send({"number": np.array([value], np.int64)})
            second.send({"number": np.array([10 * value], np.int64)})
            yield "two streams", (first.receive()[1], second.receive()[1])
    yield "one request", infer_grpc(arguments, "counter", {"number": np.array([7], np.int64)}, "sum")


def classify(arguments):
    """An image, a label."""
    image = np.zeros((48, 64, 3), np.uint8)
    image[..., 1] = 200
    yield "gRPC", infer_grpc(arguments, "classify", {"image": image}, "label")
    yield "REST", infer_rest(arguments, "classify", {"image": image}, "label")
    with Stream(arguments.grpc, "classify") as stream:
        for channel in range(3):
            image = np.zeros((20, 30, 3), np.uint8)
            image[..., channel] = 255
            stream.send({"image": image})
            yield "stream", stream.receive()


def match(arguments):
    """One image, several texts."""
    image = np.zeros((1, 3, 16, 16), np.float32)
    image[0, 0] = image[0, 1] = 1  # yellow
    texts = np.array([b"a red braid", b"a yellow braid", b"blue and green strands"], np.object_)
    tensors = {"image": image, "texts": texts}
    yield "gRPC", infer_grpc(arguments, "match", tensors, "similarity")
    yield "REST", infer_rest(arguments, "match", tensors, "similarity")
    with Stream(arguments.grpc, "match") as stream:
        # The graph waits for both inputs of a timestamp, in any order.
        stream.send({"image": image}, timestamp=5)
        stream.send({"texts": texts}, timestamp=5)
        yield "stream", stream.receive()


def reply(arguments):
    """A chat by OpenAI's API, whole and as a stream."""
    for stream in (False, True):
        body = {
            "model": "reply",
            "messages": [{"role": "user", "content": "braid a make strands three"}],
            "stream": stream,
        }
        url = f"http://{arguments.rest}/v3/chat/completions"
        with urllib.request.urlopen(url, json.dumps(body).encode(), TIMEOUT_SECONDS) as answer:
            events = answer.read().decode().removeprefix("data: ").removesuffix("data: [DONE]\n\n").split("\n\ndata: ")
        choices = [json.loads(event)["choices"][0] for event in events]
        texts = [choice.get("delta", choice.get("message", {})).get("content", "") for choice in choices]
        yield "stream" if stream else "whole", "".join(texts)


GRAPHS = {each.__name__: each for each in (increment, partial, generate, counter, classify, match, reply)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"of {', '.join(GRAPHS)} (default: all)")
    parser.add_argument("--grpc", default="localhost:9000")
    parser.add_argument("--rest", default="localhost:8000")
    arguments = parser.parse_args()
    for name in arguments.graphs or GRAPHS:
        if name not in GRAPHS:
            parser.error(f"there is no graph '{name}', but {', '.join(GRAPHS)}")
        for how, answer in GRAPHS[name](arguments):
            print(f"{name} ({how}): {answer}")


if __name__ == "__main__":
    main()
