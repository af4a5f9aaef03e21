"""Converts the bytes of an image file to a page."""

import reading
from pyovms import Tensor


class OvmsPythonModel:
    def execute(self, inputs):
        file = bytes(inputs[0])[4:]  # a string is its length, four bytes, and itself
        return [Tensor("page", reading.page(file))]
