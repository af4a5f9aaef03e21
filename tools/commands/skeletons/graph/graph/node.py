"""Makes a text upper-case."""

import struct

from pyovms import Tensor


class OvmsPythonModel:
    def execute(self, inputs):
        # A BYTES tensor: for each text its length in four bytes, and its bytes.
        text = bytes(inputs[0])[4:].decode().upper().encode()
        return [Tensor("loud", struct.pack("<I", len(text)) + text, shape=[1], datatype="BYTES")]
