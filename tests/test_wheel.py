"""The Python package: built by scripts/build-wheel, installed into a separate virtual environment, and used as in its
documentation."""

import base64
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import venv
import zipfile

import pytest
from elftools.elf.elffile import ELFFile
from harness import custom_nodes, public_clients
from harness.server import BINARY

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    environment = {**os.environ, "BUILD_FOLDER": str(pathlib.Path(BINARY).parent)}
    subprocess.run([ROOT / "scripts/build-wheel", folder], env=environment, check=True, timeout=100)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment with the wheel, and with only its dependencies from the project's environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    interpreter = folder / "bin/python"
    # The pip of the tests; an environment's own would take many seconds to install.
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        interpreter,
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        wheel,
    ]
    subprocess.run(install, check=True, timeout=100)
    (packages,) = folder.glob("lib/python3*/site-packages")
    ours = pathlib.Path(sys.prefix) / packages.relative_to(folder)
    for pattern in ("numpy", "numpy.libs", "numpy-*.dist-info", "openvino", "openvino-*.dist-info"):
        for found in ours.glob(pattern):
            (packages / found.name).symlink_to(found)
    return interpreter


def run(python, code, tmp_path):
    """Returns the output of `code`, in a process that finds the environment only through its interpreter."""
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    ran = subprocess.run(
        [python, "-c", textwrap.dedent(code)], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models/where"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(
        'backend: "python"\n'
        'input { name: "TEXT" data_type: TYPE_STRING dims: [ -1 ] }\n'
        'output { name: "PYTHON" data_type: TYPE_STRING dims: [ 1 ] }\n'
        'output { name: "SIZES" data_type: TYPE_INT64 dims: [ -1 ] }\n'
    )
    (folder / "1/model.py").write_text(
        textwrap.dedent("""\
        import sys

        import numpy as np
        import triton_python_backend_utils as pb_utils


        class TritonPythonModel:
            def execute(self, requests):
                responses = []
                for request in requests:
                    texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
                    if texts.size == 0:
                        raise pb_utils.TritonModelException("no texts")
                    responses.append(pb_utils.InferenceResponse([
                        pb_utils.Tensor("PYTHON", np.array([sys.prefix.encode()], dtype=object)),
                        pb_utils.Tensor("SIZES", np.array([len(text) for text in texts], dtype=np.int64)),
                    ]))
                return responses
        """)
    )
    return folder.parent


def test_the_server_runs_models_in_the_environment_that_it_was_installed_into(python, models, tmp_path):
    prefix, sizes, only, text, status, ended = run(
        python,
        f"""
        import braid, numpy as np
        with braid.Server({str(models)!r}, options=["--log-verbose", "0"]) as server:
            outputs = server.infer("where", {{"TEXT": ["a", "ärger", b""]}})
            print(outputs["PYTHON"][0].decode())
            print(outputs["SIZES"].tolist())
            print(sorted(server.infer("where", {{"TEXT": ["x"]}}, ["SIZES"])))
            try:
                server.infer("where", {{"TEXT": np.array([], dtype=object)}})
            except braid.InferenceError as error:
                print(repr(str(error)))
                print(error.status)
        print(server.process.returncode)
        """,
        tmp_path,
    )
    assert prefix == str(python.parent.parent)
    assert sizes == "[1, 6, 0]"
    assert only == "['SIZES']"
    assert "no texts" in text
    assert status == "500"
    assert ended == "0"


def test_a_server_that_cannot_start_says_why(python, tmp_path):
    (text,) = run(
        python,
        """
        import braid
        try:
            braid.Server(options=["--http-port", "none"])
        except braid.ServerError as error:
            print(str(error).replace(chr(10), " | "))
        """,
        tmp_path,
    )
    assert "ended with status 1" in text
    assert "--http-port" in text


def test_the_command_is_the_server(python, tmp_path):
    command = python.parent / "braid"
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    installed = subprocess.run(
        [command, "--version"], env=clean, capture_output=True, text=True, check=True, timeout=60
    )
    built = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert installed.stdout == built.stdout


def test_check_imports_models_in_that_environment_too(python, models, tmp_path):
    checked = subprocess.run(
        [python.parent / "braid", "check", models, "--import"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "numpy" not in checked.stdout


def test_it_needs_no_library_that_is_neither_bundled_nor_of_every_system(python, tmp_path):
    """Except the C library's own, all libraries of the server are in the wheel or in OpenVINO's."""
    packages = next(python.parent.parent.glob("lib/python3*/site-packages"))
    listed = subprocess.run(["ldd", packages / "braid/_files/bin/braid"], capture_output=True, text=True, check=True)
    assert "not found" not in listed.stdout
    system = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1", "libdl.so.2", "libpthread.so.0"}
    for line in listed.stdout.splitlines():
        name, _, where = line.strip().partition(" => ")
        if where and name not in system:
            path = pathlib.Path(where.split(" (")[0])
            assert packages in path.parents, line


def test_two_builds_give_the_same_bytes(wheel, tmp_path):
    environment = {**os.environ, "BUILD_FOLDER": str(pathlib.Path(BINARY).parent)}
    subprocess.run([ROOT / "scripts/build-wheel", tmp_path], env=environment, check=True, timeout=100)
    (again,) = tmp_path.glob("*.whl")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_types_are_strict(tmp_path):
    """The package, and the examples of its page, pass mypy in strict mode."""
    page = (ROOT / "docs/install.md").read_text()
    snippet = tmp_path / "snippet.py"
    snippet.write_text(re.search(r"```python\n(import braid\n.*?)```", page, re.S).group(1) + "reveal_type(outputs)\n")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}/cache", snippet, ROOT / "python/braid"],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "MYPYPATH": str(ROOT / "python")},
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    # No type became Any.
    assert 'Revealed type is "dict[str, numpy.ndarray[' in checked.stdout.replace("builtins.", ""), checked.stdout


@pytest.fixture(scope="module")
def authors_python(python, tmp_path_factory):
    """The same interpreter, with pytest and mypy in its environment."""
    (packages,) = python.parent.parent.glob("lib/python3*/site-packages")
    ours = pathlib.Path(sys.prefix) / packages.relative_to(python.parent.parent)
    for name in ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments"):
        for found in (*ours.glob(name), *ours.glob(f"{name}-*.dist-info")):
            if not (packages / found.name).exists():
                (packages / found.name).symlink_to(found)
    return python


def test_models_can_be_imported_anywhere(python, tmp_path):
    """The modules that models import are found by any program of the environment."""
    tensor, node, where = run(
        python,
        """
        import numpy as np
        import pyovms
        import triton_python_backend_utils as pb_utils
        print(pb_utils.Tensor("A", np.float32([1, 2])).as_numpy().tolist())
        print(pyovms.Tensor("B", b"abc").size)
        print(pb_utils.__file__)
        """,
        tmp_path,
    )
    assert (tensor, node) == ("[1.0, 2.0]", "3")
    assert where.endswith("/braid/_files/lib/braid/worker/triton_python_backend_utils.py")


def test_an_author_tests_a_new_model(authors_python, tmp_path):
    """`braid init`, and pytest with the package's plugin, as in the page."""
    clean = {"PATH": f"{authors_python.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    for command, folder in (
        (["braid", "init", "first"], tmp_path),
        (["python", "-m", "pytest", "-q"], tmp_path / "first"),
    ):
        ran = subprocess.run(
            [authors_python.parent / command[0], *command[1:]],
            cwd=folder,
            env=clean,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
    command = [authors_python.parent / "braid", "examples"]
    listed = subprocess.run(command, env=clean, capture_output=True, text=True)
    assert "graphs               Graphs with Python nodes" in listed.stdout
    subprocess.run([*command, "examples", "calculators"], cwd=tmp_path, env=clean, check=True, timeout=100)
    subprocess.run(["make", "-C", tmp_path / "examples/calculators", "libtotals.so"], check=True, timeout=100)


def test_examples_pass_type_checkers(python, tmp_path):
    """Every model and node of the examples, against the stubs that the wheel brings."""
    files = [
        *ROOT.glob("examples/**/model.py"),
        *ROOT.glob("examples/graphs/*/*.py"),
        *ROOT.glob("examples/ocr/**/*.py"),
    ]
    files = [
        file for file in files if "pyovms" in file.read_text() or "triton_python_backend_utils" in file.read_text()
    ]
    assert len(files) > 25
    mypy = [sys.executable, "-m", "mypy", f"--python-executable={python}", f"--cache-dir={tmp_path}/cache"]
    # Packages of the models' own environments are not installed here.
    mypy += ["--check-untyped-defs", "--ignore-missing-imports", "--scripts-are-modules"]
    snippet = tmp_path / "snippet.py"
    snippet.write_text(
        "import pyovms\nimport triton_python_backend_utils as pb_utils\n"
        "reveal_type(pb_utils.InferenceRequest(model_name='a').exec(decoupled=True))\n"
        "reveal_type(pyovms.Tensor('a', b'').shape)\n"
        "pb_utils.Tensor('a')\n"
    )
    told = subprocess.run([*mypy, snippet], capture_output=True, text=True, timeout=100).stdout
    assert 'Revealed type is "c_python_backend_utils.ResponseIterator"' in told
    assert "tuple[" in told
    assert "Missing positional argument" in told or "Too few arguments" in told, told
    # All are modules of the name `model`; their folders are other modules for mypy than for the server.
    copies = tmp_path / "copies"
    for file in files:
        copy = copies / "_".join(file.relative_to(ROOT).with_suffix("").parts)
        copy.parent.mkdir(exist_ok=True)
        copy.with_suffix(".py").write_text(file.read_text())
    checked = subprocess.run([*mypy, *copies.glob("*.py")], capture_output=True, text=True, timeout=100)
    assert [line for line in checked.stdout.splitlines() if " error: " in line] == []
    project = {"include": ["copies", "stubs"], "reportMissingImports": False, "strict": ["stubs"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(project))
    for stubs in ROOT.glob("python/*-stubs"):
        shutil.copytree(stubs, tmp_path / "stubs" / stubs.name)
    pyright = public_clients.need("pyright", "node") / "node_modules" / "pyright" / "index.js"
    checked = subprocess.run(
        ["node", pyright, "--outputjson", "--pythonpath", python, "--project", tmp_path],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert json.loads(checked.stdout)["generalDiagnostics"] == []


def test_its_programs_are_hardened(wheel):
    """The wheel's programs are hardened, and have the same machine code as those of the build, without symbols."""
    ran = subprocess.run([sys.executable, ROOT / "scripts/check-hardening", wheel], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    hardened = re.findall(r"(\S+): hardened$", ran.stdout, re.M)
    assert sorted(pathlib.Path(name).name for name in hardened) == [
        "_braid_worker.abi3.so",
        "braid",
        "libbraid_opencv.so",
        *custom_nodes.FILES,
    ]
    assert len(re.findall(r"braid_server\.libs/.*: of others", ran.stdout)) > 5
    with zipfile.ZipFile(wheel) as archive:
        assert code_of(io.BytesIO(archive.read("braid/_files/bin/braid"))) == code_of(open(BINARY, "rb"))


def code_of(stream):
    return ELFFile(stream).get_section_by_name(".text").data()


def test_its_bill_of_materials(wheel, bill_of):
    bill = bill_of(wheel)
    root = bill["metadata"]["component"]
    assert root["name"] == "braid-server"
    assert root["purl"] == f"pkg:pypi/braid-server@{root['version']}"
    assert root["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    parts = {part["name"]: part for part in bill["components"]}
    # The SBOM lists each file of the wheel once, with its hash, except files about the wheel itself.
    files = {
        file["name"]: file["hashes"][0]["content"]
        for part in [root, *parts.values()]
        for file in part.get("components", [])
    }
    with zipfile.ZipFile(wheel) as archive:
        expected = {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if not name.endswith("/") and not re.search(r"\.dist-info/(?!licenses/)", name)
        }
    assert files == expected
    # Debian's libraries are listed by their source packages, as in dpkg.
    query = ["dpkg-query", "-W", "-f", "${Version}|${source:Package} ${source:Version}", "libnghttp2-14"]
    version, _, source = subprocess.run(query, capture_output=True, text=True, check=True).stdout.partition("|")
    nghttp2 = parts["libnghttp2-14"]
    assert nghttp2["version"] == version
    assert how(nghttp2, "source") == source
    assert how(nghttp2) == "bundled"
    assert [file["name"].startswith("braid_server.libs/libnghttp2-") for file in nghttp2["components"]] == [True]
    assert {"libssl3", "libprotobuf32", "libarchive13"} <= set(parts)
    # Libraries inside the machine code.
    for name in ("libboost1.81-dev", "nlohmann-json3-dev", "libcli11-dev"):
        assert how(parts[name]) == "compiled in", name
    assert "libssl-dev" not in parts
    assert "libgtest-dev" not in parts
    assert {"license": {"id": "MIT"}} in parts["nlohmann-json3-dev"]["licenses"]
    # From npm, by the lock.
    locked = json.loads((ROOT / "console/package-lock.json").read_text())["packages"]["node_modules/preact"]
    assert parts["preact"]["version"] == locked["version"]
    digest = base64.b64encode(bytes.fromhex(parts["preact"]["hashes"][0]["content"])).decode()
    assert locked["integrity"] == f"sha512-{digest}"
    # From PyPI, installed separately.
    assert how(parts["openvino"]) == how(parts["numpy"]) == "needed"
    assert parts["openvino"]["purl"] == f"pkg:pypi/openvino@{parts['openvino']['version']}"
    assert how(parts["openvino"], "versions") == f"=={parts['openvino']['version']}"
    assert how(parts["numpy"], "versions") == ">=1.26"
    assert re.fullmatch(r"BSD-3-Clause( AND \S+)*", parts["numpy"]["licenses"][0]["expression"])
    (dependencies,) = [one for one in bill["dependencies"] if one["ref"] == root["bom-ref"]]
    assert sorted(dependencies["dependsOn"]) == sorted(part["bom-ref"] for part in bill["components"])


def how(part, what="how"):
    return {one["name"]: one["value"] for one in part["properties"]}[f"braid:{what}"]
