"""The sum of all numbers of a client's stream so far.

`self` is shared by all streams and requests; `session` belongs to one of them, and goes with it.
"""

import numpy as np
from pyovms import Tensor


class OvmsPythonModel:
    def execute(self, inputs, session):
        total = getattr(session, "total", 0) + np.array(inputs[0])
        session.total = total
        return [Tensor("sum", total)]

    def end_session(self, session):
        print(f"session {session.id} has ended")
