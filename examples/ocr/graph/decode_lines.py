"""Converts the recognized characters to texts, one on each line."""

import numpy as np
import reading
from pyovms import Tensor


class OvmsPythonModel:
    def initialize(self, kwargs):
        self.characters = reading.characters(kwargs["base_path"])

    def execute(self, inputs):
        return [Tensor("texts", "\n".join(reading.decode(np.array(inputs[0]), self.characters)).encode())]
