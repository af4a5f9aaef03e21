#!/usr/bin/env python3
"""Sends a picture to three OCR servables: a pipeline, a graph, and a Python model that calls the networks.

client.py [--grpc HOST:PORT] [--picture FILE] [--by pipeline|graph|bls]
"""

import argparse
import io
import pathlib

import numpy as np
import tritonclient.grpc

TEXT = """Braid serves models
and pipelines of models.
Invoice No. 2047
Total: 138.50 EUR"""


def example_picture():
    """Returns a PNG file with some lines of text, two of them beside each other."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (900, 340), (250, 248, 240))
    draw = ImageDraw.Draw(picture)
    for row, line in enumerate(TEXT.splitlines()):
        draw.text((40, 30 + 72 * row), line, font=ImageFont.load_default(size=34 + 4 * (row % 2)), fill=(30, 30, 60))
    draw.text((560, 30 + 72 * 3), "paid", font=ImageFont.load_default(size=34), fill=(160, 20, 20))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def ask(client, model, name, array, datatype, outputs):
    tensor = tritonclient.grpc.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array)
    answer = client.infer(model, [tensor])
    return [answer.as_numpy(output) for output in outputs]


def by_pipeline(client, file):
    """The response has a row of bytes for each line, padded with zeros; the server decodes the picture."""
    texts, boxes = ask(client, "ocr_pipeline", "image", np.array([file], np.object_), "BYTES", ("texts", "boxes"))
    return [row.tobytes().rstrip(b"\0").decode() for row in texts], boxes.reshape(-1, 4)


def by_graph(client, file):
    texts, boxes = ask(client, "ocr_graph", "image", np.array([file], np.object_), "BYTES", ("texts", "boxes"))
    return texts.tobytes().decode().splitlines(), boxes


def by_bls(client, file):
    texts, boxes = ask(client, "ocr_bls", "IMAGE", np.array([file], np.object_), "BYTES", ("TEXTS", "BOXES"))
    return [text.decode() for text in texts], boxes


WAYS = {"pipeline": by_pipeline, "graph": by_graph, "bls": by_bls}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grpc", default="localhost:9000")
    parser.add_argument("--picture", type=pathlib.Path, help="a JPEG or PNG file (default: one that is drawn)")
    parser.add_argument("--by", choices=WAYS, action="append", help="(default: all three)")
    arguments = parser.parse_args()
    file = arguments.picture.read_bytes() if arguments.picture else example_picture()
    with tritonclient.grpc.InferenceServerClient(arguments.grpc) as client:
        for way in arguments.by or WAYS:
            print(f"by {way}:")
            texts, boxes = WAYS[way](client, file)
            for text, box in zip(texts, boxes, strict=True):
                print(f"  {text}  at {' '.join(f'{side:.0f}' for side in box)}")


if __name__ == "__main__":
    main()
