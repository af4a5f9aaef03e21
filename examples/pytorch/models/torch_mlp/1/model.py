"""A small network in PyTorch, on the device of its instance. Tensors are passed by DLPack, without copying bytes."""

import torch
import triton_python_backend_utils as pb_utils
from torch.utils.dlpack import from_dlpack, to_dlpack


class TritonPythonModel:
    def initialize(self, args):
        torch.manual_seed(7)
        # One thread per instance: several instances run in parallel instead.
        torch.set_num_threads(1)
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        network = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
        self.network = network.eval().to(self.device)

    def execute(self, requests):
        batches = [
            from_dlpack(pb_utils.get_input_tensor_by_name(request, "FEATURES").to_dlpack()) for request in requests
        ]
        with torch.inference_mode():
            scores = torch.softmax(self.network(torch.cat(batches).to(self.device)), dim=1)
        parts = torch.split(scores, [len(batch) for batch in batches])
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("SCORES", to_dlpack(part.contiguous()))])
            for part in parts
        ]
