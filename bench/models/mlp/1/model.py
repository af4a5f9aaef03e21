"""A small network over the rows of all requests."""

import functions
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self._network = functions.Network()

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        rows = self._network(np.concatenate(inputs))
        responses, begin = [], 0
        for each in inputs:
            output = pb_utils.Tensor("OUTPUT0", rows[begin : begin + len(each)])
            responses.append(pb_utils.InferenceResponse(output_tensors=[output]))
            begin += len(each)
        return responses
