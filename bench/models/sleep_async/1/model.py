"""One instance, many requests at once: waits 10 ms without blocking, then answers."""

import asyncio

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        async def answer(request):
            await asyncio.sleep(0.010)
            x = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            request.get_response_sender().send(
                pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT0", x)]),
                flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL,
            )

        await asyncio.gather(*[answer(request) for request in requests])
        return None
