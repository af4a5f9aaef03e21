#!/usr/bin/env python3
"""Trains boosted trees that tell malignant tumours from benign ones, and writes them as a model repository.

prepare.py FOLDER
braid serve FOLDER

The data are those of scikit-learn's `load_breast_cancer`: 30 measures of each of 569 tumours.
"""

import argparse
import pathlib
import shutil

import xgboost
from sklearn.datasets import load_breast_cancer

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.2, "seed": 7, "nthread": 1}
TREES = 60


def train():
    """Returns the booster, which predicts the probability that a tumour is malignant."""
    tumours = load_breast_cancer()
    malignant = tumours.target == list(tumours.target_names).index("malignant")
    data = xgboost.DMatrix(tumours.data, label=malignant, feature_names=list(tumours.feature_names))
    return xgboost.train(SETTINGS, data, TREES)


def prepare(folder):
    shutil.copytree(HERE / "models", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    train().save_model(folder / "tumours" / "1" / "trees.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    prepare(arguments.folder)
    print(f"braid serve {arguments.folder}")


if __name__ == "__main__":
    main()
