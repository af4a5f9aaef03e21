"""save_sequence and load_sequence: with these two functions of a model, the server can save its sequences."""

import inspect

FUNCTIONS = ("save_sequence", "load_sequence")


class SequenceError(Exception):
    """One of the functions has failed for a sequence."""

    def __init__(self, function: str, model: str, correlation_id: int | str, error: BaseException):
        from braid_worker import errors

        super().__init__(
            f"{function} of model '{model}' failed for sequence {correlation_id}: {errors.message_of(error)}"
        )


def saves(model_class: type, decoupled: bool) -> bool:
    """Whether the model has both. Raises TypeError for invalid definitions."""
    found = [function for function in FUNCTIONS if hasattr(model_class, function)]
    if not found:
        return False
    if len(found) == 1:
        missing = next(function for function in FUNCTIONS if function not in found)
        raise TypeError(f"the model defines {found[0]} and not {missing}: a sequence is kept with both alone")
    for function in found:
        if not callable(getattr(model_class, function)) or inspect.iscoroutinefunction(getattr(model_class, function)):
            raise TypeError(f"{function} must be a function, and no coroutine function")
    if decoupled:
        raise TypeError(
            "a decoupled model cannot have save_sequence and load_sequence: nothing tells when a step of it is over"
        )
    return True
