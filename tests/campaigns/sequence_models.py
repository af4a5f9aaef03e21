"""What sequences have to do, as models for linearizable.py: the state is None where there is no sequence, else its sum.

An operation asks (what, x), what being "start", "step" or "end", and is told one of

    ("sum", value)   the answer
    MISSING          there is no such sequence
    EXISTS           there is one already
    REFUSED          an error of the server's, before the request ran
    FAILED           an error by which the sequence may have ended
    LOST             the sequence has ended with what ran it
    None             nothing that the client has heard

or is (LOSE, 0): what ran the sequences of a model was ended, and they with it where they did not outlast it.
"""

import re

MISSING, EXISTS, ENDING, REFUSED, FAILED, LOST = "missing", "exists", "ending", "refused", "failed", "lost"
LOSE = "lose"

# What an error says of the sequence, by its text; the first that fits.
TOLD = [
    (re.compile(r"does not exist|must specify the START flag"), MISSING),
    (re.compile(r"already exists"), EXISTS),
    (re.compile(r"last request is being processed"), ENDING),
    (re.compile(r"was lost when instance"), LOST),
    (re.compile(r"not healthy|ended \d+ times before|[Cc]ancel|the worker is gone"), FAILED),
    (re.compile(r"no instance of model|Server exiting|being unloaded|is being stopped|not ready|not found"), REFUSED),
]


def told(text):
    """One of the words above, or None for an error that a client must not be given."""
    return next((word for pattern, word in TOLD if pattern.search(text)), None)


def stateful(state, operation):
    """OpenVINO's stateful models (docs/stateful-models.md): one sequence of an id at a time; a request that fails leaves nothing."""
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
    """Sequences of Triton's models (docs/sequences.md): a start begins anew; one whose client goes away may end."""
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
