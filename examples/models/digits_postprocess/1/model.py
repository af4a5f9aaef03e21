"""Returns the likeliest digit as a text, and its probability."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            logits = pb_utils.get_input_tensor_by_name(request, "LOGITS").as_numpy()
            likely = np.exp(logits - logits.max(axis=1, keepdims=True))
            likely /= likely.sum(axis=1, keepdims=True)
            best = likely.argmax(axis=1)
            digits = np.array([[str(digit).encode()] for digit in best], dtype=np.object_)
            confidence = likely[np.arange(len(best)), best, None]
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("DIGIT", digits), pb_utils.Tensor("CONFIDENCE", confidence)]
                )
            )
        return responses
