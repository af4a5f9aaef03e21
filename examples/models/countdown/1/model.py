"""A decoupled model: answers a request with as many responses as it counts, each as soon as it is there."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            start = int(pb_utils.get_input_tensor_by_name(request, "FROM").as_numpy()[0])
            for number in range(start, 0, -1):
                tensor = pb_utils.Tensor("NUMBER", np.array([number], dtype=np.int32))
                sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
