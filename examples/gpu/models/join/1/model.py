"""Joins two vectors on the device."""

import device
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.gpu = int(args["model_instance_device_id"])

    def execute(self, requests):
        return [self.join(request) for request in requests]

    def join(self, request):
        parts = [self.on_device(pb_utils.get_input_tensor_by_name(request, name)) for name in ("A", "B")]
        # With PyTorch: torch.cat([torch.from_dlpack(part) for part in parts])
        joined = device.Vector.joined(parts)
        return pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("JOINED", joined)])

    def on_device(self, tensor):
        # A client's tensor is on the CPU; a tensor that another model made on a device is on that device.
        return device.Vector.of(tensor.as_numpy(), self.gpu) if tensor.is_cpu() else tensor
