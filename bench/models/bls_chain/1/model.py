"""Calls `identity` k times, one after the other (k is a request parameter, 10 by default)."""

import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            count = int(json.loads(request.parameters() or "{}").get("k", 10))
            x = pb_utils.get_input_tensor_by_name(request, "INPUT0")
            for _ in range(count):
                nested = pb_utils.InferenceRequest(
                    model_name="identity",
                    inputs=[pb_utils.Tensor("INPUT0", x.as_numpy())],
                    requested_output_names=["OUTPUT0"],
                )
                response = nested.exec()
                if response.has_error():
                    raise pb_utils.TritonModelException(response.error().message())
                x = pb_utils.get_output_tensor_by_name(response, "OUTPUT0")
            output = pb_utils.Tensor("OUTPUT0", x.as_numpy())
            responses.append(pb_utils.InferenceResponse(output_tensors=[output]))
        return responses
