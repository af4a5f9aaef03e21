"""Where the memory of inputs comes from, as the models see it."""

import numpy as np
import pytest
from harness.repository import config, per_request

# How the memory of each input is mapped: "rw-s" is the server's, in which the client's bytes were written once.
MAPPING = per_request("""
    modes = []
    for name in ("A", "B"):
        address = get(request, name).ctypes.data
        for line in open("/proc/self/maps"):
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if start <= address < end:
                modes.append(line.split()[1] + (" memfd" if "memfd:braid" in line else ""))
    return respond(MODES=np.array(modes, dtype=np.object_))
""")


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    inputs = [("A", "UINT8", [-1]), ("B", "UINT8", [-1])]
    module_repository.add("mapping", MAPPING, config("mapping", inputs, [("MODES", "STRING", [2])]))
    return module_serve(module_repository)


# Tensors of less than 64 KiB together share a block of memory.
@pytest.mark.parametrize("size", [5_000, 50_000, 2_000_000])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_models_write_to_what_the_client_sent_without_a_copy(server, connect, protocol, size):
    array = np.ones(size, np.uint8)
    result = connect(protocol, server).infer("mapping", {"A": array, "B": array})
    assert result.as_numpy("MODES").tolist() == [b"rw-s memfd"] * 2
