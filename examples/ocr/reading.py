"""The steps of reading a picture between the two networks, in numpy and OpenCV; examples/custom_nodes has the same in C++.

page(file)          an image file -> a page [1,h,w,3] for the detection
find(page, map)     the map that the detection made -> the boxes [n,4] of lines of text, and pictures [n,48,w,3] of them
decode(...)         what the recognition chose at each step -> texts
"""

import pathlib

import cv2
import numpy as np

LONGEST = 1280  # pixels of a page's longer side; larger pictures are scaled down
STEP = 32  # the detection wants multiples of it
HEIGHT = 48  # of a line's picture
SURE = 0.3  # a pixel that is surer than this is text
MEAN_SURE = 0.5  # of all pixels of a line
SMALLEST = 4  # pixels of a line's height and width
GROWTH = 1.6  # the map shows the core of a line: its box grows by this times its area over its girth
PADDING = 127.5  # what becomes zero in the network


def page(file):
    """Raises a ValueError when the bytes are no image."""
    image = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR) if file else None
    if image is None:
        raise ValueError("not an image that OpenCV can decode")
    scale = min(1.0, LONGEST / max(image.shape[:2]))
    image = image.astype(np.float32)
    if scale < 1:
        size = [max(1, int(side * scale + 0.5)) for side in (image.shape[1], image.shape[0])]
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    below, right = (-image.shape[0] % STEP, -image.shape[1] % STEP)
    return cv2.copyMakeBorder(image, 0, below, 0, right, cv2.BORDER_REPLICATE)[None]


def boxes_of(probabilities):
    """[n,4]: left, top, right, bottom, in pixels; from top to bottom, and in a row from left to right."""
    text = (probabilities > SURE).astype(np.uint8)
    _, places, stats, _ = cv2.connectedComponentsWithStats(text, connectivity=8)
    found = []
    for index, (left, top, width, height, pixels) in enumerate(stats.tolist()):
        if index == 0 or min(width, height) < SMALLEST:
            continue  # 0 is what is no text
        if probabilities[places == index].sum() / pixels < MEAN_SURE:
            continue
        growth = int(GROWTH * width * height / (2 * (width + height)) + 0.5)
        found.append(
            (
                max(0, left - growth),
                max(0, top - growth),
                min(probabilities.shape[1], left + width + growth),
                min(probabilities.shape[0], top + height + growth),
            )
        )
    # A row is what begins above the middle of its first line.
    rows = []
    for box in sorted(found, key=lambda box: (box[1], box[0])):
        if rows and box[1] < (rows[-1][0][1] + rows[-1][0][3]) / 2:
            rows[-1].append(box)
        else:
            rows.append([box])
    return np.array([box for row in rows for box in sorted(row)], np.int32).reshape(-1, 4)


def find(page, probabilities):
    """(boxes [n,4], lines [n,48,w,3]): w is that of the longest line, the others are padded."""
    boxes = boxes_of(probabilities.reshape(probabilities.shape[-2:]))
    pictures = []
    for left, top, right, bottom in boxes.tolist():
        width = max(HEIGHT, int((right - left) * HEIGHT / (bottom - top) + 0.5))
        pictures.append(cv2.resize(page[0, top:bottom, left:right], (width, HEIGHT), interpolation=cv2.INTER_LINEAR))
    longest = max((picture.shape[1] for picture in pictures), default=HEIGHT)
    lines = np.full((len(pictures), HEIGHT, longest, 3), PADDING, np.float32)
    for line, picture in zip(lines, pictures, strict=True):
        line[:, : picture.shape[1]] = picture
    return boxes, lines


def characters(folder):
    """The characters by index, from the file that prepare.py wrote."""
    return (pathlib.Path(folder) / "characters.txt").read_text(encoding="utf-8").split("\n")[:-1]


def decode(indices, characters):
    """[n,t] -> n texts: what is chosen several times in a row counts once, and index 0 is none."""
    texts = []
    for row in indices:
        kept = row[(row != 0) & np.concatenate([[True], row[1:] != row[:-1]])]
        texts.append("".join(characters[index] for index in kept))
    return texts
