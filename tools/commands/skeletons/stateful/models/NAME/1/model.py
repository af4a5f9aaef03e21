"""Adds up the values of each sequence."""

import struct

import numpy as np
import triton_python_backend_utils as pb_utils


def value_of(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()[0, 0]


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}  # by correlation id

    def execute(self, requests):
        return [self.step(request) for request in requests]

    def step(self, request):
        sequence = request.correlation_id()
        total = 0.0 if value_of(request, "START") else self.sums.get(sequence, 0.0)
        total += float(value_of(request, "VALUE"))
        self.sums[sequence] = total
        if value_of(request, "END"):
            del self.sums[sequence]
        return pb_utils.InferenceResponse([pb_utils.Tensor("SUM", np.array([[total]], np.float32))])

    # With these two, sequences outlive the process: a reload, a crash, a restart of the server.
    def save_sequence(self, correlation_id):
        return struct.pack("<d", self.sums.get(correlation_id, 0.0))

    def load_sequence(self, correlation_id, state):
        (self.sums[correlation_id],) = struct.unpack("<d", state)
