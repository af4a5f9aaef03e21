#!/usr/bin/env python3
"""Sends one picture, as a PNG file, to the pipelines `faces`, `mood` and `reader`, and prints their results.

client.py [--api kserve-grpc|kserve-rest|tfs-grpc|tfs-rest] [--grpc HOST:PORT] [--rest HOST:PORT] [--picture FILE]
"""

import argparse
import base64
import json
import struct
import sys
import urllib.error
import urllib.request
import zlib

import numpy as np

FACES = ("boxes", "confidences", "ages", "emotions")
MOOD = ("emotions", "face")
READER = ("boxes", "letters")
EMOTIONS = ("calm", "glad", "sad", "angry")


def example_picture():
    """Returns [64,64,3], BGR, uint8: two bright squares with some texture, and a half-bright one, on a dark background."""
    picture = np.full((64, 64, 3), 20, np.uint8)
    texture = np.arange(16 * 16 * 3).reshape(16, 16, 3) % 50
    picture[0:16, 16:32] = 200 + texture
    picture[32:48, 48:64] = 150 + texture
    picture[48:64, 0:16] = 70 + texture
    return picture


def png(picture):
    """Returns a PNG file of a BGR picture."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture[:, :, ::-1])
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def ask_kserve(module, address, pipeline, outputs, file):
    with module.InferenceServerClient(address) as client:
        image = module.InferInput("image", [1], "BYTES")
        image.set_data_from_numpy(np.array([file], dtype=np.object_))
        answer = client.infer(pipeline, [image])
        return {name: answer.as_numpy(name) for name in outputs}


def ask_kserve_grpc(arguments, pipeline, outputs, file):
    import tritonclient.grpc

    return ask_kserve(tritonclient.grpc, arguments.grpc, pipeline, outputs, file)


def ask_kserve_rest(arguments, pipeline, outputs, file):
    import tritonclient.http

    return ask_kserve(tritonclient.http, arguments.rest, pipeline, outputs, file)


def ask_tfs_grpc(arguments, pipeline, outputs, file):
    import ovmsclient

    client = ovmsclient.make_grpc_client(arguments.grpc)
    answer = client.predict({"image": file}, pipeline)
    return {name: answer[name] for name in outputs}


def ask_tfs_rest(arguments, pipeline, outputs, file):
    body = json.dumps({"inputs": {"image": [{"b64": base64.b64encode(file).decode()}]}}).encode()
    url = f"http://{arguments.rest}/v1/models/{pipeline}:predict"
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as reply:
        answer = json.load(reply)["outputs"]
    return {name: np.array(answer[name]) for name in outputs}


APIS = {
    "kserve-grpc": ask_kserve_grpc,
    "kserve-rest": ask_kserve_rest,
    "tfs-grpc": ask_tfs_grpc,
    "tfs-rest": ask_tfs_rest,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", choices=APIS, default="kserve-grpc")
    parser.add_argument("--grpc", default="127.0.0.1:9000")
    parser.add_argument("--rest", default="127.0.0.1:8000")
    parser.add_argument("--picture", help="a JPEG or PNG file (default: one that is drawn)")
    arguments = parser.parse_args()
    if arguments.picture:
        with open(arguments.picture, "rb") as picture:
            file = picture.read()
    else:
        file = png(example_picture())
    ask = APIS[arguments.api]
    try:
        faces = ask(arguments, "faces", FACES, file)
        mood = ask(arguments, "mood", MOOD, file)
        words = ask(arguments, "reader", READER, file)
    except urllib.error.HTTPError as error:
        sys.exit(f"client: {error}: {error.read().decode(errors='replace')}")
    print(f"{len(faces['boxes'])} faces")
    for index, box in enumerate(faces["boxes"]):
        feeling = EMOTIONS[int(np.argmax(faces["emotions"][index]))]
        age = float(np.ravel(faces["ages"][index])[0])
        confidence = float(np.ravel(faces["confidences"][index])[0])
        print(f"  at {np.ravel(box).tolist()}: {age:.1f} years, {feeling}, confidence {confidence:.3f}")
    strongest = EMOTIONS[int(np.argmax(mood["emotions"]))]
    print(f"  the strongest emotion has face {int(np.ravel(mood['face'])[0])}: {strongest}")
    print(f"{len(words['boxes'])} words")
    for box, letters in zip(words["boxes"], words["letters"], strict=True):
        print(f"  at {np.ravel(box).tolist()}: {''.join('abcdefghijk'[int(letter)] for letter in np.ravel(letters))}")


if __name__ == "__main__":
    main()
