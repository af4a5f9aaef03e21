#!/usr/bin/env python3
"""Sends the first and the last tumour of the data to the model `tumours`, and prints the most important measure of each.

client.py [--url HOST:PORT]
"""

import argparse

import numpy as np
import tritonclient.grpc
from sklearn.datasets import load_breast_cancer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="localhost:8001")
    arguments = parser.parse_args()
    tumours = load_breast_cancer()
    measures = tumours.data[[0, -1]].astype(np.float32)
    with tritonclient.grpc.InferenceServerClient(arguments.url) as client:
        tensor = tritonclient.grpc.InferInput("MEASURES", list(measures.shape), "FP32")
        tensor.set_data_from_numpy(measures)
        answer = client.infer("tumours", [tensor])
    for (malignant,), contributions in zip(
        answer.as_numpy("MALIGNANT"), answer.as_numpy("CONTRIBUTIONS")[:, :-1], strict=True
    ):
        most = tumours.feature_names[np.abs(contributions).argmax()]
        print(f"malignant: {malignant:.1%}; what counts most: {most}")


if __name__ == "__main__":
    main()
