"""KServe's Python server, without its cluster: `python kserve_app.py WORKLOAD HTTP_PORT GRPC_PORT`."""

import sys

import functions
from kserve import InferOutput, InferResponse, Model, ModelServer


class FunctionModel(Model):
    def __init__(self, name):
        super().__init__(name)
        self._network = functions.Network() if name == "mlp" else None
        self.ready = True

    async def predict(self, payload, headers=None, response_headers=None):
        arrays = [each.as_numpy() for each in payload.inputs]
        if self.name == "add_sub":
            arrays = functions.add_sub(*arrays)
        elif self._network:
            arrays = [self._network(arrays[0])]
        outputs = []
        for index, array in enumerate(arrays):
            output = InferOutput(f"OUTPUT{index}", list(array.shape), "FP32")
            output.set_data_from_numpy(array, binary_data=payload.use_binary_outputs)
            outputs.append(output)
        return InferResponse("", self.name, outputs, use_binary_outputs=payload.use_binary_outputs)


if __name__ == "__main__":
    workload, http, grpc = sys.argv[1:]
    del sys.argv[1:]  # the server reads them, too
    ModelServer(http_port=int(http), grpc_port=int(grpc), workers=1, access_log_format=None).start(
        [FunctionModel(workload)]
    )
