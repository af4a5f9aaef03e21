import ctypes
import sys
import textwrap
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from nodes_harness import Graph, node, write_handler
from worker_harness import Worker, Zygote

PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="session")
def zygote():
    # As in the server: workers become children of this process.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    warm = Zygote()
    assert warm.ready["ready"], warm.ready
    yield warm
    warm.close()


@pytest.fixture
def worker(zygote):
    workers = []

    def make(**options):
        workers.append(Worker(zygote, **options))
        return workers[-1]

    yield make
    for made in workers:
        made.close()


@pytest.fixture
def model(worker, tmp_path):
    """Writes a model's file and loads it: model(source, outputs=[...]) -> Worker."""
    counter = iter(range(100))

    def make(source, outputs=("OUT",), expect_ok=True, policy=None, files=None, config=None, **options):
        name = f"model{next(counter)}"
        folder = tmp_path / name
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.py").write_text(textwrap.dedent(source))
        for file, text in (files or {}).items():
            (folder / "1" / file).write_text(textwrap.dedent(text))
        config = {
            **(config or {}),
            "name": name,
            "max_batch_size": 8,
            "input": [],
            "output": [{"name": output, "data_type": "TYPE_FP32", "dims": [-1]} for output in outputs],
        }
        if policy:
            config["model_transaction_policy"] = policy
        made = worker(name=f"{name}_0")
        made.folder = folder
        made.config = config
        made.loaded = made.load(folder, config, **options)
        if expect_ok:
            assert made.loaded["code"] == 0, made.loaded["error"]
        return made

    return make


@pytest.fixture
def graph(worker, tmp_path):
    """Writes one handler and loads it as the only node: graph(source) -> Graph. Its execute() sees `inputs`."""

    def make(source, expect_ok=True, **options):
        path = write_handler(tmp_path / "graph", source)
        return load_graph(worker, tmp_path, [node(path, **options)], expect_ok)

    return make


@pytest.fixture
def graph_of(worker, tmp_path):
    """Loads nodes: graph_of([node(...), ...]) -> Graph."""
    return lambda nodes, expect_ok=True: load_graph(worker, tmp_path, nodes, expect_ok)


def load_graph(worker, folder, nodes, expect_ok):
    made = Graph(worker(name="graph"), folder, nodes)
    made.load()
    if expect_ok:
        assert made.loaded["code"] == 0, made.loaded["error"]
    return made
