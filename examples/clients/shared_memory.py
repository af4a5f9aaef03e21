"""Passes two vectors to add_sub and reads their sum through shared memory instead of messages."""

import os

import numpy as np
import tritonclient.utils.shared_memory as shm
from connection import parse_arguments

module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
a = np.array([1, 2, 3, 4], dtype=np.float32)
b = np.array([10, 20, 30, 40], dtype=np.float32)
size = a.nbytes

# One region holds both inputs, followed by the output. Its name must be unique on the machine, so each client uses
# another one.
name = f"/braid_example_{os.getpid()}"
region = shm.create_shared_memory_region("example", name, 3 * size)
try:
    shm.set_shared_memory_region(region, [a, b])
    client.register_system_shared_memory("example", name, 3 * size)
    inputs = [module.InferInput("INPUT0", [4], "FP32"), module.InferInput("INPUT1", [4], "FP32")]
    inputs[0].set_shared_memory("example", size)
    inputs[1].set_shared_memory("example", size, offset=size)
    output = module.InferRequestedOutput("OUTPUT0")
    output.set_shared_memory("example", size, offset=2 * size)
    client.infer("add_sub", inputs, outputs=[output])
    print(f"{a} + {b} = {shm.get_contents_as_numpy(region, np.float32, [4], offset=2 * size)}")
finally:
    client.unregister_system_shared_memory("example")
    shm.destroy_shared_memory_region(region)
