"""Converts the network's probabilities to the name of the likeliest label."""

import pathlib

import numpy as np
from pyovms import Tensor


class OvmsPythonModel:
    def initialize(self, kwargs):
        self.labels = (pathlib.Path(kwargs["base_path"]) / "labels.txt").read_text(encoding="utf-8").split()

    def execute(self, inputs):
        return [Tensor("label", self.labels[int(np.argmax(inputs[0]))].encode())]
