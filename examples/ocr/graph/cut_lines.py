"""Converts a page and the map of its text to pictures of its lines, and their places."""

import numpy as np
import reading
from pyovms import Tensor


class OvmsPythonModel:
    def execute(self, inputs):
        # In the order of the tags.
        found, page = np.array(inputs[0]), np.array(inputs[1])
        boxes, lines = reading.find(page, found)
        if len(boxes) == 0:
            raise ValueError("there is no text in the picture")
        return [Tensor("lines", lines), Tensor("boxes", boxes.astype(np.float32))]
