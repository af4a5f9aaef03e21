#!/usr/bin/env python3
"""Asks the ensembles `colour_opencv` and `colour_pillow` for the colour in the middle of a picture.

client.py [--url HOST:PORT] [--picture FILE]
"""

import argparse
import io

import numpy as np
import tritonclient.grpc
from PIL import Image, ImageDraw


def example_picture():
    """A JPEG file: a blue disk on white, wider than it is high."""
    picture = Image.new("RGB", (640, 400), "white")
    ImageDraw.Draw(picture).ellipse((170, 50, 470, 350), fill=(10, 20, 230))
    file = io.BytesIO()
    picture.save(file, "JPEG")
    return file.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="localhost:8001")
    parser.add_argument("--picture", help="an image file (default: one that is drawn)")
    arguments = parser.parse_args()
    if arguments.picture:
        with open(arguments.picture, "rb") as picture:
            file = picture.read()
    else:
        file = example_picture()
    with tritonclient.grpc.InferenceServerClient(arguments.url) as client:
        image = tritonclient.grpc.InferInput("IMAGE", [1, 1], "BYTES")
        image.set_data_from_numpy(np.array([[file]], np.object_))
        for ensemble in ("colour_opencv", "colour_pillow"):
            scores = client.infer(
                ensemble, [image], outputs=[tritonclient.grpc.InferRequestedOutput("SCORES", class_count=1)]
            )
            score, _, colour = scores.as_numpy("SCORES").ravel()[0].decode().split(":")
            print(f"{ensemble}: {colour}, score {float(score):.3f}")


if __name__ == "__main__":
    main()
