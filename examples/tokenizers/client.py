#!/usr/bin/env python3
"""Sends texts to be converted to token ids, and the ids to be converted back to texts.

client.py [--url HOST:PORT] [TEXT ...]
"""

import argparse

import numpy as np
import tritonclient.grpc

TEXTS = ["A braid holds where a strand breaks.", "The river is a braid.", "Naïve Wörter, 漢字 and 🦀"]


def ask(client, model, name, array, datatype):
    tensor = tritonclient.grpc.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    return client.infer(model, [tensor])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="localhost:8001")
    parser.add_argument("texts", nargs="*", metavar="TEXT", default=TEXTS)
    arguments = parser.parse_args()
    texts = np.array([[text.encode()] for text in arguments.texts], np.object_)
    with tritonclient.grpc.InferenceServerClient(arguments.url) as client:
        encoded = ask(client, "encode", "TEXT", texts, "BYTES")
        ids, mask = encoded.as_numpy("INPUT_IDS"), encoded.as_numpy("ATTENTION_MASK")
        decoded = ask(client, "decode", "IDS", ids, "INT64").as_numpy("TEXT")
    for row, tokens, (text,) in zip(ids, mask.sum(axis=1), decoded, strict=True):
        print(f"{tokens} tokens: {row[:tokens].tolist()}")
        print(f"  {text.decode()}")


if __name__ == "__main__":
    main()
