"""Gets from collected all texts that the decoupled model repeat sends one by one."""

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
result = client.infer("collected", [as_input(module, "TIMES", np.array([4], dtype=np.int32), "INT32")])
texts = [text.decode() for text in result.as_numpy("TEXTS")]
print(f"repeat sent {len(texts)} times: {texts[0]}")
