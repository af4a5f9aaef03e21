"""Asks collected for the numbers that the decoupled model countdown sends one by one."""

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
result = client.infer("collected", [as_input(module, "FROM", np.array([5], dtype=np.int32), "INT32")])
print("countdown sent", result.as_numpy("NUMBERS"))
