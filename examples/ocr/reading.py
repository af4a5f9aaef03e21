"""The steps of reading a picture between the two networks, in numpy and OpenCV; examples/custom_nodes has the same in C++.

page(file)          an image file -> a page [1,h,w,3] for the detection
find(page, map)     the detection's map -> the boxes [n,4] of lines of text, and pictures [n,48,w,3] of them
decode(...)         the recognition's index at each step -> texts
"""

import pathlib

import cv2
import numpy as np

LONGEST = 1280  # pixels of a page's longer side; larger pictures are scaled down
STEP = 32  # the detection needs multiples of it
HEIGHT = 48  # the height of a line's picture
SURE = 0.3  # a pixel with a higher probability is text
MEAN_SURE = 0.5  # the least mean probability of a line's pixels
SMALLEST = 4  # the least height and width of a line, in pixels
GROWTH = 1.6  # the map shows the core of a line: its box grows by this times its area divided by its perimeter
PADDING = 127.5  # becomes zero in the network


def page(file):
    """Makes a page of an image file. Raises a ValueError if the bytes are not an image."""
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
    """Returns boxes [n,4]: left, top, right, bottom, in pixels; sorted from top to bottom, and in a row from left to right."""
    text = (probabilities > SURE).astype(np.uint8)
    _, places, stats, _ = cv2.connectedComponentsWithStats(text, connectivity=8)
    found = []
    for index, (left, top, width, height, pixels) in enumerate(stats.tolist()):
        if index == 0 or min(width, height) < SMALLEST:
            continue  # component 0 is the background
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
    # A box belongs to a row if it begins above the middle of the row's first box.
    rows = []
    for box in sorted(found, key=lambda box: (box[1], box[0])):
        if rows and box[1] < (rows[-1][0][1] + rows[-1][0][3]) / 2:
            rows[-1].append(box)
        else:
            rows.append([box])
    return np.array([box for row in rows for box in sorted(row)], np.int32).reshape(-1, 4)


def find(page, probabilities):
    """Returns (boxes [n,4], lines [n,48,w,3]). The longest line sets w; the others are padded."""
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
    """Returns the characters by index, from the file that prepare.py wrote."""
    return (pathlib.Path(folder) / "characters.txt").read_text(encoding="utf-8").split("\n")[:-1]


def decode(indices, characters):
    """Converts [n,t] to n texts: repeated indexes count once, and index 0 means no character."""
    texts = []
    for row in indices:
        kept = row[(row != 0) & np.concatenate([[True], row[1:] != row[:-1]])]
        texts.append("".join(characters[index] for index in kept))
    return texts
