"""Sends six requests to batched at the same time, and prints the size of the batch in which each ran."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)


def scale(number):
    # One client per thread: a client sends one request after the other.
    client = module.InferenceServerClient(url)
    values = np.full((1, 3), number, dtype=np.float32)
    result = client.infer("batched", [as_input(module, "VALUES", values, "FP32")])
    return values[0], result.as_numpy("SCALED")[0], result.as_numpy("BATCH_SIZE")[0, 0]


with ThreadPoolExecutor(6) as pool:
    for values, scaled, batch_size in pool.map(scale, range(6)):
        print(f"{values} -> {scaled}, in a batch of {batch_size}")
