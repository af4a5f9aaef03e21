"""Scales vectors by a factor from the configuration, all requests of a batch in one numpy operation."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.factor = np.float32(config["parameters"]["factor"]["string_value"])

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "VALUES").as_numpy() for request in requests]
        batch = np.concatenate(inputs)
        scaled = batch * self.factor
        responses = []
        row = 0
        for rows in map(len, inputs):
            size = np.full((rows, 1), len(batch), dtype=np.int32)
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("SCALED", scaled[row : row + rows]), pb_utils.Tensor("BATCH_SIZE", size)]
                )
            )
            row += rows
        return responses
