"""Straight lines through measurements, with confidence intervals of their slopes."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Slope:
    """The change of a value per hour, in percent of its mean, and half the width of its 95 % confidence interval."""

    percent_per_hour: float
    uncertainty: float

    def exceeds(self, limit):
        """Whether it is certainly above the limit."""
        return self.percent_per_hour - self.uncertainty > limit

    def undecided(self, limit):
        """Whether the measurements cannot decide that."""
        return not self.exceeds(limit) and self.percent_per_hour + self.uncertainty > limit


# Student's t at 97.5 % for 1, 2, ... degrees of freedom; the last value is for more.
STUDENT = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10,
           2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04]  # fmt: skip
STUDENT_MANY = 1.98


def slope(points):
    """Fits [(seconds, value)] by least squares. Needs at least three points at different times."""
    count = len(points)
    mean_time = sum(time for time, _ in points) / count
    mean = sum(value for _, value in points) / count
    spread = sum((time - mean_time) ** 2 for time, _ in points)
    rise = sum((time - mean_time) * (value - mean) for time, value in points) / spread
    left = sum((value - mean - rise * (time - mean_time)) ** 2 for time, value in points)
    freedom = count - 2
    student = STUDENT[freedom - 1] if freedom <= len(STUDENT) else STUDENT_MANY
    error = student * math.sqrt(left / freedom / spread)
    scale = 3600 * 100 / mean if mean else 0.0
    return Slope(rise * scale, error * scale)


def averages(points, seconds):
    """Returns the mean of each interval of some seconds. Neighbouring points are correlated, and would make a slope
    seem too certain."""
    groups = {}
    for time, value in points:
        groups.setdefault(int((time - points[0][0]) // seconds), []).append((time, value))
    full = list(groups.values())[:-1] if len(groups) > 3 else list(groups.values())
    return [tuple(sum(part) / len(group) for part in zip(*group, strict=True)) for group in full]
