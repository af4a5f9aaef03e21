"""Calls `identity` k times at once and waits for all of them (k is a request parameter, 10 by default)."""

import asyncio
import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        responses = []
        for request in requests:
            count = int(json.loads(request.parameters() or "{}").get("k", 10))
            x = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            nested = [
                pb_utils.InferenceRequest(
                    model_name="identity",
                    inputs=[pb_utils.Tensor("INPUT0", x)],
                    requested_output_names=["OUTPUT0"],
                )
                for _ in range(count)
            ]
            answers = await asyncio.gather(*[each.async_exec() for each in nested])
            for answer in answers:
                if answer.has_error():
                    raise pb_utils.TritonModelException(answer.error().message())
            y = pb_utils.get_output_tensor_by_name(answers[-1], "OUTPUT0").as_numpy()
            responses.append(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUTPUT0", y)]))
        return responses
