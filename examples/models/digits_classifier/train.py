"""Makes 1/weights.npz: trains the classifier on drawings of digits with random distortion, blur and noise.

python3 examples/models/digits_classifier/train.py
"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "digits_preprocess" / "1"))
from images import normalize  # noqa: E402

# Strokes as points from 0 to 1, with x to the right and y down. Some digits can be drawn in several ways.
CIRCLE = [(0.5 + 0.5 * np.sin(a), 0.5 - 0.5 * np.cos(a)) for a in np.linspace(0, 2 * np.pi, 17)]


def circle(x, y, width, height):
    return [(x + width * cx, y + height * cy) for cx, cy in CIRCLE]


DIGITS = [
    [[circle(0.1, 0, 0.8, 1)], [[(0.2, 0), (0.8, 0), (0.8, 1), (0.2, 1), (0.2, 0)]]],
    [[[(0.5, 0), (0.5, 1)]], [[(0.25, 0.25), (0.55, 0), (0.55, 1)]],
     [[(0.25, 0.25), (0.5, 0), (0.5, 1)], [(0.2, 1), (0.8, 1)]]],
    [[[(0.15, 0.25), (0.3, 0.03), (0.7, 0.03), (0.85, 0.25), (0.75, 0.5), (0.15, 1), (0.85, 1)]],
     [[(0.2, 0), (0.8, 0), (0.8, 0.5), (0.2, 0.5), (0.2, 1), (0.8, 1)]]],
    [[[(0.15, 0.05), (0.8, 0.05), (0.45, 0.42), (0.85, 0.7), (0.6, 1), (0.15, 0.92)]],
     [[(0.2, 0), (0.8, 0), (0.8, 1), (0.2, 1)], [(0.2, 0.5), (0.8, 0.5)]],
     [[(0.15, 0.15), (0.5, 0), (0.8, 0.2), (0.45, 0.48), (0.85, 0.75), (0.5, 1), (0.15, 0.88)]]],
    [[[(0.7, 1), (0.7, 0), (0.1, 0.68), (0.9, 0.68)]], [[(0.2, 0), (0.2, 0.5), (0.8, 0.5)], [(0.8, 0), (0.8, 1)]]],
    [[[(0.8, 0), (0.2, 0), (0.2, 0.45), (0.65, 0.42), (0.85, 0.7), (0.6, 1), (0.15, 0.95)]],
     [[(0.8, 0), (0.2, 0), (0.2, 0.5), (0.8, 0.5), (0.8, 1), (0.2, 1)]]],
    [[[(0.7, 0), (0.3, 0.35), (0.15, 0.7)], circle(0.15, 0.45, 0.7, 0.55)],
     [[(0.8, 0), (0.2, 0), (0.2, 1), (0.8, 1), (0.8, 0.5), (0.2, 0.5)]]],
    [[[(0.15, 0), (0.85, 0), (0.4, 1)]], [[(0.15, 0), (0.85, 0), (0.45, 1)], [(0.3, 0.5), (0.8, 0.5)]],
     [[(0.2, 0), (0.8, 0), (0.8, 1)]]],
    [[circle(0.2, 0, 0.6, 0.47), circle(0.12, 0.47, 0.76, 0.53)],
     [[(0.2, 0), (0.8, 0), (0.8, 1), (0.2, 1), (0.2, 0)], [(0.2, 0.5), (0.8, 0.5)]]],
    [[circle(0.15, 0, 0.7, 0.55), [(0.85, 0.3), (0.7, 0.7), (0.4, 1)]],
     [[(0.8, 0.5), (0.2, 0.5), (0.2, 0), (0.8, 0), (0.8, 1), (0.2, 1)]]],
]  # fmt: skip


def draw(digit, random, side=32):
    """Returns one drawing as grey values of an image."""
    ways = DIGITS[digit]
    strokes = ways[random.integers(len(ways))]
    bend = np.eye(2) + random.normal(0, 0.12, (2, 2))
    scale = side * random.uniform(0.5, 0.75) * np.array([random.uniform(0.55, 1.0), 1.0])
    thickness = random.uniform(0.9, 2.2)
    y, x = np.mgrid[0:side, 0:side] + 0.5
    ink = np.zeros((side, side))
    for stroke in strokes:
        points = ((np.array(stroke) - 0.5 + random.normal(0, 0.02, (len(stroke), 2))) @ bend) * scale + side / 2
        for (ax, ay), (bx, by) in zip(points[:-1], points[1:], strict=True):
            along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 + 1e-9)
            along = np.clip(along, 0, 1)
            distance = np.hypot(x - ax - along * (bx - ax), y - ay - along * (by - ay))
            ink = np.maximum(ink, np.clip(thickness + 0.5 - distance, 0, 1))
    return np.clip(ink + random.normal(0, random.uniform(0, 0.06), ink.shape), 0, 1)


def make(count, random):
    labels = random.integers(10, size=count)
    return np.stack([normalize(draw(label, random)).ravel() for label in labels]), labels


def train(pixels, labels, random, hidden=32, rounds=30, rate=0.002):
    """Trains with Adam on the cross entropy."""
    shapes = [(256, hidden), (hidden,), (hidden, 10), (10,)]
    weights = [
        random.normal(0, (2 / shape[0]) ** 0.5, shape) if len(shape) == 2 else np.zeros(shape) for shape in shapes
    ]
    first, second = [np.zeros(s) for s in shapes], [np.zeros(s) for s in shapes]
    step = 0
    for _ in range(rounds):
        for batch in np.array_split(random.permutation(len(pixels)), len(pixels) // 64):
            w1, b1, w2, b2 = weights
            x = pixels[batch]
            h = np.maximum(x @ w1 + b1, 0)
            logits = h @ w2 + b2
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(batch)), labels[batch]] -= 1
            p /= len(batch)
            dh = (p @ w2.T) * (h > 0)
            step += 1
            for i, gradient in enumerate([x.T @ dh, dh.sum(axis=0), h.T @ p, p.sum(axis=0)]):
                first[i] = 0.9 * first[i] + 0.1 * gradient
                second[i] = 0.999 * second[i] + 0.001 * gradient**2
                weights[i] -= rate * first[i] / (1 - 0.9**step) / (np.sqrt(second[i] / (1 - 0.999**step)) + 1e-8)
    return weights


def main():
    random = np.random.default_rng(7)
    pixels, labels = make(8000, random)
    weights = train(pixels, labels, random)
    seen, truth = make(1000, random)
    w1, b1, w2, b2 = weights
    right = (np.maximum(seen @ w1 + b1, 0) @ w2 + b2).argmax(axis=1) == truth
    print(f"{right.mean():.1%} of 1000 other drawings are recognised")
    names = ("w1", "b1", "w2", "b2")
    np.savez(HERE / "1" / "weights.npz", **{n: w.astype(np.float16) for n, w in zip(names, weights, strict=True)})


if __name__ == "__main__":
    main()
