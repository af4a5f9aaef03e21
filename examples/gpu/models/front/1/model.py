"""Copies a vector to the device, and calls `join` to concatenate it with itself. Input and output of join stay on the device."""

import device
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.gpu = int(args["model_instance_device_id"])

    def execute(self, requests):
        return [self.call(request) for request in requests]

    def call(self, request):
        values = pb_utils.get_input_tensor_by_name(request, "VALUES").as_numpy()
        # With PyTorch: torch.from_numpy(values).to(f"cuda:{self.gpu}")
        vector = device.Vector.of(values, self.gpu)
        answer = pb_utils.InferenceRequest(
            model_name="join",
            inputs=[pb_utils.Tensor.from_dlpack(name, vector) for name in ("A", "B")],
            requested_output_names=["JOINED"],
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, self.gpu),
        ).exec()
        if answer.has_error():
            return pb_utils.InferenceResponse(error=answer.error())
        joined = pb_utils.get_output_tensor_by_name(answer, "JOINED")
        on_device = np.array([not joined.is_cpu()])
        # The response is sent from device memory; the server copies it for the client.
        twice = pb_utils.Tensor.from_dlpack("TWICE", joined)
        return pb_utils.InferenceResponse([twice, pb_utils.Tensor("ANSWER_ON_DEVICE", on_device)])
