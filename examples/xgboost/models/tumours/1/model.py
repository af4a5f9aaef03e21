"""Serves XGBoost trees: the probability and, if a request asks for it, the contribution of each measure."""

import pathlib

import numpy as np
import triton_python_backend_utils as pb_utils
import xgboost


class TritonPythonModel:
    def initialize(self, args):
        # One thread per instance: several instances run in parallel instead.
        self.trees = xgboost.Booster({"nthread": 1}, model_file=pathlib.Path(__file__).parent / "trees.json")

    def execute(self, requests):
        batches = [pb_utils.get_input_tensor_by_name(request, "MEASURES").as_numpy() for request in requests]
        data = xgboost.DMatrix(np.concatenate(batches), feature_names=self.trees.feature_names)
        found = {"MALIGNANT": self.trees.predict(data)[:, None]}
        if any("CONTRIBUTIONS" in request.requested_output_names() for request in requests):
            found["CONTRIBUTIONS"] = self.trees.predict(data, pred_contribs=True)
        responses = []
        end = 0
        for request, batch in zip(requests, batches, strict=True):
            begin, end = end, end + len(batch)
            wanted = [name for name in found if name in request.requested_output_names()]
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor(name, found[name][begin:end]) for name in wanted])
            )
        return responses
