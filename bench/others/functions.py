"""The work of every server of bench/run-others, as functions of arrays."""

import numpy as np

TOKENS = 100
MAX_BATCH = 32
MAX_DELAY_S = 0.0005


def add_sub(a, b):
    """Returns the sum and the difference of two arrays of one shape."""
    return a + b, a - b


def tokens():
    """Yields TOKENS strings."""
    for index in range(TOKENS):
        yield f"token {index} "


class Network:
    """Three layers of 16, 1024, 1024 and 16 numbers. A batch of 32 rows takes a few times as long as one row."""

    def __init__(self):
        random = np.random.default_rng(7)
        self._layers = [
            random.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0]))
            for shape in ((16, 1024), (1024, 1024), (1024, 16))
        ]

    def __call__(self, rows):
        """Returns [N, 16] FP32 of [N, 16] FP32."""
        for layer in self._layers:
            rows = np.maximum(rows @ layer, 0)
        return rows
