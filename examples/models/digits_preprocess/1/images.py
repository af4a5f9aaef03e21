"""Reads images with only numpy and the standard library, and normalizes the size and position of digits."""

import struct
import zlib

import numpy as np

SIDE = 16
MOST_PIXELS = 16_000_000
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # of PNG's colour types: grey, RGB, grey and alpha, RGBA


def decode(file):
    """Returns a PNG (8 bit, not interlaced), PGM or PPM (binary) as an array of grey values from 0 to 1."""
    if file.startswith(b"\x89PNG\r\n\x1a\n"):
        return decode_png(file)
    if file[:2] in (b"P5", b"P6"):
        return decode_pnm(file)
    raise ValueError("neither a PNG nor a binary PGM or PPM file")


def to_grey(pixels):
    if pixels.shape[2] >= 3:
        return pixels[:, :, :3] @ np.array([0.299, 0.587, 0.114])
    return pixels[:, :, 0]


def check_size(width, height):
    if not 0 < width * height <= MOST_PIXELS:
        raise ValueError(f"{width} x {height} pixels; at most {MOST_PIXELS} are read")


def decode_pnm(file):
    fields = file.split(maxsplit=4)
    if len(fields) < 4 or not all(field.isdigit() for field in fields[1:4]):
        raise ValueError("the header of the PGM or PPM file is broken")
    width, height, most = (int(field) for field in fields[1:4])
    check_size(width, height)
    if most != 255:
        raise ValueError("PGM and PPM files must have 8 bits a channel")
    channels = 3 if file[:2] == b"P6" else 1
    size = width * height * channels
    if len(file) < size + 11:
        raise ValueError("the PGM or PPM file is too short")
    return to_grey(np.frombuffer(file[-size:], np.uint8).reshape(height, width, channels) / 255)


def decode_png(file):
    header, data = None, b""
    at = 8
    while at + 12 <= len(file):
        (length,) = struct.unpack(">I", file[at : at + 4])
        kind, body = file[at + 4 : at + 8], file[at + 8 : at + 8 + length]
        if kind == b"IHDR" and len(body) == 13:
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    if header is None:
        raise ValueError("the PNG file has no header")
    width, height, depth, colour, _, _, interlaced = header
    check_size(width, height)
    if depth != 8 or colour not in CHANNELS or interlaced:
        raise ValueError("PNG files must have 8 bits a channel, no palette, and not be interlaced")
    channels = CHANNELS[colour]
    stride = width * channels
    try:
        rows = zlib.decompressobj().decompress(data, height * (stride + 1))
    except zlib.error as error:
        raise ValueError(f"the PNG file is broken: {error}") from None
    if len(rows) < height * (stride + 1):
        raise ValueError("the PNG file is too short")
    rows = np.frombuffer(rows, np.uint8).reshape(height, stride + 1)
    return to_grey(unfilter(rows, channels).reshape(height, width, channels) / 255)


def unfilter(rows, channels):
    """Undoes PNG's prediction of each byte from those to the left and above."""
    out = np.zeros((len(rows) + 1, rows.shape[1] - 1 + channels), np.int32)  # with a border of zeros
    for y, row in enumerate(rows, 1):
        kind, line, above = row[0], out[y], out[y - 1]
        line[channels:] = row[1:]
        if kind == 2:
            line[channels:] += above[channels:]
        elif kind == 1:
            for c in range(channels):
                line[channels + c :: channels] = np.cumsum(line[channels + c :: channels])
        elif kind == 3:
            for x in range(channels, len(line)):
                line[x] = (line[x] + (line[x - channels] + above[x]) // 2) & 255
        elif kind == 4:
            for x in range(channels, len(line)):
                line[x] = (line[x] + paeth(line[x - channels], above[x], above[x - channels])) & 255
        elif kind != 0:
            raise ValueError(f"the PNG file has a row of unknown filter {kind}")
        line &= 255
    return out[1:, channels:].astype(np.uint8)


def paeth(left, above, corner):
    guess = left + above - corner
    distances = (abs(guess - left), abs(guess - above), abs(guess - corner))
    return (left, above, corner)[distances.index(min(distances))]


def normalize(grey):
    """Returns the digit, light on dark, cropped and scaled to fit SIDE x SIDE with its proportions kept."""
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    ink = np.abs(grey - np.median(border))
    if ink.max() < 0.1:
        raise ValueError("the image is empty")
    ink = ink / ink.max()
    ys, xs = np.nonzero(ink > 0.3)
    ink = ink[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]
    height, width = ink.shape
    side = max(height, width)
    square = np.zeros((side, side))
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width] = ink
    return resize(square, SIDE).astype(np.float32)


def resize(square, side):
    """Resizes by averages over areas, which works for larger and smaller images."""
    edges = np.linspace(0, len(square), side + 1)
    weights = np.clip(np.minimum(edges[1:, None], np.arange(1, len(square) + 1))
                      - np.maximum(edges[:-1, None], np.arange(len(square))), 0, None)  # fmt: skip
    weights /= weights.sum(axis=1, keepdims=True)
    return weights @ square @ weights.T
