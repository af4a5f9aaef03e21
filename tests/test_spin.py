"""--spin-us: processes of models and their threads poll before they sleep."""

import os
import signal

import numpy as np
import pytest
from harness.repository import config, per_request
from harness.waiting import wait_until

CALLER = """
call = pb_utils.InferenceRequest(
    model_name="echo", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", get(request, "IN"))]
)
return respond(OUT=pb_utils.get_output_tensor_by_name(call.exec(), "OUT").as_numpy() + os.getpid())
"""


@pytest.mark.parametrize("spin", ["0", "1000", "auto"])
def test_requests_calls_and_deaths(repository, serve, connect, spin):
    numbers = [("IN", "FP64", (-1,))], [("OUT", "FP64", (-1,))]
    repository.add_identity("echo", "FP64")
    repository.add("caller", "import os\n" + per_request(CALLER), config("caller", *numbers))
    server = serve(repository, "--spin-us", spin)
    client = connect("grpc", server)

    def pid(number):
        return int(client.infer("caller", {"IN": np.array([number])}).as_numpy("OUT")[0] - number)

    worker = pid(0.0)
    assert {pid(float(number)) for number in range(100)} == {worker}
    os.kill(worker, signal.SIGKILL)

    def healed():
        try:
            return pid(1.0) != worker
        except Exception as error:
            assert "not healthy" in str(error) or "UNAVAILABLE" in str(error), error

    wait_until(healed, what="the worker's restart")
    server.stop()
