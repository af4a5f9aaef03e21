"""Small line plots as SVG, made with only the standard library.

Both axes are logarithmic. Colours follow the reader's choice of light or dark.
"""

import dataclasses
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 34, 44
# The plot has its own background, because the page around it may be light on a dark system.
_STYLE = """
.back{fill:#fff}text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.grid{stroke:#ddd;stroke-width:1}
.peer{stroke:#767676;fill:#767676}.subject{stroke:#0b6bcb;fill:#0b6bcb}
.line{fill:none;stroke-width:2}.dashed{stroke-dasharray:5 4}text.peer,text.subject{stroke:none}
@media (prefers-color-scheme:dark){.back{fill:#161b22}text{fill:#ccc}.grid{stroke:#444}
.peer{stroke:#a5a5a5;fill:#a5a5a5}.subject{stroke:#5aa9f5;fill:#5aa9f5}.line{fill:none}}
"""


@dataclasses.dataclass(frozen=True)
class Line:
    title: str
    points: tuple  # (x, y), both above 0
    colour: str  # "peer" or "subject"
    dashed: bool = False


def ticks(low, high):
    """Returns round numbers (1, 2 or 5 times a power of ten) that span `low` to `high`, including one at or beyond each end."""
    steps = [
        factor * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factor in (1, 2, 5)
    ]
    first = max(index for index, step in enumerate(steps) if step <= low * 1.000001)
    last = min(index for index, step in enumerate(steps) if step >= high * 0.999999)
    chosen = steps[first : max(last, first + 1) + 1]
    # Over many decades, the powers of ten are enough.
    return chosen if len(chosen) <= 8 else [step for step in chosen if _is_end(step, chosen) or _is_power(step)]


def _is_power(value):
    return abs(math.log10(value) - round(math.log10(value))) < 1e-9


def _is_end(value, values):
    return value in (values[0], values[-1])


def short(value):
    """Formats a number of an axis: 0.2, 50, 10k, 2M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def line_plot(title, x_title, lines, x_labels):
    """Returns an SVG document. `x_labels`: {x: text} of the ticks. Lines without points are left out."""
    lines = [line for line in lines if line.points]
    if not lines:
        return ""
    y_ticks = ticks(*(pick(y for line in lines for _, y in line.points) for pick in (min, max)))
    # The end labels may have no points; a single label is centred.
    xs = sorted(x_labels)
    x_low, x_high = (xs[0], xs[-1]) if len(xs) > 1 else (xs[0] / 2, xs[0] * 2)

    def place_x(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(x / x_low) / math.log(x_high / x_low)

    def place_y(y):
        share = math.log(y / y_ticks[0]) / math.log(y_ticks[-1] / y_ticks[0])
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<text class="title" x="{LEFT}" y="18">{escape(title)}</text>',
    ]
    for value in y_ticks:
        y = place_y(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>')
    for value, label in x_labels.items():
        x = place_x(value)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(label)}</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>'
    )
    for index, line in enumerate(lines):
        places = [(place_x(x), place_y(y)) for x, y in line.points]
        kind = f"line {line.colour}" + (" dashed" if line.dashed else "")
        parts.append(f'<path class="{kind}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) + '"/>')
        parts += [f'<circle class="{line.colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places]
        y = TOP + 10 + 20 * index
        x = WIDTH - RIGHT + 12
        parts.append(f'<path class="{kind}" d="M{x} {y}h26"/>')
        parts.append(f'<text class="{line.colour}" x="{x + 32}" y="{y + 4}">{escape(line.title)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
