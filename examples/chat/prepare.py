#!/usr/bin/env python3
"""Trains a tiny chat model and an embedding model with numpy, and lays both out as a model repository.

prepare.py FOLDER [--conversations FILE]
braid serve FOLDER

The network predicts the next word of a reply. It reads the last words of the reply, and two sums of word vectors: of the
question, and of the question and reply before. One hidden layer follows, and a softmax over the vocabulary. The vectors of
the question's words are the embedding model. Seeded, so that the weights are the same on every machine of one kind.
"""

import argparse
import collections
import os
import pathlib
import re
import shutil

# The matrices are too small for more threads. numpy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
CONVERSATIONS = HERE / "conversations.txt"
CONTEXT, VECTOR, ASKED, BEFORE, HIDDEN = 4, 24, 48, 24, 96
# Rows for words that are not in the vocabulary of questions.
UNKNOWN = 64
ROUNDS, BATCH = 20, 16
WORD = re.compile(r"\w+")
# A word with the space before it, or a punctuation mark. A reply is the concatenation of its tokens.
TOKEN = re.compile(r" ?\w+|[^\w\s]")


def read(text):
    """Returns conversations: lists of (phrasings of the question, phrasings of the reply)."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line.partition(": ") for line in block.splitlines() if line and not line.startswith("#")]
        turns = []
        for role, _, said in lines:
            if role == "user" and (not turns or turns[-1][1]):
                turns.append(([], []))
            turns[-1][role == "assistant"].append(said)
        if turns:
            found.append(turns)
    return found


def words(text):
    return WORD.findall(text.lower())


def tokens(text):
    return TOKEN.findall(" " + text)


class Vocabulary:
    def __init__(self, conversations):
        turns = [turn for conversation in conversations for turn in conversation]
        uses = collections.Counter(
            word for questions, replies in turns for said in (*questions, *replies) for word in {*words(said)}
        )
        # Words that occur once are unknown, so that the network learns to reply to unknown words.
        self.asked = sorted(word for word, count in uses.items() if count > 1)
        # Token 0 is before and after every reply.
        self.said = ["", *sorted({token for _, replies in turns for said in replies for token in tokens(said)})]
        self._rows = {word: row for row, word in enumerate(self.asked)}
        self._ids = {token: number for number, token in enumerate(self.said)}

    def rows(self, text, random):
        """Returns the rows of a text's words; unknown words have a random one in each round."""
        unknown = len(self.asked) + random.integers(UNKNOWN, size=len(text))
        return [self._rows.get(word, row) for word, row in zip(words(text), unknown, strict=False)]

    def ids(self, reply):
        return [self._ids[token] for token in tokens(reply)] + [0]


def draw(conversations, random):
    """Yields (question, texts before it, reply) for each phrasing of each question."""
    for conversation in conversations:
        for number, (questions, replies) in enumerate(conversation):
            for question in questions:
                # A new topic may follow any other.
                other = conversations[random.integers(len(conversations))]
                last = conversation[number - 1] if number else other[random.integers(len(other))]
                before = " ".join(random.choice(said) for said in last) if number or random.random() < 0.5 else ""
                yield question, before, random.choice(replies)


def padded(rows):
    """Returns lists of rows as an array, and the weight of each row: 0 where a list has ended."""
    lengths = np.array([len(each) for each in rows])
    filled = np.zeros((len(rows), max(1, lengths.max())), int)
    weight = (np.arange(filled.shape[1]) < lengths[:, None]) / np.sqrt(np.maximum(lengths, 1))[:, None]
    for at, each in enumerate(rows):
        filled[at, : len(each)] = each
    return filled, weight.astype(np.float32)


def batch_of(examples, vocabulary, random):
    """Returns the arrays of some examples: a line for each token of their replies."""
    contexts, targets, lines = [], [], []
    for line, (_, _, reply) in enumerate(examples):
        ids = [0] * CONTEXT + vocabulary.ids(reply)
        for at in range(len(ids) - CONTEXT):
            contexts.append(ids[at : at + CONTEXT])
            targets.append(ids[at + CONTEXT])
            lines.append(line)
    return {
        "asked": padded([vocabulary.rows(question, random) for question, _, _ in examples]),
        "before": padded([vocabulary.rows(before, random) for _, before, _ in examples]),
        "contexts": np.array(contexts),
        "targets": np.array(targets),
        "lines": np.array(lines),
    }


def gradients(weights, batch):
    """Returns the loss over a batch, and its gradient for each weight."""
    contexts, targets, lines = batch["contexts"], batch["targets"], batch["lines"]
    sums = {}
    for name in ("asked", "before"):
        rows, weight = batch[name]
        sums[name] = (weights[name][rows] * weight[:, :, None]).sum(axis=1)
    vectors = weights["vectors"][contexts].reshape(len(contexts), -1)
    inputs = np.concatenate([sums["asked"][lines], sums["before"][lines], vectors], axis=1)
    hidden = np.tanh(inputs @ weights["in"] + weights["in_bias"])
    scores = hidden @ weights["out"] + weights["out_bias"]
    probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    places = np.arange(len(targets))
    loss = -np.log(probabilities[places, targets]).mean()

    d_scores = probabilities
    d_scores[places, targets] -= 1
    d_scores /= len(targets)
    d_hidden = d_scores @ weights["out"].T * (1 - hidden**2)
    d_inputs = d_hidden @ weights["in"].T
    slopes = {name: np.zeros_like(weights[name]) for name in ("asked", "before", "vectors")}
    for name, first, size in (("asked", 0, ASKED), ("before", ASKED, BEFORE)):
        rows, weight = batch[name]
        d_sums = np.zeros_like(sums[name])
        np.add.at(d_sums, lines, d_inputs[:, first : first + size])
        np.add.at(slopes[name], rows, d_sums[:, None] * weight[:, :, None])
    np.add.at(slopes["vectors"], contexts, d_inputs[:, ASKED + BEFORE :].reshape(*contexts.shape, VECTOR))
    slopes |= {"in": inputs.T @ d_hidden, "in_bias": d_hidden.sum(axis=0)}
    slopes |= {"out": hidden.T @ d_scores, "out_bias": d_scores.sum(axis=0)}
    return loss, slopes


def train(text):
    """Returns (vocabulary, weights, mean loss of the last round)."""
    conversations = read(text)
    vocabulary = Vocabulary(conversations)
    random = np.random.default_rng(7)
    inputs = ASKED + BEFORE + CONTEXT * VECTOR
    shapes = {
        "asked": (len(vocabulary.asked) + UNKNOWN, ASKED),
        "before": (len(vocabulary.asked) + UNKNOWN, BEFORE),
        "vectors": (len(vocabulary.said), VECTOR),
        "in": (inputs, HIDDEN),
        "in_bias": (HIDDEN,),
        "out": (HIDDEN, len(vocabulary.said)),
        "out_bias": (len(vocabulary.said),),
    }
    weights = {
        name: (random.standard_normal(shape) * (0 if name.endswith("bias") else shape[-1] ** -0.5)).astype(np.float32)
        for name, shape in shapes.items()
    }
    # Adam, with a rate that falls to zero.
    first = {name: np.zeros_like(array) for name, array in weights.items()}
    second = {name: np.zeros_like(array) for name, array in weights.items()}
    step = 0
    for round_number in range(ROUNDS):
        examples = list(draw(conversations, random))
        random.shuffle(examples)
        losses = []
        for at in range(0, len(examples), BATCH):
            step += 1
            loss, slopes = gradients(weights, batch_of(examples[at : at + BATCH], vocabulary, random))
            losses.append(loss)
            rate = 0.015 * (1 - round_number / ROUNDS)
            for name, slope in slopes.items():
                first[name] += 0.1 * (slope - first[name])
                second[name] += 0.01 * (slope**2 - second[name])
                mean, spread = first[name] / (1 - 0.9**step), second[name] / (1 - 0.99**step)
                weights[name] -= rate * mean / (np.sqrt(spread) + 1e-8)
    return vocabulary, weights, float(np.mean(losses))


def prepare(folder, conversations=CONVERSATIONS):
    """Returns the mean loss of the last round."""
    shutil.copytree(HERE / "models", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    vocabulary, weights, loss = train(conversations.read_text(encoding="utf-8"))
    words = np.array(vocabulary.asked)
    np.savez(folder / "small_talk" / "1" / "weights.npz", words=words, tokens=np.array(vocabulary.said), **weights)
    np.savez(folder / "embedder" / "1" / "vectors.npz", words=words, vectors=weights["asked"])
    return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument(
        "--conversations", type=pathlib.Path, default=CONVERSATIONS, help="a text to train on (default: %(default)s)"
    )
    arguments = parser.parse_args()
    print(f"loss {prepare(arguments.folder, arguments.conversations):.3f}")
    print(f"braid serve {arguments.folder}")


if __name__ == "__main__":
    main()
