"""Calls the decoupled model countdown and puts all its responses into one."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            call = pb_utils.InferenceRequest(
                model_name="countdown",
                requested_output_names=["NUMBER"],
                inputs=[pb_utils.get_input_tensor_by_name(request, "FROM")],
            )
            numbers = []
            for response in call.exec(decoupled=True):
                if response.has_error():
                    raise pb_utils.TritonModelException(response.error().message())
                # countdown ends its answer apart from the last number: that response has no tensors.
                if response.output_tensors():
                    numbers.append(pb_utils.get_output_tensor_by_name(response, "NUMBER").as_numpy()[0])
            tensor = pb_utils.Tensor("NUMBERS", np.array(numbers, dtype=np.int32))
            responses.append(pb_utils.InferenceResponse([tensor]))
        return responses
