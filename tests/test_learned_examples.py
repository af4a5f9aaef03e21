"""The examples in scikit-learn and XGBoost, compared with the same models without a server."""

import numpy as np
import pytest
from harness.examples import EXAMPLES, load, needs, run
from harness.server import Server

needs("sklearn", "xgboost")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    def start(example):
        folder = tmp_path_factory.mktemp(example)
        run(f"{example}/prepare.py", folder)
        return Server([folder], workdir=tmp_path_factory.mktemp("server"))

    return start


def test_scikit_learn(start, connect):
    from sklearn.datasets import load_iris

    features = load_iris().data.astype(np.float32)
    pipeline = load(EXAMPLES / "scikit_learn" / "prepare.py").train()
    with start("scikit_learn") as server:
        client = connect("grpc", server)
        pieces = [client.infer("iris", {"FEATURES": piece}) for piece in np.split(features, [1, 51, 100])]
    species = np.concatenate([piece.as_numpy("SPECIES")[:, 0] for piece in pieces]).astype(str)
    probabilities = np.concatenate([piece.as_numpy("PROBABILITIES") for piece in pieces])
    np.testing.assert_array_equal(species, pipeline.predict(features))
    np.testing.assert_allclose(probabilities, pipeline.predict_proba(features), rtol=1e-5)
    assert (species[:50] == "setosa").all()


def test_xgboost(start, connect):
    import xgboost
    from sklearn.datasets import load_breast_cancer

    tumours = load_breast_cancer()
    measures = tumours.data[:40].astype(np.float32)
    trees = load(EXAMPLES / "xgboost" / "prepare.py").train()
    data = xgboost.DMatrix(measures, feature_names=trees.feature_names)
    with start("xgboost") as server:
        client = connect("grpc", server)
        whole = client.infer("tumours", {"MEASURES": measures})
        few = client.infer("tumours", {"MEASURES": measures[:3]}, outputs=["MALIGNANT"])
        printed = run("xgboost/client.py", "--url", server.grpc)
    np.testing.assert_allclose(whole.as_numpy("MALIGNANT")[:, 0], trees.predict(data), rtol=1e-5)
    np.testing.assert_allclose(
        whole.as_numpy("CONTRIBUTIONS"), trees.predict(data, pred_contribs=True), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(few.as_numpy("MALIGNANT"), whole.as_numpy("MALIGNANT")[:3], rtol=1e-6)
    assert few.as_numpy("CONTRIBUTIONS") is None
    # The data's first tumour is malignant, its last one is benign.
    assert printed.startswith("malignant: 99.")
    assert "\nmalignant: 0." in printed
