"""Python environments made by tests, without pip and without the network."""

import pathlib
import tarfile
import venv

import numpy

# A model that reports its interpreter's environment as JSON.
REPORT = """
import json, os, sys
import numpy as np
import triton_python_backend_utils as pb_utils

try:
    import tiny
    VERSION = tiny.VERSION
except ImportError:
    VERSION = None


class TritonPythonModel:
    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        with open("/proc/self/status") as status:
            privileges = [line.split()[1] for line in status if line.startswith("NoNewPrivs")]
        report = {
            "tiny": VERSION,
            "prefix": sys.prefix,
            "executable": sys.executable,
            "path": sys.path,
            "environ": dict(os.environ),
            "no_new_privs": privileges,
            "args": self.args,
            "model_dir": pb_utils.get_model_dir(),
            "module": type(self).__module__,
        }
        out = pb_utils.Tensor("REPORT", np.array([json.dumps(report).encode()], dtype=np.object_))
        return [pb_utils.InferenceResponse([out]) for _ in requests]
"""


def parameter(key, value):
    return f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}'


def make_environment(path, version, numpy_too=True):
    """Makes a virtual environment with this version of package `tiny`. It uses the tests' numpy."""
    path = pathlib.Path(path)
    venv.EnvBuilder(symlinks=True).create(path)
    (site_packages,) = path.glob("lib/python*/site-packages")
    if numpy_too:
        numpy_from = pathlib.Path(numpy.__file__).parent.parent
        (site_packages / "numpy_of_the_tests.pth").write_text(f"{numpy_from}\n")
    write_tiny(path, version)
    return path


def write_tiny(environment, version):
    (site_packages,) = pathlib.Path(environment).glob("lib/python*/site-packages")
    (site_packages / "tiny").mkdir(exist_ok=True)
    (site_packages / "tiny" / "__init__.py").write_text(f'VERSION = "{version}"\n')


def pack(environment, archive):
    """Packs an environment: the folder's content, at the top level of a compressed tar file."""
    archive = pathlib.Path(archive)
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for entry in sorted(pathlib.Path(environment).iterdir()):
            tar.add(entry, entry.name)
    return archive
