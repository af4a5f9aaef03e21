"""Sends nine requests to instance_kind at the same time, and prints which instances answered them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)


def ask(number):
    # One client per thread: a client sends one request after the other.
    client = module.InferenceServerClient(url)
    who = np.array([f"request {number}".encode()], dtype=np.object_)
    return client.infer("instance_kind", [as_input(module, "WHO", who, "BYTES")]).as_numpy("ANSWER")[0].decode()


with ThreadPoolExecutor(9) as pool:
    for answer in pool.map(ask, range(9)):
        print(answer)
