"""Asks repeat to send a text back five times, and prints each response as it arrives."""

import numpy as np
from connection import parse_arguments, stream

module, url = parse_arguments(__doc__)

inputs = {
    "TEXT": (np.array(["hello"], dtype=np.object_), "BYTES"),
    "TIMES": (np.array([5], dtype=np.int32), "INT32"),
}
for response in stream(module, url, "repeat", inputs):
    text = response["TEXT"] if isinstance(response["TEXT"], str) else response["TEXT"][0].decode()
    print(f"{np.ravel(response['INDEX'])[0]}: {text}")
