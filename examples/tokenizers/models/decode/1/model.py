"""Converts token ids to texts, without padding and the marks at both ends."""

import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class TritonPythonModel:
    def initialize(self, args):
        self.tokenizer = Tokenizer.from_file(str(pathlib.Path(__file__).parent / "tokenizer.json"))

    def execute(self, requests):
        return [self.decode(request) for request in requests]

    def decode(self, request):
        ids = pb_utils.get_input_tensor_by_name(request, "IDS").as_numpy()
        size = self.tokenizer.get_vocab_size()
        if ((ids < 0) | (ids >= size)).any():
            fault = pb_utils.TritonError(f"IDS: expected ids from 0 to {size - 1}", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=fault)
        texts = [text.encode() for text in self.tokenizer.decode_batch(ids.tolist())]
        return pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", np.array(texts, np.object_)[:, None])])
