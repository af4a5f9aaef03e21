"""Returns a vector of length 1 for each text: the sum of the vectors that the chat model has for words of questions.

Texts that lead to the same reply have close vectors. The order of words has no effect.
"""

import pathlib
import re
import zlib

import numpy as np
import triton_python_backend_utils as pb_utils

WORD = re.compile(r"\w+")


class TritonPythonModel:
    def initialize(self, args):
        loaded = np.load(pathlib.Path(__file__).parent / "vectors.npz")
        self.vectors = loaded["vectors"]
        self.rows = {word: row for row, word in enumerate(loaded["words"].tolist())}

    def execute(self, requests):
        texts = [pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()[:, 0] for request in requests]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("embedding", np.stack([self.embed(text) for text in each]))])
            for each in texts
        ]

    def embed(self, text):
        unknown = len(self.vectors) - len(self.rows)
        words = WORD.findall(text.decode(errors="replace").lower())
        # Unknown words share some rows.
        rows = [self.rows.get(word, len(self.rows) + zlib.crc32(word.encode()) % unknown) for word in words]
        total = self.vectors[rows].sum(axis=0)
        # A text without words has the vector 0.
        return total / max(float(np.linalg.norm(total)), 1e-9)
