"""Returns the class with another model's highest score. The scores stay on the GPU if they are there."""

import torch
import triton_python_backend_utils as pb_utils
from torch.utils.dlpack import from_dlpack, to_dlpack


class TritonPythonModel:
    def initialize(self, args):
        on_gpu = args["model_instance_kind"] == "GPU"
        kind = pb_utils.TRITONSERVER_MEMORY_GPU if on_gpu else pb_utils.TRITONSERVER_MEMORY_CPU
        self.memory = pb_utils.PreferredMemory(kind, int(args["model_instance_device_id"]))

    def execute(self, requests):
        responses = []
        for request in requests:
            call = pb_utils.InferenceRequest(
                model_name="torch_mlp",
                inputs=[pb_utils.get_input_tensor_by_name(request, "FEATURES")],
                requested_output_names=["SCORES"],
                preferred_memory=self.memory,
            )
            scored = call.exec()
            if scored.has_error():
                responses.append(pb_utils.InferenceResponse(error=scored.error()))
                continue
            scores = from_dlpack(pb_utils.get_output_tensor_by_name(scored, "SCORES").to_dlpack())
            choice = torch.argmax(scores, dim=1, keepdim=True)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("CLASS", to_dlpack(choice))]))
        return responses
