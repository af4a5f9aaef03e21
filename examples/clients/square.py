"""Asks square for the squares of 1 to 4."""

import numpy as np
from connection import parse_arguments, stream

module, url = parse_arguments(__doc__)

responses = stream(module, url, "square", {"NUMBER": (np.array([4], dtype=np.int32), "INT32")})
print(" ".join(str(np.ravel(response["SQUARE"])[0]) for response in responses))
