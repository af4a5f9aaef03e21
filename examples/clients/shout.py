"""Sends texts to shout and prints them in upper case, with their lengths."""

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
texts = ["braid", "größer", "naïve"]
array = np.array([text.encode("utf-8") for text in texts], dtype=np.object_)
result = client.infer("shout", [as_input(module, "TEXT", array, "BYTES")])
for text, shouted, length in zip(texts, result.as_numpy("SHOUTED"), result.as_numpy("LENGTHS"), strict=True):
    print(f"{text} -> {shouted.decode('utf-8')} ({length} characters)")
