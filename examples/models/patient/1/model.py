"""Waits without blocking, as a model that calls another service: many requests wait at the same time."""

import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.waiting = 0
        self.most = 0

    async def execute(self, requests):
        # The next execute() begins once this one waits.
        await asyncio.gather(*[self.answer(request) for request in requests])

    async def answer(self, request):
        seconds = pb_utils.get_input_tensor_by_name(request, "SECONDS").as_numpy()
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await asyncio.sleep(float(seconds[0]))
        response = pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("WAITED", seconds),
                pb_utils.Tensor("TOGETHER", np.array([self.most], dtype=np.int32)),
            ]
        )
        self.waiting -= 1
        request.get_response_sender().send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
