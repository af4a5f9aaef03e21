"""Calls the model add_sub once for each number, with all calls at the same time, from a coroutine."""

import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


async def double(number):
    four = np.full(4, number, dtype=np.float32)
    request = pb_utils.InferenceRequest(
        model_name="add_sub",
        requested_output_names=["OUTPUT0"],
        inputs=[pb_utils.Tensor("INPUT0", four), pb_utils.Tensor("INPUT1", four)],
    )
    response = await request.async_exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "OUTPUT0").as_numpy()[0]


class TritonPythonModel:
    async def execute(self, requests):
        responses = []
        for request in requests:
            numbers = pb_utils.get_input_tensor_by_name(request, "NUMBERS").as_numpy()
            sums = await asyncio.gather(*(double(number) for number in numbers))
            tensor = pb_utils.Tensor("SUMS", np.array(sums, dtype=np.float32))
            responses.append(pb_utils.InferenceResponse([tensor]))
        return responses
