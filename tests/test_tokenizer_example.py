"""The example with the tokens of language models."""

import numpy as np
import pytest
from harness.clients import strings
from harness.examples import EXAMPLES, load, needs, run

needs("tokenizers")


@pytest.fixture(scope="module")
def server(module_serve, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    run("tokenizers/prepare.py", folder)
    return module_serve(folder)


@pytest.fixture(scope="module")
def tokenizer():
    example = load(EXAMPLES / "tokenizers" / "prepare.py")
    return example.train(example.CORPUS, 600)


TEXTS = ["A braid holds where a strand breaks.", "A", "", "Naïve Wörter, 漢字 and 🦀", "e\u0301"]


def test_ids_and_back(client, tokenizer):
    encoded = client.infer("encode", {"TEXT": strings(*TEXTS)[:, None]})
    ids, mask = encoded.as_numpy("INPUT_IDS"), encoded.as_numpy("ATTENTION_MASK")
    expected = tokenizer.encode_batch(TEXTS)
    assert ids.tolist() == [row.ids for row in expected]
    assert mask.tolist() == [row.attention_mask for row in expected]
    assert mask.sum(axis=1)[2] == 2  # an empty text has only the marks at both ends
    assert ids.shape[1] == mask.sum(axis=1).max()
    decoded = client.infer("decode", {"IDS": ids}).as_numpy("TEXT")[:, 0]
    # Accents are composed during encoding.
    assert [text.decode() for text in decoded] == [*TEXTS[:-1], "é"]


def test_faults(client):
    with client.fails("INVALID_ARG", contains="TEXT is not UTF-8: "):
        client.infer("encode", {"TEXT": strings(b"\xff")[:, None]})
    with client.fails("INVALID_ARG", contains="IDS: expected ids from 0 to "):
        client.infer("decode", {"IDS": np.array([[1, 100_000]], np.int64)})


def test_client(server):
    printed = run("tokenizers/client.py", "--url", server.grpc)
    assert "10 tokens: [1, " in printed
    assert "  Naïve Wörter, 漢字 and 🦀\n" in printed
