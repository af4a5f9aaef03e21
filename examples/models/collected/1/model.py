"""Calls the decoupled model repeat, and combines all its responses into one."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            call = pb_utils.InferenceRequest(
                model_name="repeat",
                requested_output_names=["TEXT"],
                inputs=[
                    pb_utils.Tensor("TEXT", np.array([b"hello"], dtype=np.object_)),
                    pb_utils.get_input_tensor_by_name(request, "TIMES"),
                ],
            )
            texts = []
            for response in call.exec(decoupled=True):
                if response.has_error():
                    raise pb_utils.TritonModelException(response.error().message())
                # repeat marks its end with a separate response after its last text, which has no tensors.
                if response.output_tensors():
                    texts.append(pb_utils.get_output_tensor_by_name(response, "TEXT").as_numpy()[0])
            tensor = pb_utils.Tensor("TEXTS", np.array(texts, dtype=np.object_))
            responses.append(pb_utils.InferenceResponse([tensor]))
        return responses
