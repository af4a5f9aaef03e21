"""Sends numbers to gathered, which calls add_sub for all of them at once, and prints the results."""

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
numbers = np.arange(1, 6, dtype=np.float32)
result = client.infer("gathered", [as_input(module, "NUMBERS", numbers, "FP32")])
print(f"{numbers} doubled: {result.as_numpy('SUMS')}")
