#!/usr/bin/env python3
"""Trains a small neural language model with numpy, and lays it out as a model repository.

prepare.py FOLDER [--corpus FILE]
braid serve FOLDER

The network predicts the next word from the three before it. Each of them becomes a vector, and the vectors go through one
hidden layer. A softmax over the vocabulary gives the probability of each word. Seeded, so that the weights are the same on
every machine of one kind.
"""

import argparse
import pathlib
import re
import shutil

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parent / "graphs" / "generate" / "corpus.txt"
CONTEXT, VECTOR, HIDDEN = 3, 24, 64
ROUNDS = 100
# A word with the space before it, or a punctuation mark. A text is the concatenation of its tokens.
TOKEN = re.compile(r" ?\w+|[^\w\s]")


def gradients(weights, contexts, targets):
    """Returns the loss over some examples, and its gradient for each weight."""
    vectors = weights["vectors"][contexts].reshape(len(contexts), -1)
    hidden = np.tanh(vectors @ weights["in"] + weights["in_bias"])
    scores = hidden @ weights["out"] + weights["out_bias"]
    probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    rows = np.arange(len(targets))
    loss = -np.log(probabilities[rows, targets]).mean()

    d_scores = probabilities
    d_scores[rows, targets] -= 1
    d_scores /= len(targets)
    d_hidden = d_scores @ weights["out"].T * (1 - hidden**2)
    d_vectors = np.zeros_like(weights["vectors"])
    np.add.at(d_vectors, contexts, (d_hidden @ weights["in"].T).reshape(*contexts.shape, VECTOR))
    return loss, {
        "vectors": d_vectors,
        "in": vectors.T @ d_hidden,
        "in_bias": d_hidden.sum(axis=0),
        "out": hidden.T @ d_scores,
        "out_bias": d_scores.sum(axis=0),
    }


def train(text):
    """Returns (tokens of the vocabulary, weights, loss of the last round). Token 0 precedes every text."""
    found = TOKEN.findall(" " + " ".join(text.split()))
    vocabulary = ["", *sorted(set(found))]
    ids = {token: index for index, token in enumerate(vocabulary)}
    numbers = [0] * CONTEXT + [ids[token] for token in found]
    contexts = np.array([numbers[at : at + CONTEXT] for at in range(len(found))])
    targets = np.array(numbers[CONTEXT:])

    random = np.random.default_rng(7)
    shapes = {
        "vectors": (len(vocabulary), VECTOR),
        "in": (CONTEXT * VECTOR, HIDDEN),
        "in_bias": (HIDDEN,),
        "out": (HIDDEN, len(vocabulary)),
        "out_bias": (len(vocabulary),),
    }
    weights = {
        name: random.standard_normal(shape) * (0 if name.endswith("bias") else shape[0] ** -0.5)
        for name, shape in shapes.items()
    }
    # Adam, with all examples in each round.
    first = {name: np.zeros(shape) for name, shape in shapes.items()}
    second = {name: np.zeros(shape) for name, shape in shapes.items()}
    for step in range(1, ROUNDS + 1):
        loss, slopes = gradients(weights, contexts, targets)
        for name, slope in slopes.items():
            first[name] += 0.1 * (slope - first[name])
            second[name] += 0.001 * (slope**2 - second[name])
            mean, spread = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
            weights[name] -= 0.01 * mean / (np.sqrt(spread) + 1e-8)
    return vocabulary, {name: array.astype(np.float32) for name, array in weights.items()}, float(loss)


def prepare(folder, corpus=CORPUS):
    """Returns the loss of the last round."""
    shutil.copytree(HERE / "models", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    vocabulary, weights, loss = train(corpus.read_text(encoding="utf-8"))
    np.savez(folder / "writer" / "1" / "weights.npz", vocabulary=np.array(vocabulary), **weights)
    return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--corpus", type=pathlib.Path, default=CORPUS, help="a text to train on (default: %(default)s)")
    arguments = parser.parse_args()
    print(f"loss {prepare(arguments.folder, arguments.corpus):.3f}")
    print(f"braid serve {arguments.folder}")


if __name__ == "__main__":
    main()
