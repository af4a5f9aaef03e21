"""Sends texts to custom_metrics, which counts their words; `curl -s localhost:8002/metrics | grep words_total` shows the count."""

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
texts = ["to be or not to be", "that is the question"]
array = np.array([text.encode("utf-8") for text in texts], dtype=np.object_)
result = client.infer("custom_metrics", [as_input(module, "TEXT", array, "BYTES")])
for text, words in zip(texts, result.as_numpy("WORDS"), strict=True):
    print(f"{text}: {words} words")
