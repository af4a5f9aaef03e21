"""Counts words, and publishes the count and the lengths of texts at localhost:8002/metrics."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        # A family lives as long as its object, and a series as long as its metric, so keep both.
        self.words_family = pb_utils.MetricFamily("words_total", "Words counted", pb_utils.MetricFamily.COUNTER)
        self.words = self.words_family.Metric(labels={"model": args["model_name"]})
        self.lengths_family = pb_utils.MetricFamily(
            "text_length", "Characters of a text", pb_utils.MetricFamily.HISTOGRAM
        )
        self.lengths = self.lengths_family.Metric(buckets=[10, 100, 1000])

    def execute(self, requests):
        responses = []
        for request in requests:
            texts = [e.decode("utf-8") for e in pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()]
            counts = np.array([len(text.split()) for text in texts], dtype=np.int32)
            # Visible at the metrics endpoint no later than the response.
            self.words.increment(int(counts.sum()))
            for text in texts:
                self.lengths.observe(len(text))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("WORDS", counts)]))
        return responses
