"""Sends two sequences to running_sum, in turns, and prints their sums."""

import os

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)

# An id is a number or a text; no other client may use it at the same time.
up, down = f"up-{os.getpid()}", f"down-{os.getpid()}"
values = [1, 2, 3, 4]
for i, value in enumerate(values):
    sums = []
    for sequence, sign in ((up, 1), (down, -1)):
        result = client.infer(
            "running_sum",
            [as_input(module, "VALUE", np.array([[sign * value]], dtype=np.int32), "INT32")],
            sequence_id=sequence,
            sequence_start=i == 0,
            sequence_end=i == len(values) - 1,
        )
        sums.append(result.as_numpy("SUM")[0, 0])
    print(f"after {value}: {sums[0]} and {sums[1]}")
