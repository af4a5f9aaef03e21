"""A function that JAX compiles once for each input shape."""

import jax
import jax.numpy as jnp
import numpy as np
import triton_python_backend_utils as pb_utils


@jax.jit
def softmax(logits):
    shifted = jnp.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            logits = pb_utils.get_input_tensor_by_name(request, "LOGITS").as_numpy()
            # JAX has its own memory, so numpy converts in both directions.
            probabilities = np.asarray(softmax(jnp.asarray(logits)))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("PROBABILITIES", probabilities)]))
        return responses
