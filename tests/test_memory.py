"""The memory of inputs, as seen by the models."""

import numpy as np
import pytest
from harness.repository import config, per_request

# The mapping of each input's memory: "rw-s" is the server's, to which the client's bytes were written once.
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


# Makes outputs of the requested size.
MAKER = per_request("""
    size = int(get(request, "SIZE")[0])
    return respond(A=np.full(size, 5, np.uint8), B=np.full(size, 6, np.uint8))
""")
# Sums its input, then overwrites it, and returns the sum.
SPOILER = per_request("""
    array = get(request, "A")
    total = array.sum(dtype=np.uint64).reshape(1)
    array[:] = 99
    time.sleep(0.02)
    return respond(SUM=total)
""")
# Reads its input, and returns it.
PASSER = per_request("""
    array = get(request, "A")
    assert array.max() == array.min()
    return respond(A=array)
""")


def ensemble(repository, name, steps, outputs):
    """Writes an ensemble; steps are (model, inputs, outputs), each as pairs of the model's and the ensemble's names."""
    text = ""
    for model, *maps in steps:
        pairs = "".join(
            f'{kind} {{ key: "{key}" value: "{value}" }} '
            for kind, pairs in zip(("input_map", "output_map"), maps, strict=True)
            for key, value in pairs.items()
        )
        text += f'step [ {{ model_name: "{model}" model_version: -1 {pairs} }} ]\n'
    extra = f'platform: "ensemble"\nensemble_scheduling {{ {text} }}'
    repository.add(name, None, config(name, [("SIZE", "INT32", [1])], outputs, backend=None, extra=extra))


@pytest.fixture(scope="module")
def server(module_repository, module_serve):
    inputs = [("A", "UINT8", [-1]), ("B", "UINT8", [-1])]
    module_repository.add("mapping", MAPPING, config("mapping", inputs, [("MODES", "STRING", [2])]))
    a, b = ("A", "UINT8", [-1]), ("B", "UINT8", [-1])
    module_repository.add("maker", MAKER, config("maker", [("SIZE", "INT32", [1])], [a, b]))
    module_repository.add("spoiler", SPOILER, config("spoiler", [a], [("SUM", "UINT64", [1])]))
    module_repository.add("passer", PASSER, config("passer", [a], [a]))
    make = ("maker", {"SIZE": "SIZE"}, {"A": "a", "B": "b"})
    modes = ("MODES", "STRING", [2])
    ensemble(
        module_repository, "made_and_mapped", [make, ("mapping", {"A": "a", "B": "b"}, {"MODES": "MODES"})], [modes]
    )
    ensemble(
        module_repository,
        "spoiled",
        [
            ("maker", {"SIZE": "SIZE"}, {"A": "a"}),
            ("spoiler", {"A": "a"}, {"SUM": "SUM1"}),
            ("passer", {"A": "a"}, {"A": "passed"}),
            ("spoiler", {"A": "passed"}, {"SUM": "SUM2"}),
            ("passer", {"A": "passed"}, {"A": "OUT"}),
        ],
        [("SUM1", "UINT64", [1]), ("SUM2", "UINT64", [1]), ("OUT", "UINT8", [-1])],
    )
    return module_serve(module_repository)


# Tensors of less than 64 KiB together share a block of memory.
@pytest.mark.parametrize("size", [5_000, 50_000, 2_000_000])
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_models_write_to_what_the_client_sent_without_a_copy(server, connect, protocol, size):
    array = np.ones(size, np.uint8)
    result = connect(protocol, server).infer("mapping", {"A": array, "B": array})
    assert result.as_numpy("MODES").tolist() == [b"rw-s memfd"] * 2


@pytest.mark.parametrize(
    ("size", "mode"), [(50_000, b"rw-s memfd"), (500_000, b"rw-s memfd"), (2_000_000, b"rw-p memfd")]
)
def test_what_another_model_made_is_seen_through_private_views_or_copied(server, connect, size, mode):
    # Up to 1 MiB it is a copy in the worker's own memory, which is shared with the server.
    result = connect("grpc", server).infer("made_and_mapped", {"SIZE": np.array([size], np.int32)})
    assert result.as_numpy("MODES").tolist() == [mode] * 2


@pytest.mark.parametrize("size", [500, 5_000, 500_000, 5_000_000])
def test_no_model_sees_what_another_writes(server, connect, size):
    client = connect("grpc", server)
    for _ in range(5):
        result = client.infer("spoiled", {"SIZE": np.array([size], np.int32)})
        assert (result.as_numpy("SUM1"), result.as_numpy("SUM2")) == (5 * size, 5 * size)
        assert (result.as_numpy("OUT") == 5).all()


def test_a_process_that_hands_over_too_much_is_ended(repository, serve, connect):
    outputs = [("A", "UINT8", [-1]), ("B", "UINT8", [-1])]
    repository.add("maker", MAKER, config("maker", [("SIZE", "INT32", [1])], outputs))
    server = serve(repository, "--worker-shm-max-bytes=20000000")
    client = connect("grpc", server)

    def make(size):
        return client.infer("maker", {"SIZE": np.array([size], np.int32)}).as_numpy("B").size

    assert make(1_000_000) == 1_000_000
    text = "It was ended because it sent more than 20000000 bytes of shared memory (--worker-shm-max-bytes)"
    with client.fails("INTERNAL", contains=text):
        make(30_000_000)
    assert make(1_000_000) == 1_000_000
