"""Calls front, which calls another model on the device. Then calls join, with inputs in this client's own device memory."""

import base64
import pathlib
import sys

import device
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "clients"))
from connection import as_input, parse_arguments  # noqa: E402

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
values = np.array([1, 2, 3], dtype=np.float32)

result = client.infer("front", [as_input(module, "VALUES", values, "FP32")])
print(f"twice {values} is {result.as_numpy('TWICE')}, on the device: {result.as_numpy('ANSWER_ON_DEVICE')[0]}")

# One allocation holds both inputs, followed by the output. tritonclient.utils.cuda_shared_memory can make such
# regions, too, if the package cuda-python is installed.
region = device.Vector.joined([device.Vector.of(values), device.Vector.of(10 * values), device.Vector(6)])
device.call("cuCtxSynchronize")
client.register_cuda_shared_memory("example", base64.b64encode(region.handle()), 0, 4 * region.count)
try:
    inputs = [module.InferInput("A", [3], "FP32"), module.InferInput("B", [3], "FP32")]
    inputs[0].set_shared_memory("example", 12)
    inputs[1].set_shared_memory("example", 12, offset=12)
    output = module.InferRequestedOutput("JOINED")
    output.set_shared_memory("example", 24, offset=24)
    client.infer("join", inputs, outputs=[output])
    print(f"joined in the memory of this client: {region.numpy(first=6)}")
finally:
    client.unregister_cuda_shared_memory("example")
