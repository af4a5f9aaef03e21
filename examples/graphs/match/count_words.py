"""Converts texts to counts of each known word [texts, words]."""

import pathlib

import numpy as np
from pyovms import Tensor


def strings(tensor):
    """Yields the strings of a tensor: each is a length (four bytes, little-endian) and a text."""
    data, found, at = bytes(tensor), [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        found.append(data[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return found


class OvmsPythonModel:
    def initialize(self, kwargs):
        self.words = (pathlib.Path(kwargs["base_path"]) / "words.txt").read_text(encoding="utf-8").split()

    def execute(self, inputs):
        texts = [text.lower().split() for text in strings(inputs[0])]
        counts = [[text.count(word) for word in self.words] for text in texts]
        return [Tensor("counts", np.array(counts, np.float32))]
