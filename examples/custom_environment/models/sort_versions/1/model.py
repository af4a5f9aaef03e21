"""Sorts version numbers as Python packages understand them, with a package from the model's own environment."""

import sys

import numpy as np
import triton_python_backend_utils as pb_utils
from packaging.version import InvalidVersion, Version


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        elements = pb_utils.get_input_tensor_by_name(request, "VERSIONS").as_numpy()
        try:
            versions = sorted(Version(element.decode()) for element in elements)
        except InvalidVersion as error:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), pb_utils.TritonError.INVALID_ARG))
        texts = np.array([str(version).encode() for version in versions], dtype=np.object_)
        where = np.array([sys.prefix.encode()], dtype=np.object_)
        return pb_utils.InferenceResponse([pb_utils.Tensor("SORTED", texts), pb_utils.Tensor("ENVIRONMENT", where)])
