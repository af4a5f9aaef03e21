"""Sends a text back as often as the request asks for (TIMES, 3 by default), one response at a time."""

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "TEXT")
            times = pb_utils.get_input_tensor_by_name(request, "TIMES")
            sender = request.get_response_sender()
            for index in range(3 if times is None else times.as_numpy()[0]):
                if sender.is_cancelled():
                    break
                number = pb_utils.Tensor("INDEX", np.array([index], dtype=np.int32))
                sender.send(pb_utils.InferenceResponse([text, number]))
            sender.send(flags=FINAL)
