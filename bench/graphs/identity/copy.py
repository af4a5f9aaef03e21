"""Sends on a copy of its input, as a node that computes something would."""

import numpy as np
from pyovms import Tensor


class OvmsPythonModel:
    def initialize(self, kwargs):
        self.output = kwargs["output_names"][0]

    def execute(self, inputs):
        return [Tensor(self.output, np.array(inputs[0]))]
