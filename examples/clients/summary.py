"""Sends numbers to summary and prints their mean and standard deviation."""

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
print("the model describes itself:", client.get_model_metadata("summary"))
values = np.array([1, 2, 3, 4, 5], dtype=np.float64)
result = client.infer("summary", [as_input(module, "VALUES", values, "FP64")])
print(f"mean {result.as_numpy('MEAN')[0]:.3f}, deviation {result.as_numpy('DEVIATION')[0]:.3f}")
