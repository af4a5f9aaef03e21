"""The sum of numbers, the count of words: of what is there."""

import numpy as np
from pyovms import Tensor


class OvmsPythonModel:
    def execute(self, inputs):
        outputs = []
        for tensor in inputs:
            if tensor.name == "numbers":
                outputs.append(Tensor("total", np.sum(tensor, dtype=np.float64, keepdims=True)))
            elif tensor.name == "words":
                # Strings come as a length (four bytes, little-endian) and the text.
                text = bytes(tensor)[4:].decode()
                outputs.append(Tensor("count", np.array([len(text.split())], np.int64)))
        return outputs
