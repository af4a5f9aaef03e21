"""Responds to a number with the squares of 1 to that number, from a separate thread for each request.

execute() returns at once, so the next requests arrive while earlier ones still get responses.
"""

import threading

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
LARGEST = 1_000_000


class TritonPythonModel:
    def initialize(self, args):
        self.threads = set()

    def execute(self, requests):
        for request in requests:
            number = int(pb_utils.get_input_tensor_by_name(request, "NUMBER").as_numpy()[0])
            thread = threading.Thread(target=self.answer, args=(number, request.get_response_sender()))
            self.threads.add(thread)
            thread.start()

    def answer(self, number, sender):
        if number > LARGEST:
            error = pb_utils.TritonError(f"NUMBER is above {LARGEST}", pb_utils.TritonError.INVALID_ARG)
            sender.send(pb_utils.InferenceResponse(error=error), FINAL)
        else:
            for n in range(1, number + 1):
                if sender.is_cancelled():
                    break
                square = pb_utils.Tensor("SQUARE", np.array([n * n], dtype=np.int64))
                sender.send(pb_utils.InferenceResponse([square]))
            sender.send(flags=FINAL)
        self.threads.discard(threading.current_thread())

    def finalize(self):
        for thread in list(self.threads):
            thread.join()
