"""The median of all values of a sequence so far. The model keeps the values itself, and can save and load them."""

import bisect
import json
import statistics

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.values = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            sequence = request.correlation_id()
            if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
                self.values[sequence] = []
            values = self.values[sequence]
            bisect.insort(values, float(pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()[0, 0]))
            median = np.array([[statistics.median(values)]])
            if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
                del self.values[sequence]
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("MEDIAN", median)]))
        return responses

    def save_sequence(self, correlation_id):
        return json.dumps(self.values[correlation_id]).encode()

    def load_sequence(self, correlation_id, state):
        self.values[correlation_id] = json.loads(state)
