"""The rules of sequences as models for linearizable.py. The state: None without a sequence, otherwise its sum.

An operation asks (action, x), where the action is "start", "step" or "end". Its answer is one of

    ("sum", value)   the answer
    MISSING          there is no such sequence
    EXISTS           the sequence exists already
    REFUSED          an error of the server before the request ran
    FAILED           an error that may have ended the sequence
    LOST             the sequence has ended with the process that ran it
    None             the client received no answer

The operation (LOSE, 0) means: the process that ran a model's sequences was ended, and the sequences with it, unless
they survive it.
"""

import re

MISSING, EXISTS, ENDING, REFUSED, FAILED, LOST = "missing", "exists", "ending", "refused", "failed", "lost"
LOSE = "lose"

# The meaning of an error for the sequence, by its text; the first match counts.
TOLD = [
    (re.compile(r"does not exist|must specify the START flag"), MISSING),
    (re.compile(r"already exists"), EXISTS),
    (re.compile(r"last request is being processed"), ENDING),
    (re.compile(r"was lost when instance"), LOST),
    (re.compile(r"not healthy|ended \d+ times before|[Cc]ancel|the worker is gone"), FAILED),
    (re.compile(r"no instance of model|Server exiting|being unloaded|is being stopped|not ready|not found"), REFUSED),
]


def told(text):
    """Returns one of the words above, or None for an error that a client must not get."""
    return next((word for pattern, word in TOLD if pattern.search(text)), None)


def stateful(state, operation):
    """OpenVINO's stateful models (docs/stateful-models.md): one sequence of an id at a time; a failed request leaves no
    sequence."""
    what, x = operation.asked
    answer = operation.told
    if answer == REFUSED:
        return [state]
    if answer == MISSING:
        return [state] if what != "start" and state is None else []
    if answer == EXISTS:
        return [state] if what == "start" and state is not None else []
    if answer in (FAILED, LOST):
        return []
    if (state is None) != (what == "start"):
        return [state] if answer is None else []
    total = (state or 0) + x
    if answer is not None and answer != ("sum", total):
        return []
    return [None if what == "end" else total]


def batched(state, operation):
    """Sequences of Triton's models (docs/sequences.md): a start begins anew; the sequence of a disconnected client may
    end."""
    what, x = operation.asked
    answer = operation.told
    if what == LOSE or answer == LOST:
        return [None]
    if answer == FAILED:
        return [state, None]
    if answer == REFUSED:
        return [state]
    if answer == MISSING:
        return [state] if what != "start" and state is None else []
    if answer == EXISTS:
        return []
    if what != "start" and state is None:
        return [None] if answer is None else []
    total = x if what == "start" else state + x
    after = None if what == "end" else total
    if answer is None:
        return list({state, None, after})
    return [after] if answer == ("sum", total) else []
