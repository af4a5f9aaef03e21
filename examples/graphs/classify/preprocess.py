"""Converts an image [height, width, 3] of bytes to the network's input [1, 3, 16, 16] from 0 to 1."""

import numpy as np
from pyovms import Tensor

SIDE = 16


class OvmsPythonModel:
    def execute(self, inputs):
        image = np.array(inputs[0])
        rows = np.arange(SIDE) * image.shape[0] // SIDE
        columns = np.arange(SIDE) * image.shape[1] // SIDE
        small = image[rows][:, columns].astype(np.float32) / 255
        return [Tensor("pixels", np.ascontiguousarray(small.transpose(2, 0, 1)[None]))]
