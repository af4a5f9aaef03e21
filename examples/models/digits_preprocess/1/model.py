"""Converts image files (PNG or PGM/PPM) to the classifier's input: only the digit, 16 by 16, from 0 to 1."""

import numpy as np
import triton_python_backend_utils as pb_utils

from .images import decode, normalize


class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        files = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
        try:
            pixels = np.stack([normalize(decode(file)) for file in files[:, 0]])
        except ValueError as error:
            wrong = pb_utils.TritonError(f"IMAGE: {error}", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=wrong)
        return pb_utils.InferenceResponse([pb_utils.Tensor("PIXELS", pixels)])
