"""Large tensors over both protocols, without several copies in this process: 64 MiB, and a gigabyte in nightly runs."""

import json

import numpy as np
import pytest
from harness.repository import config, per_request
from harness.server import marked_processes
from harness.waiting import wait_until

MOST = 2**30
SIZES = pytest.mark.parametrize("size", [2**26, pytest.param(MOST, marks=pytest.mark.campaign)], ids=["64M", "1G"])

PIECE = bytes(range(256)) * 2**14  # 4 MiB

SUM = per_request("return respond(SUM=get(request, 'IN').sum(dtype=np.uint64).reshape(1))")


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    module_repository.add_identity("identity", "UINT8", [-1])
    module_repository.add("sum", SUM, config("sum", [("IN", "UINT8", [-1])], [("SUM", "UINT64", [1])]))
    return module_serve(
        module_repository, f"--http-max-input-size={MOST + 2**20}", f"--grpc-max-input-size={MOST + 2**20}"
    )


def send_over_http(server, model, size, **parameters):
    """Returns the answer to a tensor of `size` bytes, which repeatedly count from 0 to 255."""
    description = {
        "parameters": parameters,
        "inputs": [{"name": "IN", "shape": [size], "datatype": "UINT8", "parameters": {"binary_data_size": size}}],
    }
    head = json.dumps(description).encode()
    connection = server.connection(timeout=100)
    connection.putrequest("POST", f"/v2/models/{model}/infer")
    connection.putheader("Content-Length", str(len(head) + size))
    connection.putheader("Inference-Header-Content-Length", str(len(head)))
    connection.endheaders(head)
    for _ in range(size // len(PIECE)):
        connection.send(PIECE)
    response = connection.getresponse()
    assert response.status == 200
    return response


@SIZES
def test_there_and_back_over_http(server, size):
    with send_over_http(server, "identity", size, binary_data_output=True) as response:
        answer = json.loads(response.read(int(response.headers["Inference-Header-Content-Length"])))
        assert answer["outputs"][0]["shape"] == [size]
        for _ in range(size // len(PIECE)):
            assert response.read(len(PIECE)) == PIECE
        assert response.read() == b""


@SIZES
def test_over_grpc(server, connect, size):
    sent = np.ones(size, dtype=np.uint8)
    result = connect("grpc", server).infer("sum", {"IN": sent})
    assert result.as_numpy("SUM").tolist() == [size]


# In pieces over HTTP, this process needs less time than with the gRPC client.
@pytest.mark.parametrize("protocol", ["http", pytest.param("grpc", marks=pytest.mark.campaign)])
def test_tensor_memory_is_given_back(server, connect, protocol):
    # After the burst, the server and its models keep at most the size of their arenas (64 MiB each).
    kept = 4 * 64 * 2**20

    def tensor_memory():
        total = 0
        for pid in marked_processes(server.mark):
            with open(f"/proc/{pid}/smaps_rollup") as rollup:
                total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss_Shmem:"))
        return total * 1024

    burst = kept + 64 * 2**20
    if protocol == "http":
        with send_over_http(server, "sum", burst) as response:
            assert json.load(response)["outputs"][0]["data"] == [burst // 256 * sum(range(256))]
    else:
        connect("grpc", server).infer("sum", {"IN": np.ones(burst, dtype=np.uint8)})
    wait_until(lambda: tensor_memory() <= kept, 30, "the memory to be given back", interval=0.1)
