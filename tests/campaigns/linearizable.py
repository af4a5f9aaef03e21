"""Whether a history of concurrent operations could have come from a sequential model: the algorithm of Wing and Gong, with the
memory of Lowe, on models that may go on in several ways.

A model is a function step(state, operation) that gives the states in which the operation may leave it, none when it cannot have
answered so in that state. Histories of different keys are independent of each other (P-compositionality), so a history is of one.
"""

import dataclasses
import math
from collections.abc import Hashable


@dataclasses.dataclass(frozen=True)
class Operation:
    """What a client asked and was told, from when to when. Of one that is `optional` nobody knows whether it took place at all."""

    invoked: float
    returned: float  # math.inf: nobody knows
    asked: Hashable
    told: Hashable
    optional: bool = False


class TooManyStatesError(Exception):
    """The check was given up: neither yes nor no."""


def linearization(history, step, initial, most=2_000_000):
    """The operations in an order that explains the history, or None when there is none."""
    order = sorted(history, key=lambda operation: operation.invoked)
    required = sum(1 << place for place, operation in enumerate(order) if not operation.optional)
    seen = {(0, initial)}
    # Depth first; each entry: (operations that took place, state, which was the last, the entry before).
    stack = [(0, initial, None, None)]
    while stack:
        entry = stack.pop()
        done, state = entry[:2]
        if done & required == required:
            return _path(entry, order)
        # What has returned before another one was invoked came before it.
        horizon = min(
            (
                operation.returned
                for place, operation in enumerate(order)
                if not done >> place & 1 and not operation.optional
            ),
            default=math.inf,
        )
        for place in range(len(order) - 1, -1, -1):
            operation = order[place]
            if done >> place & 1 or operation.invoked > horizon:
                continue
            # An optional one that was not done in time did not take place: those that began after its end may not come before it.
            if operation.optional and _passed(order, done, operation):
                continue
            after = done | 1 << place
            for changed in step(state, operation):
                if (after, changed) not in seen:
                    if len(seen) >= most:
                        raise TooManyStatesError(f"more than {most} states")
                    seen.add((after, changed))
                    stack.append((after, changed, place, entry))
    return None


def _passed(order, done, operation):
    """Whether something took place already that was invoked after `operation` had returned."""
    if operation.returned == math.inf:
        return False
    return any(done >> place & 1 and each.invoked > operation.returned for place, each in enumerate(order))


def _path(entry, order):
    places = []
    while entry[2] is not None:
        places.append(order[entry[2]])
        entry = entry[3]
    return places[::-1]


def unexplained(history, step, initial):
    """The shortest beginning of a history, by the times of its answers, that no order explains; for people to look at."""
    answers = sorted(operation.returned for operation in history if operation.returned < math.inf)
    low, high = 0, len(answers) - 1
    while low < high:
        middle = (low + high) // 2
        if linearization(until(history, answers[middle]), step, initial) is None:
            high = middle
        else:
            low = middle + 1
    return sorted(until(history, answers[low]), key=lambda operation: operation.invoked)


def until(history, moment):
    """What was known at a moment: what had no answer then may have taken place or not."""
    return [
        operation
        if operation.returned <= moment
        else dataclasses.replace(operation, returned=math.inf, told=None, optional=True)
        for operation in history
        if operation.invoked <= moment
    ]
