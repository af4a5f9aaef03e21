#!/usr/bin/env python3
"""Trains a vocabulary on the corpus of examples/graphs/generate, and writes a model repository that uses it.

prepare.py FOLDER [--corpus FILE] [--size WORDS]
braid serve FOLDER
"""

import argparse
import pathlib
import shutil

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parent / "graphs" / "generate" / "corpus.txt"
SPECIAL = ["[PAD]", "[CLS]", "[SEP]"]


def train(corpus, size):
    """Trains byte-pair encoding, as in many language models: no text is unknown, and decoding restores the encoded text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(corpus)], trainer)
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")]
    )
    tokenizer.enable_padding(pad_id=ids["[PAD]"], pad_token="[PAD]")
    return tokenizer


def prepare(folder, corpus=CORPUS, size=600):
    shutil.copytree(HERE / "models", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    tokenizer = train(corpus, size)
    for model in ("encode", "decode"):
        tokenizer.save(str(folder / model / "1" / "tokenizer.json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--corpus", type=pathlib.Path, default=CORPUS, help="a text to train on (default: %(default)s)")
    parser.add_argument("--size", type=int, default=600, help="tokens of the vocabulary (default: %(default)s)")
    arguments = parser.parse_args()
    prepare(arguments.folder, arguments.corpus, arguments.size)
    print(f"braid serve {arguments.folder}")


if __name__ == "__main__":
    main()
