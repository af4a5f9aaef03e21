"""Computes the sum of the numbers and the count of the words, of those inputs that are present."""

import numpy as np
from pyovms import Tensor


class OvmsPythonModel:
    def execute(self, inputs):
        outputs = []
        for tensor in inputs:
            if tensor.name == "numbers":
                outputs.append(Tensor("total", np.sum(tensor, dtype=np.float64, keepdims=True)))
            elif tensor.name == "words":
                # A string is a length (four bytes, little-endian) and the text.
                text = bytes(tensor)[4:].decode()
                outputs.append(Tensor("count", np.array([len(text.split())], np.int64)))
        return outputs
