"""Checks whether a history of concurrent operations could come from a sequential model: the algorithm of Wing and Gong
with the memory of Lowe, for nondeterministic models.

A model is a function step(state, operation). It returns the possible states after the operation, or none if the answer
is impossible in that state. Histories of different keys are independent (P-compositionality), so each history has one
key.
"""

import dataclasses
import math
from collections.abc import Hashable


@dataclasses.dataclass(frozen=True)
class Operation:
    """A request and its answer, with the times of both. If `optional`, the operation may not have happened at all."""

    invoked: float
    returned: float  # math.inf: unknown
    asked: Hashable
    told: Hashable
    optional: bool = False


class TooManyStatesError(Exception):
    """The check was given up without a result."""


def linearization(history, step, initial, most=2_000_000):
    """Returns the operations in an order that explains the history; None if there is none."""
    order = sorted(history, key=lambda operation: operation.invoked)
    required = sum(1 << place for place, operation in enumerate(order) if not operation.optional)
    seen = {(0, initial)}
    # Depth first. Each entry is (operations so far, state, last operation, previous entry).
    stack = [(0, initial, None, None)]
    while stack:
        entry = stack.pop()
        done, state = entry[:2]
        if done & required == required:
            return _path(entry, order)
        # An operation that returned before another one was invoked precedes it.
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
            # An optional operation not in the order so far did not happen, if a later one has: no operation invoked
            # after its end may precede it.
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
    """Whether the order already has an operation invoked after `operation` had returned."""
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
    """Returns the shortest prefix of a history, by return times, that no order explains; for people to read."""
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
    """Returns the history as known at a moment: an operation without an answer then may or may not have happened."""
    return [
        operation
        if operation.returned <= moment
        else dataclasses.replace(operation, returned=math.inf, told=None, optional=True)
        for operation in history
        if operation.invoked <= moment
    ]
