"""Returns the instance that handles the request, and its device."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_instance_name"]
        # With CPU or MODEL, the model itself chooses a device.
        self.kind = args["model_instance_kind"]

    def execute(self, requests):
        responses = []
        for request in requests:
            who = pb_utils.get_input_tensor_by_name(request, "WHO").as_numpy()[0].decode()
            time.sleep(0.05)  # long enough for the other instances to take their requests
            answer = np.array([f"{who}: {self.name} on {self.kind}"], dtype=np.object_)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("ANSWER", answer)]))
        return responses
