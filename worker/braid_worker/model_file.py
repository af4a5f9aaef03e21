"""Imports the file of a model."""

import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType


class _FreshLoader(importlib.machinery.SourceFileLoader):
    """Compiles the source on each import. Otherwise Python would use the cached bytecode if a model file is replaced
    within a second by one of the same size."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def extend_path(model_file: str) -> None:
    """Appends the model's import folders to sys.path: the file's folder, its parent, and the folder of the two API
    modules."""
    folder = os.path.dirname(model_file)
    leave_front()
    here = sys.path.pop()
    sys.path += [folder, os.path.dirname(folder), here]


def leave_front() -> None:
    """Moves the folder of this package from the front of sys.path to its end; it was first so that the package was
    found."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    while here in sys.path:
        sys.path.remove(here)
    sys.path.append(here)


def load(model_file: str, module_name: str) -> ModuleType:
    """Imports the file as `module_name`, for instance `1.model`. The folder becomes the package, so relative imports
    find its other files."""
    package, _, _ = module_name.rpartition(".")
    if package:
        _make_package(package, os.path.dirname(model_file))
    spec = importlib.util.spec_from_file_location(module_name, model_file, loader=_FreshLoader(module_name, model_file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(module_name, None)
        raise
    if package:
        setattr(sys.modules[package], module_name.rpartition(".")[2], module)
    return module


def _make_package(name: str, folder: str) -> None:
    init = os.path.join(folder, "__init__.py")
    if os.path.isfile(init):
        spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[folder])
    else:
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [folder]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if spec.loader is not None:
        spec.loader.exec_module(module)
