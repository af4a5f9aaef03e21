"""Converts texts to token ids for language models, with a mask that excludes padding."""

import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class TritonPythonModel:
    def initialize(self, args):
        self.tokenizer = Tokenizer.from_file(str(pathlib.Path(__file__).parent / "tokenizer.json"))

    def execute(self, requests):
        return [self.encode(request) for request in requests]

    def encode(self, request):
        # Rows of one request are padded to its longest row, independently of other requests in the batch.
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()[:, 0]
        try:
            rows = self.tokenizer.encode_batch([text.decode() for text in texts])
        except UnicodeDecodeError as error:
            fault = pb_utils.TritonError(f"TEXT is not UTF-8: {error}", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=fault)
        ids = np.array([row.ids for row in rows], np.int64)
        mask = np.array([row.attention_mask for row in rows], np.int64)
        return pb_utils.InferenceResponse([pb_utils.Tensor("INPUT_IDS", ids), pb_utils.Tensor("ATTENTION_MASK", mask)])
