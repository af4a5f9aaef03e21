"""A second check of sequence histories by porcupine, if scripts/public-clients could build it."""

import json
import math
import subprocess

from harness.public_clients import INSTALLED

PROGRAM = INSTALLED / "porcupine" / "porcupine"


def available():
    return PROGRAM.exists()


def verdicts(histories):
    """Returns [True, False or None] for [(model's name, operations)]: whether there is an order; None: undecided after
    20 seconds."""
    asked = [{"model": model, "operations": [_plain(each) for each in history]} for model, history in histories]
    done = subprocess.run([PROGRAM], input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True)
    return [{"Ok": True, "Illegal": False, "Unknown": None}[verdict] for verdict in json.loads(done.stdout)]


def _plain(operation):
    what, x = operation.asked
    told, value = operation.told if isinstance(operation.told, tuple) else (operation.told or "", 0)
    returned = -1 if operation.returned == math.inf else int(operation.returned * 1e9)
    return {"call": int(operation.invoked * 1e9), "return": returned, "what": what, "x": x, "told": told, "sum": value}
