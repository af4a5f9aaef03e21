"""A gigabyte in one tensor, over both protocols, without holding several copies in this process."""

import json

import numpy as np
import pytest
from harness.repository import config, per_request
from harness.server import marked_processes
from harness.waiting import wait_until

SIZE = 2**30

SUM = per_request("return respond(SUM=get(request, 'IN').sum(dtype=np.uint64).reshape(1))")


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    module_repository.add_identity("identity", "UINT8", [-1])
    module_repository.add("sum", SUM, config("sum", [("IN", "UINT8", [-1])], [("SUM", "UINT64", [1])]))
    return module_serve(
        module_repository, f"--http-max-input-size={SIZE + 2**20}", f"--grpc-max-input-size={SIZE + 2**20}"
    )


@pytest.mark.large
def test_gigabyte_there_and_back_over_http(server):
    piece = bytes(range(256)) * 2**14  # 4 MiB
    description = {
        "parameters": {"binary_data_output": True},
        "inputs": [{"name": "IN", "shape": [SIZE], "datatype": "UINT8", "parameters": {"binary_data_size": SIZE}}],
    }
    head = json.dumps(description).encode()
    connection = server.connection(timeout=100)
    connection.putrequest("POST", "/v2/models/identity/infer")
    connection.putheader("Content-Length", str(len(head) + SIZE))
    connection.putheader("Inference-Header-Content-Length", str(len(head)))
    connection.endheaders(head)
    for _ in range(SIZE // len(piece)):
        connection.send(piece)
    response = connection.getresponse()
    assert response.status == 200
    answer = json.loads(response.read(int(response.headers["Inference-Header-Content-Length"])))
    assert answer["outputs"][0]["shape"] == [SIZE]
    for _ in range(SIZE // len(piece)):
        assert response.read(len(piece)) == piece
    assert response.read() == b""
    connection.close()


@pytest.mark.large
def test_gigabyte_over_grpc(server, connect):
    sent = np.ones(SIZE, dtype=np.uint8)
    result = connect("grpc", server).infer("sum", {"IN": sent})
    assert result.as_numpy("SUM").tolist() == [SIZE]


@pytest.mark.large
def test_tensor_memory_is_given_back(server, connect):
    # After the burst, the server and its models keep no more than their arenas may (64 MiB each).
    def tensor_memory():
        total = 0
        for pid in marked_processes(server.mark):
            with open(f"/proc/{pid}/smaps_rollup") as rollup:
                total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss_Shmem:"))
        return total * 1024

    connect("grpc", server).infer("sum", {"IN": np.ones(SIZE // 4, dtype=np.uint8)})
    wait_until(lambda: tensor_memory() <= 4 * 64 * 2**20, 30, "the memory to be given back", interval=0.1)
