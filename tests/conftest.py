"""Fixtures of the end-to-end tests.

Tests that only read share the server of their file; a test that breaks something has its own server.
"""

import contextlib
import functools
import os

import pytest
from harness import materials
from harness.clients import Client
from harness.distribution import Distribution
from harness.repository import Repository
from harness.server import BINARY, ROOT, Server

pytest_plugins = ["replay.plugin"] if "BRAID_RECORD" in os.environ else []


def pytest_sessionstart(session):
    if not session.config.option.collectonly and not BINARY.exists():
        raise pytest.UsageError(f"{BINARY} is not built; run `make build`, or set BRAID_BINARY")


def pytest_configure(config):
    # Without GPUs everywhere, except for tests that bring their own (harness/gpus.py).
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    config.pluginmanager.register(Distribution())


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "models")


@pytest.fixture
def serve(tmp_path):
    """serve(repository, *options) starts a server that ends with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda repository, *options, **more: stack.enter_context(
            Server([getattr(repository, "path", repository)], *options, workdir=tmp_path, **more)
        )


@pytest.fixture(scope="module")
def module_repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("repository") / "models")


@pytest.fixture(scope="module")
def module_serve(tmp_path_factory):
    """Like serve, for a server that all tests of a file share."""
    with contextlib.ExitStack() as stack:
        yield lambda repository, *options, **more: stack.enter_context(
            Server(
                [getattr(repository, "path", repository)],
                *options,
                workdir=tmp_path_factory.mktemp("server"),
                **more,
            )
        )


@pytest.fixture(scope="module")
def examples_server(module_serve):
    """examples_server() returns the server of the example models, which the pages of a file share."""
    return functools.cache(lambda: module_serve(ROOT / "examples" / "models"))


@pytest.fixture
def connect():
    """connect(protocol, server) returns a client that is closed with the test."""
    with contextlib.ExitStack() as stack:

        def make(protocol, server, **options):
            client = Client(protocol, server, **options)
            stack.callback(client.close)
            return client

        yield make


@pytest.fixture(params=["http", "grpc"])
def client(request, server, connect):
    """A client of each protocol in turn, for the file's own `server` fixture."""
    return connect(request.param, server)


@pytest.fixture
def bill_of():
    """bill_of(package) returns the bill of a package by scripts/sbom: valid by its schema, and the same bytes each
    time."""
    return materials.bill_of
