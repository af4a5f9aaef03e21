"""Adds up the values of each sequence. A sequence keeps its place in the batch, so the place selects its sum."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


def value_of(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()[0, 0]


class TritonPythonModel:
    def initialize(self, args):
        places = json.loads(args["model_config"])["max_batch_size"]
        self.sums = np.zeros(places, dtype=np.int32)

    def execute(self, requests):
        responses = []
        for place, request in enumerate(requests):
            # A sequence without a request now has a filler request in its place, whose response is dropped.
            if value_of(request, "READY"):
                if value_of(request, "START"):
                    self.sums[place] = 0
                self.sums[place] += value_of(request, "VALUE")
            total = np.array([[self.sums[place]]], dtype=np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", total)]))
        return responses
