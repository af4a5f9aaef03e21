"""Returns texts in upper case, and their lengths in characters. Texts arrive as bytes in an object array."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            elements = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            try:
                texts = [element.decode("utf-8") for element in elements]
            except UnicodeDecodeError as error:
                # Only this request fails; others of the batch get their responses.
                wrong = pb_utils.TritonError(f"TEXT is not UTF-8: {error}", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(error=wrong))
                continue
            shouted = np.array([text.upper().encode("utf-8") for text in texts], dtype=np.object_)
            lengths = np.array([len(text) for text in texts], dtype=np.int32)
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("SHOUTED", shouted), pb_utils.Tensor("LENGTHS", lengths)])
            )
        return responses
