"""Draws digits, sends them to the ensemble digits as PNG files, and prints its results."""

import struct
import zlib

import numpy as np
from connection import as_input, parse_arguments

DRAWINGS = """
...####....  ....##.....  ..#####....  ......##...
..##..##...  ...###.....  .##...##...  .....###...
.##....##..  ..####.....  ......##...  ....####...
.##....##..  ....##.....  .....##....  ...##.##...
.##....##..  ....##.....  ....##.....  ..##..##...
.##....##..  ....##.....  ...##......  .########..
..##..##...  ....##.....  ..##.......  ......##...
...####....  ....##.....  .########..  ......##...
"""


def png(grey):
    """Returns a PNG file of an array of grey values."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = grey.shape
    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def drawings():
    """Returns four arrays, one for each column of the text: dark on light, three pixels per character."""
    lines = [line.split() for line in DRAWINGS.strip().splitlines()]
    for column in zip(*lines, strict=True):
        ink = np.array([[char == "#" for char in line] for line in column])
        yield np.pad(np.where(ink, 20, 230), 2, constant_values=230).repeat(3, 0).repeat(3, 1).astype(np.uint8)


module, url = parse_arguments(__doc__)
client = module.InferenceServerClient(url)
files = np.array([[png(grey)] for grey in drawings()], dtype=np.object_)
result = client.infer("digits", [as_input(module, "IMAGE", files, "BYTES")])
for drawn, read, confidence in zip("0124", result.as_numpy("DIGIT"), result.as_numpy("CONFIDENCE"), strict=True):
    print(f"drawn {drawn}, read {read[0].decode()} ({confidence[0]:.0%} sure)")
