"""The pytest plugin: fixtures for models, and --braid-in-process."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("braid")
    group.addoption(
        "--braid-in-process",
        action="store_true",
        help="run models in the process of the tests, for breakpoints and coverage",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--braid-in-process"):
        os.environ["BRAID_TESTING_IN_PROCESS"] = "1"


@pytest.fixture(scope="session")
def braid_model() -> Iterator[Callable[..., Any]]:
    """Loads a model once: braid_model(path, ...) takes the arguments of braid.testing.load_model(). Equal arguments
    give the same model, until the end of the session. Models with `calls` are loaded each time."""
    from braid.testing import Model, load_model

    models: dict[Any, Model] = {}

    def load(path: str | os.PathLike[str], name: str | None = None, **options: Any) -> Model:
        key: tuple[Any, ...] = (os.path.abspath(path), name, repr(sorted(options.items())))
        if options.get("calls"):
            key = (*key, len(models))
        if key not in models:
            models[key] = load_model(path, name, **options)
        return models[key]

    yield load
    for model in models.values():
        model.close()
