"""Sends ten requests to patient at the same time, and prints how many of them waited together on its one instance."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from connection import parse_arguments, stream

module, url = parse_arguments(__doc__)


def wait(_):
    (response,) = stream(module, url, "patient", {"SECONDS": (np.array([0.5], dtype=np.float32), "FP32")})
    return int(np.ravel(response["TOGETHER"])[0])


with ThreadPoolExecutor(10) as pool:
    print(f"{max(pool.map(wait, range(10)))} requests waited together")
