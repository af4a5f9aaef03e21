"""Calls the model add_sub twice, one call after the other: first a + b, then twice that."""

import triton_python_backend_utils as pb_utils


def add_sub(a, b):
    """Runs add_sub on two tensors and returns its outputs."""
    request = pb_utils.InferenceRequest(
        model_name="add_sub",
        requested_output_names=["OUTPUT0", "OUTPUT1"],
        inputs=[pb_utils.Tensor("INPUT0", a.as_numpy()), pb_utils.Tensor("INPUT1", b.as_numpy())],
    )
    response = request.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return [pb_utils.get_output_tensor_by_name(response, name) for name in ("OUTPUT0", "OUTPUT1")]


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a, b = (pb_utils.get_input_tensor_by_name(request, name) for name in ("INPUT0", "INPUT1"))
            total, _ = add_sub(a, b)
            doubled, _ = add_sub(total, total)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", doubled.as_numpy())]))
        return responses
