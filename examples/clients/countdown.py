"""Sends requests that take 10, 20 and 30 runs to countdown at the same time."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from connection import as_input, parse_arguments

module, url = parse_arguments(__doc__)


def count(number):
    # One client per thread: a client sends one request after the other.
    client = module.InferenceServerClient(url)
    result = client.infer("countdown", [as_input(module, "FROM", np.array([[number]], dtype=np.int32), "INT32")])
    return number, result.as_numpy("RUNS")[0, 0], result.as_numpy("COMPANY")[0, 0]


with ThreadPoolExecutor(3) as pool:
    for number, runs, company in pool.map(count, [10, 20, 30]):
        print(f"from {number}: {runs} runs, {company} requests in the largest batch")
