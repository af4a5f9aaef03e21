"""The components of Braid have verified origins: hashes of installed packages, and the scan for advisories."""

import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from harness.server import ROOT
from packaging.utils import canonicalize_name


def script(name):
    """Loads a script of scripts/ as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


lock = script("lock-requirements")


# ---- Python ----


def test_every_pin_has_hashes():
    pins = lock.read_pins()
    locked = lock.read_lock()
    assert {name: one.version for name, one in locked.items()} == pins
    assert len(pins) > 100
    for lock_file in ("lock.txt", "mediapipe-lock.txt", "peer-lock.txt"):
        locked = lock.read_lock(lock_file)
        for name, one in locked.items():
            assert one.sets, name
            assert one.hashes, name
        # The parser understands every line of the file.
        text = (ROOT / "requirements" / lock_file).read_text()
        assert text.count("--hash=") == sum(len(one.hashes) for one in locked.values())
        assert text.count("==") == len(locked)


def test_environments_of_their_own_are_locked():
    mediapipe = lock.read_lock("mediapipe-lock.txt")
    for requirement in lock.requirements_of(ROOT / "requirements/mediapipe.txt"):
        assert requirement.specifier.contains(mediapipe[requirement.name].version)
    peer = {name: one.version for name, one in lock.read_lock("peer-lock.txt").items()}
    assert peer == lock.pins_of_own("peer")


def test_the_lock_has_all_that_the_sets_need():
    """The lock has all dependencies that the installed releases declare, and the sets that commands install."""
    pins = lock.read_pins()
    try:
        installed = {name: importlib.metadata.version(name) for name in pins}
    except importlib.metadata.PackageNotFoundError as missing:
        pytest.skip(f"needs scripts/python-env test package check examples alone site: {missing}")
    assert installed == pins
    needed = lock.needed_by(pins, lock.dependencies_of(pins))
    assert {name: one.sets for name, one in lock.read_lock().items()} == needed
    used = set()
    for line in re.findall(r"scripts/python-env ([a-z ]+)$", (ROOT / "Makefile").read_text(), re.M):
        used.update(line.split())
    # Steps of scripts name them as a list.
    for script in ("quick", "test", "check"):
        for line in re.findall(r'"scripts/python-env"((?:, "[a-z]+")+)', (ROOT / "scripts" / script).read_text()):
            used.update(re.findall("[a-z]+", line))
    assert used == set(lock.read_sets())


def test_the_environment_has_nothing_else():
    allowed = set(lock.read_pins()) | {"pip", "setuptools"}
    found = {canonicalize_name(one.name) for one in importlib.metadata.distributions(path=[str(site_packages())])}
    assert found <= allowed


def site_packages():
    return next(pathlib.Path(sys.prefix).glob("lib/python3*/site-packages"))


def write_wheel(folder, name, version, text):
    """Writes a wheel of one module; returns its path and SHA-256."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", text)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: absent\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


class Checkout:
    """A checkout with only scripts/python-env, and a folder as the package index."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("scripts", "requirements", "index"):
            (folder / name).mkdir()
        shutil.copy(ROOT / "scripts/python-env", folder / "scripts")

    def lock(self, *releases):
        """Writes the lock: (name, sets, hashes) of each."""
        text = ""
        for name, sets, hashes in releases:
            text += (
                " \\\n    ".join([f"# sets: {sets}\n{name}==1.0", *(f"--hash=sha256:{one}" for one in hashes)]) + "\n\n"
            )
        (self.folder / "requirements/lock.txt").write_text(text)

    def offer(self, name):
        """Adds a wheel to the index; returns its SHA-256."""
        return write_wheel(self.folder / "index", name, "1.0", f"NAME = {name!r}\n")[1]

    def install(self, *sets):
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder / "index"), "PYTHON": sys.executable}
        return subprocess.run(
            [self.folder / "scripts/python-env", *sets],
            env={**os.environ, **index},
            capture_output=True,
            text=True,
            timeout=100,
        )

    def modules(self):
        return {path.stem for path in self.folder.glob(".venv/lib/python3*/site-packages/*.py")}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("checkout"))


def test_only_what_the_lock_has_for_a_set_is_installed(checkout):
    """Only the lock's packages of a set are installed, without their declared dependencies, which the index lacks."""
    wanted, other = checkout.offer("wanted"), checkout.offer("other")
    checkout.lock(("wanted", "build test", ["0" * 64, wanted]), ("other", "test", [other]))
    ran = checkout.install("build")
    assert ran.returncode == 0, ran.stderr
    assert checkout.modules() & {"wanted", "other"} == {"wanted"}
    assert checkout.install("build").stdout == "python environment: .venv has build\n"
    assert checkout.install("build", "test").returncode == 0
    assert checkout.modules() >= {"wanted", "other"}


def test_a_file_with_another_hash_is_refused(checkout):
    checkout.offer("changed")
    checkout.lock(("changed", "build", ["0" * 64]))
    # The set is still not recorded as installed.
    for _ in range(2):
        ran = checkout.install("build")
        assert ran.returncode != 0
        assert "DO NOT MATCH THE HASHES" in ran.stderr
    assert "changed" not in checkout.modules()


def test_a_release_without_hashes_is_refused(checkout):
    checkout.offer("bare")
    checkout.lock(("bare", "build", []))
    ran = checkout.install("build")
    assert ran.returncode != 0
    assert "Hashes are required in --require-hashes mode" in ran.stderr
    assert "bare" not in checkout.modules()


# ---- npm, Go, Java, Debian ----


@pytest.mark.parametrize(
    "folder", ["console", *(f"tests/public_clients/{name}" for name in ("grpc-js", "openai-js", "pyright"))]
)
def test_every_npm_package_has_its_hash(folder):
    packages = json.loads((ROOT / folder / "package-lock.json").read_text())["packages"]
    for path, entry in packages.items():
        if path:
            assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", entry["integrity"]), path
            assert "resolved" not in entry, path


def scripts_and_builds():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    kinds = r"Makefile|scripts/.*|.*CMakeLists\.txt|cmake/.*|bench/[^/]*|tests/install/.*|debian/.*|\.ci/.*"
    return [ROOT / name for name in listed if re.fullmatch(kinds, name)]


def test_packages_come_by_the_ways_that_check_them():
    """Packages are installed only by verifying commands: npm by its lock, pip by hashes in builds, apt with signatures."""
    checked = 0
    for path in scripts_and_builds():
        text = path.read_text(errors="replace")
        assert not re.search(r"\bnpm (install|i)\b", text), path
        assert not re.search(
            r"allow-unauthenticated|AllowUnauthenticated|trusted=yes|AllowInsecure|trusted-host", text
        ), path
        assert not re.search(r"\bcurl\b.*\|\s*(ba)?sh\b|\bwget\b", text), path
        checked += 1
    assert checked > 40
    assert "--require-hashes" in (ROOT / "scripts/python-env").read_text()


def test_modules_of_go_and_jars_have_sums():
    for client in ("grpcurl", "otelcol", "porcupine", "helm", "kubeconform", "kube-apiserver", "actionlint"):
        folder = ROOT / "tests/public_clients" / client
        pins = (folder / "go.mod").read_text()
        required = dict(re.findall(r"^\s*(?:require )?(\S+\.\S+/\S+|\S+\.\S+) (v\S+)", pins, re.M))
        replaced = re.findall(r"^\s*(\S+) => \1 (v\S+)", pins, re.M)
        required |= {module: version for module, version in replaced if module in required}
        sums = (folder / "go.sum").read_text()
        assert required
        for module, version in required.items():
            assert f"{module} {version}/go.mod h1:" in sums, module
    jars = (ROOT / "tests/public_clients/grpc-java/jars.sha256").read_text().splitlines()
    assert jars
    for line in jars:
        assert re.fullmatch(r"[0-9a-f]{64} [ *]\S+\.jar", line)


# ---- the scan ----


def record(number, ecosystem, name, events, **more):
    affected = {"package": {"ecosystem": ecosystem, "name": name}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    return {"id": f"TEST-{number}", "summary": f"fault {number}", "affected": [affected], **more}


def records():
    pins = lock.read_pins()
    console = json.loads((ROOT / "console/package-lock.json").read_text())["packages"]
    preact = console["node_modules/preact"]["version"]
    before = [{"introduced": "0"}, {"fixed": "0.1"}]
    always = [{"introduced": "0"}]
    return [
        record(1, "PyPI", "NumPy", always),
        record(2, "PyPI", "numpy", before),
        record(3, "PyPI", "numpy", [{"introduced": pins["numpy"]}, {"fixed": pins["numpy"]}]),
        record(4, "PyPI", "numpy", always, withdrawn="2026-01-01T00:00:00Z"),
        record(5, "PyPI", "openvino", [{"introduced": "1.0"}, {"last_affected": pins["openvino"]}]),
        record(6, "npm", "preact", [{"introduced": "0"}, {"fixed": preact}]),
        record(7, "npm", "@dagrejs/dagre", always),
        record(8, "npm", "numpy", always),
    ]


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_advisories_of_what_is_pinned_are_found(tmp_path, kind):
    path = tmp_path / ("advisories" if kind == "folder" else "advisories.zip")
    if kind == "folder":
        path.mkdir()
        for one in records():
            (path / f"{one['id']}.json").write_text(json.dumps(one))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for one in records():
                archive.writestr(f"{one['id']}.json", json.dumps(one))
    ran = subprocess.run(
        [sys.executable, ROOT / "scripts/audit", "--advisories", path], capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 1, ran.stderr
    pins = lock.read_pins()
    assert re.search(rf"^PyPI: {len(pins)} releases, 2 faults$", ran.stdout, re.M), ran.stdout
    assert f"  NumPy {pins['numpy']}: TEST-1: fault 1\n  openvino {pins['openvino']}: TEST-5: fault 5\n" in ran.stdout
    assert re.search(r"^npm: \d+ releases, 1 faults\n  @dagrejs/dagre \S+: TEST-7: fault 7$", ran.stdout, re.M)


def test_a_database_that_does_not_answer_is_named():
    """An unreachable database is named in the error; the port has no server."""
    environment = {
        **os.environ,
        "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
        "npm_config_registry": "http://127.0.0.1:1",
    }
    ran = subprocess.run(
        [sys.executable, ROOT / "scripts/audit"],
        env={**environment, "npm_config_fetch_retries": "0"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode in (0, 1, 2), ran.stderr
    assert re.search(r"^PyPI: \d+ releases, not asked: .*Connection refused", ran.stdout, re.M), ran.stdout
    assert re.search(r"^npm: \d+ releases, not asked: the registry does not answer", ran.stdout, re.M), ran.stdout
