"""Adds one to every element of its input."""

import numpy as np
from pyovms import Tensor


class OvmsPythonModel:
    def initialize(self, kwargs):
        # The name of a tensor selects its output stream.
        self.output = kwargs["output_names"][0]

    def execute(self, inputs):
        return [Tensor(self.output, np.array(inputs[0]) + 1)]
