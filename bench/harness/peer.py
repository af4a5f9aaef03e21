"""The peer: a real tritonserver with its Python backend, without a container.

The `nvidia-pytriton` wheel contains the server, its backends and one Python stub for each CPython version. It is installed
once, by name, into a virtual environment in the cache folder, together with the numpy version that both sides of a
comparison use. The stub embeds CPython, so the interpreter must have a shared libpython beside it.
"""

import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys

REQUIREMENTS = pathlib.Path(__file__).resolve().parents[2] / "requirements"
WHEEL, NUMPY = [line for line in (REQUIREMENTS / "peer.txt").read_text().splitlines() if "==" in line]
# The subject's worker needs 3.11, the pinned numpy has no wheels after 3.12, and both sides use one interpreter.
PYTHON_VERSIONS = ("3.11", "3.12")

# A script for candidate interpreters. Prints the values of InterpreterFacts.
_PROBE = r"""
import importlib.util, json, os, sys, sysconfig
names = {sysconfig.get_config_var("INSTSONAME") or "", sysconfig.get_config_var("LDLIBRARY") or ""}
names = [name for name in names if ".so" in name]
library = sysconfig.get_config_var("LIBDIR") or ""
folders = [library, os.path.join(library, sysconfig.get_config_var("MULTIARCH") or ""), os.path.join(sys.base_prefix, "lib")]
found = [d for d in folders if any(os.path.exists(os.path.join(d, name)) for name in names)]
print(json.dumps({
    "executable": sys.executable,
    "version": "%d.%d" % sys.version_info[:2],
    "full_version": "%d.%d.%d" % sys.version_info[:3],
    "library_folder": found[0] if found else "",
    "can_make_venv": all(importlib.util.find_spec(m) for m in ("venv", "ensurepip")),
}))
"""


class PeerError(Exception):
    """The peer cannot be set up; the text names the missing part and the remedy."""


@dataclasses.dataclass(frozen=True)
class InterpreterFacts:
    executable: str
    version: str
    full_version: str
    library_folder: str
    can_make_venv: bool


@dataclasses.dataclass(frozen=True)
class Peer:
    """An installed peer: its interpreter, which both sides use, and its start command."""

    python: pathlib.Path
    server: pathlib.Path
    backends: pathlib.Path
    library_path: str
    site_packages: pathlib.Path
    description: str

    def command(self, repository, http, grpc, metrics, shm_prefix, host="127.0.0.1"):
        """Returns the argument vector; `shm_prefix` is the prefix of the server's shared-memory files."""
        return [
            str(self.server),
            "--backend-directory", str(self.backends),
            "--backend-config", f"python,shm-region-prefix-name={shm_prefix}",
            "--model-repository", str(repository),
            "--http-address", host, "--http-port", str(http),
            "--grpc-address", host, "--grpc-port", str(grpc),
            "--metrics-address", host, "--metrics-port", str(metrics),
        ]  # fmt: skip

    def environment(self):
        environment = dict(os.environ)
        inherited = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = self.library_path + (f":{inherited}" if inherited else "")
        environment["PATH"] = f"{self.python.parent}:{environment.get('PATH', '')}"
        environment["PYTHONPATH"] = str(self.site_packages)
        return environment


def cache_folder():
    root = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(root) / "braid-bench"


def probe(candidate):
    """Returns the InterpreterFacts of a command or path, or None if it does not run."""
    try:
        answer = subprocess.run([candidate, "-c", _PROBE], capture_output=True, text=True, timeout=30, check=True)
        return InterpreterFacts(**json.loads(answer.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def refusal(facts):
    """Returns the reason why an interpreter cannot run the peer; empty if it can."""
    if facts is None:
        return "does not run"
    if facts.version not in PYTHON_VERSIONS:
        return f"is Python {facts.version}, wanted {' or '.join(PYTHON_VERSIONS)}"
    if not facts.library_folder:
        return (
            f"Python {facts.full_version} has no shared libpython "
            f"(Debian: install libpython{facts.version}-dev; pyenv: build with --enable-shared)"
        )
    if not facts.can_make_venv:
        return f"Python {facts.full_version} cannot make virtual environments (Debian: install python3-venv)"
    return ""


def choose_interpreter(wanted=None, probe=probe):
    """Returns the first usable interpreter: only `wanted` if given, else the usual places in turn. Raises PeerError."""
    candidates = [wanted] if wanted else ["python3", "/usr/bin/python3", *(f"python{v}" for v in PYTHON_VERSIONS)]
    refusals = []
    for candidate in candidates:
        facts = probe(candidate)
        reason = refusal(facts)
        if not reason:
            return facts
        refusals.append(f"  {candidate}: {reason}")
    raise PeerError("no usable Python for the peer:\n" + "\n".join(refusals) + "\nName another with --peer-python.")


def install(wanted_python=None, say=lambda text: print(text, file=sys.stderr, flush=True)):
    """Installs the peer if it is not in the cache yet, and returns it. Several processes may call this at once."""
    facts = choose_interpreter(wanted_python)
    home = cache_folder() / f"{WHEEL.replace('==', '-')}-py{facts.full_version}"
    home.mkdir(parents=True, exist_ok=True)
    venv = home / "venv"
    backends = home / "backends"
    ready = home / "ready"
    with open(home / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        site = venv / "lib" / f"python{facts.version}" / "site-packages"
        root = site / "pytriton" / "tritonserver"
        if not ready.exists():
            say(f"peer: installing {WHEEL} and {NUMPY} with {facts.executable} (once)")
            _install_venv(facts, venv)
            _lay_out_backends(facts, root, backends)
            ready.touch()
    versions = subprocess.run(
        [venv / "bin" / "python", "-c", "import numpy; print(numpy.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return Peer(
        python=venv / "bin" / "python",
        server=root / "bin" / "tritonserver",
        backends=backends,
        # The wheel's libraries have a hash in their names and are found only by this path. The stub needs libpython.
        library_path=f"{site / 'nvidia_pytriton.libs'}:{facts.library_folder}",
        site_packages=site,
        description=f"tritonserver of {WHEEL}, CPython {facts.full_version}, numpy {versions.stdout.strip()}",
    )


def _install_venv(facts, venv):
    if venv.exists():
        shutil.rmtree(venv)
    try:
        subprocess.run([facts.executable, "-m", "venv", str(venv)], check=True, stdout=sys.stderr)
        # Without its dependencies: the server needs none of them, and its Python stub needs only numpy.
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        locked = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(REQUIREMENTS / "peer-lock.txt")]
        subprocess.run([*pip, *locked], check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError as error:
        raise PeerError(f"the peer could not be installed: {error}") from error


def _lay_out_backends(facts, root, backends):
    """Makes a backend folder with the stub of this interpreter."""
    if not (root / "bin" / "tritonserver").exists():
        raise PeerError(f"{WHEEL} holds no tritonserver at {root}")
    stub = root / "python_backend_stubs" / facts.version / "triton_python_backend_stub"
    if not stub.exists():
        there = sorted(path.name for path in (root / "python_backend_stubs").glob("*"))
        raise PeerError(f"{WHEEL} has no stub for Python {facts.version}, only for {', '.join(there)}")
    if backends.exists():
        shutil.rmtree(backends)
    shutil.copytree(root / "backends" / "python", backends / "python")
    target = backends / "python" / stub.name
    shutil.copyfile(stub, target)
    target.chmod(0o755)
    (root / "bin" / "tritonserver").chmod(0o755)
