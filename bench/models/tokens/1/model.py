"""Decoupled: a response for each token."""

import functions
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for token in functions.tokens():
                output = pb_utils.Tensor("OUTPUT0", np.array([token.encode()], dtype=object))
                sender.send(pb_utils.InferenceResponse(output_tensors=[output]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
