"""Serves a pipeline trained with scikit-learn: from features to the species and the probability of each."""

import pathlib

import joblib
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        # Unpickling runs code, so load only your own files.
        self.pipeline = joblib.load(pathlib.Path(__file__).parent / "pipeline.joblib")

    def execute(self, requests):
        batches = [pb_utils.get_input_tensor_by_name(request, "FEATURES").as_numpy() for request in requests]
        probabilities = self.pipeline.predict_proba(np.concatenate(batches)).astype(np.float32)
        species = self.pipeline.classes_[probabilities.argmax(axis=1)].astype(np.object_)[:, None]
        ends = np.cumsum([len(batch) for batch in batches])[:-1]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("SPECIES", names), pb_utils.Tensor("PROBABILITIES", numbers)])
            for names, numbers in zip(np.split(species, ends), np.split(probabilities, ends), strict=True)
        ]
