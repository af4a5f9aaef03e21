"""A generator: sends the input back `repeat` times (a parameter of the stream, 1000 by default)."""

import numpy as np
from pyovms import Tensor


class OvmsPythonModel:
    def execute(self, inputs, session):
        x = np.array(inputs[0])
        for _ in range(int(session.parameters.get("repeat", 1000))):
            yield [Tensor("output0", x)]
