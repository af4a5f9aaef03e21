"""Counts each request down by one in every run, as a text generator makes one token per step.

The response has the number of runs, and the number of requests in the largest batch.
"""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.progress = {}  # by sequence: remaining count, runs, largest batch

    def execute(self, requests):
        time.sleep(0.002)  # the work of one step, for the whole batch
        return [self.step(request, len(requests)) for request in requests]

    def step(self, request, company):
        sequence = request.correlation_id()
        if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            count = pb_utils.get_input_tensor_by_name(request, "FROM").as_numpy()[0, 0]
            self.progress[sequence] = (int(count), 0, 0)
        left, runs, largest = self.progress.pop(sequence)
        left, runs, largest = left - 1, runs + 1, max(largest, company)
        if left > 0:
            self.progress[sequence] = (left, runs, largest)
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            return None
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("RUNS", np.array([[runs]], dtype=np.int32)),
                pb_utils.Tensor("COMPANY", np.array([[largest]], dtype=np.int32)),
            ]
        )
