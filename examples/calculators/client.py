"""Streams numbers to the graph `smooth` and prints their averages.

client.py [--grpc localhost:9178] [--count 8]
"""

import argparse
import queue

import numpy as np
import tritonclient.grpc as grpcclient

TIMEOUT_SECONDS = 60


def smooth(client, tensors):
    """The averages after each of the tensors (float32 arrays of one shape), over one stream."""
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    try:
        for tensor in tensors:
            tensor_in = grpcclient.InferInput("in", list(tensor.shape), "FP32")
            tensor_in.set_data_from_numpy(tensor)
            client.async_stream_infer("smooth", [tensor_in])
        averages = []
        for _ in tensors:
            result, error = answers.get(timeout=TIMEOUT_SECONDS)
            if error is not None:
                raise error
            averages.append(result.as_numpy("out"))
        return averages
    finally:
        client.stop_stream()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grpc", default="localhost:9178")
    parser.add_argument("--count", type=int, default=8)
    arguments = parser.parse_args()
    tensors = [np.array([i, i % 2], np.float32) for i in range(arguments.count)]
    with grpcclient.InferenceServerClient(arguments.grpc) as client:
        for tensor, average in zip(tensors, smooth(client, tensors), strict=True):
            print(tensor, "->", average)


if __name__ == "__main__":
    main()
