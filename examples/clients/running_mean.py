"""Sends a sequence to running_mean and prints the mean after each value."""

import os

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)

values = [2.0, 4.0, 9.0]
for i, value in enumerate(values):
    result = client.infer(
        "running_mean",
        [as_input(module, "VALUE", np.array([[value]]), "FP64")],
        sequence_id=os.getpid(),
        sequence_start=i == 0,
        sequence_end=i == len(values) - 1,
    )
    print(f"mean of {i + 1}: {result.as_numpy('MEAN')[0, 0]:g}")
