"""Has its input doubled by another model until the sum reaches 100."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([self.enlarge(request)]) for request in requests]

    def enlarge(self, request):
        values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        while 0 < values.sum() < 100:
            call = pb_utils.InferenceRequest(
                model_name="doubled",
                inputs=[pb_utils.Tensor("IN", values)],
                requested_output_names=["OUT"],
            )
            answer = call.exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            values = pb_utils.get_output_tensor_by_name(answer, "OUT").as_numpy()
        return pb_utils.Tensor("OUT", values)
