"""The mean of all values of a sequence so far. The server keeps the state; the model keeps none."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()[0, 0]
            count, total = pb_utils.get_input_tensor_by_name(request, "SEEN").as_numpy()[0]
            seen = np.array([[count + 1, total + value]])
            mean = seen[:, 1:] / seen[:, :1]
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("MEAN", mean), pb_utils.Tensor("SEEN_NOW", seen)])
            )
        return responses
