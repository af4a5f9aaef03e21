"""Sends two vectors to chained, which calls add_sub twice, and prints the results."""

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
a = np.array([1, 2, 3, 4], dtype=np.float32)
b = np.array([10, 20, 30, 40], dtype=np.float32)
result = client.infer("chained", [as_input(module, "INPUT0", a, "FP32"), as_input(module, "INPUT1", b, "FP32")])
print(f"({a} + {b}) * 2 = {result.as_numpy('OUTPUT')}")
