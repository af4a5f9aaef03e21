#!/usr/bin/env python3
"""Trains a classifier of irises on scikit-learn's own data, and writes it as a model repository.

prepare.py FOLDER
braid serve FOLDER
"""

import argparse
import pathlib
import shutil

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

HERE = pathlib.Path(__file__).resolve().parent


def train():
    """Returns the pipeline as one object: the scaler is trained, saved and served together with the classifier."""
    irises = load_iris()
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return pipeline.fit(irises.data, irises.target_names[irises.target])


def prepare(folder):
    shutil.copytree(HERE / "models", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    joblib.dump(train(), folder / "iris" / "1" / "pipeline.joblib")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    prepare(arguments.folder)
    print(f"braid serve {arguments.folder}")


if __name__ == "__main__":
    main()
