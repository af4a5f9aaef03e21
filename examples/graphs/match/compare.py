"""Scores how well each text fits the image: probabilities from the angles between their vectors."""

import numpy as np
from pyovms import Tensor

SHARPNESS = 20


class OvmsPythonModel:
    def execute(self, inputs):
        vectors = {tensor.name: np.array(tensor) for tensor in inputs}
        image = vectors["image_vector"][0]
        texts = vectors["text_vectors"]
        lengths = np.linalg.norm(texts, axis=1) * np.linalg.norm(image)
        angles = texts @ image / np.maximum(lengths, 1e-9)
        scores = np.exp(SHARPNESS * (angles - angles.max()))
        return [Tensor("similarity", (scores / scores.sum()).astype(np.float32))]
