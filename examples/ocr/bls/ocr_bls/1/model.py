"""Reads a picture by calls to two networks that the same server serves."""

import pathlib

import numpy as np
import reading
import triton_python_backend_utils as pb_utils


def ask(model, name, array, output):
    """Runs a model with one input and one output."""
    request = pb_utils.InferenceRequest(
        model_name=model, requested_output_names=[output], inputs=[pb_utils.Tensor(name, array)]
    )
    response = request.exec()
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, output).as_numpy()


class TritonPythonModel:
    def initialize(self, args):
        self.characters = reading.characters(pathlib.Path(__file__).parent)

    def execute(self, requests):
        return [self.read(request) for request in requests]

    def read(self, request):
        file = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()[0]
        try:
            page = reading.page(file)
        except ValueError as error:
            fault = pb_utils.TritonError(f"IMAGE: {error}", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=fault)
        boxes, lines = reading.find(page, ask("text_detection", "image", page, "map"))
        texts = []
        if len(lines):
            chosen = ask("text_recognition", "lines", lines, "characters")
            texts = reading.decode(chosen, self.characters)
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("TEXTS", np.array([text.encode() for text in texts], np.object_)),
                pb_utils.Tensor("BOXES", boxes.astype(np.float32)),
            ]
        )
