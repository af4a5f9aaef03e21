"""Environments of models (10): folders and packed archives named by EXECUTION_ENV_PATH, and Python-based backends
(10.1)."""

import contextlib
import gzip
import json
import os
import pathlib
import re
import shutil
import tarfile

import pytest
from harness.environments import REPORT, make_environment, pack, parameter, write_tiny
from harness.repository import IDENTITY, Repository, config
from harness.server import ROOT, children
from harness.waiting import wait_until

OUTPUT = [("REPORT", "STRING", [1])]


def environment(path):
    return parameter("EXECUTION_ENV_PATH", path)


def add_report(repository, name, env=None, extra="", **more):
    text = config(name, [], OUTPUT, extra=extra + (environment(env) if env is not None else ""))
    return repository.add(name, more.pop("source", REPORT), text, **more)


def report(server, model):
    status, answer = server.json("POST", f"/v2/models/{model}/infer", {"inputs": []})
    assert status == 200, answer
    return json.loads(answer["outputs"][0]["data"][0])


def load(server, model):
    """Returns the error of a load; None if it succeeds."""
    status, body = server.json("POST", f"/v2/repository/models/{model}/load", {})
    assert status in (200, 400), body
    return "" if status == 200 else body["error"]


def told(text):
    """Returns the clients' form of a log error: of a path outside of the repository, only the last part."""
    return re.sub(r"(?<![\w.])/(?!nowhere)(?:[^\s'/]+/)*([^\s'/]+)", r"\1", text)


def unload(server, model):
    assert server.json("POST", f"/v2/repository/models/{model}/unload", {})[0] == 200
    wait_until(lambda: state(server, model).get("reason") == "unloaded", 20, f"the end of {model}")


def state(server, model):
    return next(m for m in server.json("POST", "/v2/repository/index")[1] if m["name"] == model)


def unpacked(folder):
    return sorted(pathlib.Path(folder).glob("braid-env-*"))


def warm_processes(server):
    """Returns the names of the warm interpreters by process id."""
    found = {}
    for pid in children(server.process.pid):
        with contextlib.suppress(OSError):  # it may have just ended
            name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            if name == "brd-warm":
                found[pid] = os.readlink(f"/proc/{pid}/cwd")
    return found


@pytest.fixture(scope="module")
def envs(tmp_path_factory):
    """Two environments with different versions of one package, as folders and packed."""
    folder = tmp_path_factory.mktemp("envs")
    for name in ("one", "two"):
        make_environment(folder / name, name)
        pack(folder / name, folder / f"{name}.tar.gz")
    return folder


# ---- one server with models in several environments ----------------------------------------------


@pytest.fixture(scope="module")
def repository_of_all(module_repository, envs):
    repository = module_repository
    add_report(repository, "none")
    add_report(repository, "one", envs / "one")
    add_report(repository, "two", envs / "two")
    add_report(repository, "packed", envs / "one.tar.gz", extra="instance_group [ { count: 2 } ]\n")
    add_report(repository, "packed_too", envs / "one.tar.gz")
    folder = add_report(repository, "inside", "$$TRITON_MODEL_DIRECTORY/env.tar.gz")
    shutil.copy(envs / "two.tar.gz", folder / "env.tar.gz")
    add_report(repository, "relative", "../inside/env.tar.gz")
    stub = {"triton_python_backend_stub": "not used"}
    add_report(repository, "stub", files=stub)
    add_report(repository, "stub_and_environment", envs / "one", files=stub)
    source = REPORT.replace(
        "    def initialize",
        "    @staticmethod\n"
        "    def auto_complete_config(config):\n"
        "        config.add_output({'name': 'REPORT', 'data_type': 'TYPE_STRING', 'dims': [1]})\n"
        "        import tiny\n"
        "        config.set_max_batch_size({'one': 0, 'two': 0}[tiny.VERSION])\n"
        "        return config\n\n"
        "    def initialize",
    )
    repository.add("completed", source, 'backend: "python"\n' + environment(envs / "two"))
    return repository


@pytest.fixture(scope="module")
def server(module_serve, repository_of_all):
    return module_serve(
        repository_of_all, env={"LD_LIBRARY_PATH": "/somewhere/lib", "PYTHONHOME": "", "MY_ENV": "inherited"}
    )


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("none", None),
        ("one", "one"),
        ("two", "two"),
        ("packed", "one"),
        ("packed_too", "one"),
        ("inside", "two"),
        ("relative", "two"),
        ("completed", "two"),
        ("stub", None),
        ("stub_and_environment", "one"),
    ],
)
def test_each_model_sees_its_own_packages(server, model, version):
    assert report(server, model)["tiny"] == version


def test_process_of_a_folder(server, envs):
    seen = report(server, "one")
    env = str(envs / "one")
    assert seen["prefix"] == env
    assert seen["executable"] == f"{env}/bin/python3"
    environ = seen["environ"]
    assert environ["VIRTUAL_ENV"] == env
    assert environ["PATH"].split(":")[0] == f"{env}/bin"
    assert environ["PATH"].split(":")[1:] == os.environ["PATH"].split(":")
    assert environ["LD_LIBRARY_PATH"] == f"{env}/lib:/somewhere/lib"
    assert environ["MY_ENV"] == "inherited"
    assert "PYTHONHOME" not in environ


def test_models_without_an_environment_are_left_alone(server):
    environ = report(server, "none")["environ"]
    assert environ["LD_LIBRARY_PATH"] == "/somewhere/lib"
    assert environ.get("VIRTUAL_ENV") == os.environ.get("VIRTUAL_ENV")


def test_no_worker_can_gain_rights(server):
    assert report(server, "none")["no_new_privs"] == ["1"]
    assert report(server, "packed")["no_new_privs"] == ["1"]


def test_archive_is_unpacked_once_for_all(server, envs):
    folders = unpacked(server.tempdir)
    assert len(folders) == 2
    assert report(server, "packed")["prefix"] == report(server, "packed_too")["prefix"] in map(str, folders)
    assert report(server, "inside")["prefix"] == report(server, "relative")["prefix"] in map(str, folders)
    assert all(folder.stat().st_mode & 0o7777 == 0o700 for folder in folders)
    assert server.log.count("] unpacking environment ") == 2
    server.wait_for_log(rf"unpacked environment '{envs}/one.tar.gz': \d+ files")


def test_models_of_one_environment_share_a_warm_interpreter(server):
    # For the server's own environment, two folders and two archives.
    assert len(warm_processes(server)) == 5


def test_stub_of_another_server_is_named_as_unused(server, repository_of_all):
    stub = repository_of_all.path / "stub" / "triton_python_backend_stub"
    assert f"model 'stub': '{stub}' is not used" in server.log
    assert "set parameter EXECUTION_ENV_PATH to an environment" in server.log
    assert "model 'stub_and_environment'" not in server.log


# ---- a server in explicit mode ------------------------------------------------------------------


@pytest.fixture(scope="module")
def explicit(module_serve, tmp_path_factory):
    """A server without models, and its repository."""
    repository = Repository(tmp_path_factory.mktemp("explicit") / "models")
    options = ["--model-control-mode=explicit", "--environment-max-bytes=20000000"]
    return module_serve(repository, *options), repository


def test_changed_archive_is_unpacked_anew(explicit, tmp_path):
    server, repository = explicit
    make_environment(tmp_path / "env", "old")
    archive = pack(tmp_path / "env", tmp_path / "env.tar.gz")
    before = unpacked(server.tempdir)
    add_report(repository, "changing", archive)
    add_report(repository, "staying", archive)
    assert load(server, "changing") == load(server, "staying") == ""
    assert report(server, "changing")["tiny"] == report(server, "staying")["tiny"] == "old"
    write_tiny(tmp_path / "env", "new")
    pack(tmp_path / "env", archive)
    unload(server, "changing")
    assert load(server, "changing") == ""
    assert report(server, "changing")["tiny"] == "new"
    assert report(server, "staying")["tiny"] == "old"
    assert len(unpacked(server.tempdir)) == len(before) + 2
    unload(server, "staying")
    wait_until(lambda: len(unpacked(server.tempdir)) == len(before) + 1, 10, "the end of the old environment")
    unload(server, "changing")
    wait_until(lambda: unpacked(server.tempdir) == before, 10, "the end of the new environment")


def test_changed_folder_gets_a_fresh_interpreter(explicit, tmp_path):
    server, repository = explicit
    env = make_environment(tmp_path / "env", "old")
    add_report(repository, "folder", env)
    warm = set(warm_processes(server))
    assert load(server, "folder") == ""
    assert report(server, "folder")["tiny"] == "old"
    (first,) = set(warm_processes(server)) - warm
    shutil.rmtree(env)
    make_environment(env, "new")
    unload(server, "folder")
    assert load(server, "folder") == ""
    assert report(server, "folder")["tiny"] == "new"
    assert first not in warm_processes(server)
    unload(server, "folder")
    wait_until(lambda: set(warm_processes(server)) <= warm, 10, "the end of the interpreter")


def archive_of(path, *members):
    """Writes a tar file of (TarInfo fields, data)."""
    with tarfile.open(path, "w:gz") as tar:
        for fields, data in members:
            info = tarfile.TarInfo()
            for key, value in {"mode": 0o755, "size": len(data), **fields}.items():
                setattr(info, key, value)
            tar.fileobj.write(info.tobuf(tar.format))
            tar.fileobj.write(data.ljust(-len(data) // 512 * -512, b"\0"))
    return path


TOO_MUCH = "the files in the archive exceed 20000000 bytes; --environment-max-bytes sets the limit"
# A file of 1 TiB with only 512 bytes of data.
HOLE = {"GNU.sparse.size": f"{1 << 40}", "GNU.sparse.numblocks": "1", "GNU.sparse.map": "0,512"}


def hostile_archives(outside):
    link = {"type": tarfile.SYMTYPE, "linkname": str(outside)}
    hard = {"type": tarfile.LNKTYPE}
    return {
        "dots": ([({"name": "../evil"}, b"x")], "entry '../evil': its name contains '..'"),
        "absolute": ([({"name": f"{outside}/evil"}, b"x")], "its name is an absolute path"),
        "symlink": (
            [({"name": "a", **link}, b""), ({"name": "a/evil"}, b"x")],
            "entry 'a/evil': its parent 'a' is a symbolic link or a file",
        ),
        "hardlink": (
            [({"name": "a", **hard, "linkname": f"{outside}/mine"}, b"")],
            "/mine', outside the archive",
        ),
        "hardlink_later": (
            [({"name": "a", **hard, "linkname": "b"}, b"")],
            "entry 'a': it is a hard link to 'b', which is not an earlier file of the archive",
        ),
        "hardlink_dots": (
            [({"name": "a", **hard, "linkname": "../../mine"}, b"")],
            "entry 'a': it is a hard link to '../../mine', outside the archive",
        ),
        "device": ([({"name": "null", "type": tarfile.CHRTYPE}, b"")], "it is not a file, folder or link"),
        "huge": ([({"name": "zeros"}, b"\0" * 30_000_000)], TOO_MUCH),
        "announced": ([({"name": "zeros", "size": 2**62}, b"")], TOO_MUCH),
        "hole": ([({"name": "zeros", "pax_headers": HOLE}, b"\0" * 512)], TOO_MUCH),
        "many": ([({"name": f"{i}"}, b"\0" * 10_000_000) for i in range(3)], TOO_MUCH),
    }


@pytest.mark.parametrize("kind", list(hostile_archives("")))
def test_hostile_archive_is_refused(explicit, tmp_path, kind):
    server, repository = explicit
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    before = set(server.tempdir.iterdir())
    members, text = hostile_archives(outside)[kind]
    archive = archive_of(tmp_path / "evil.tar.gz", *members)
    add_report(repository, kind, archive)
    error = load(server, kind)
    assert "Internal: environment archive 'evil.tar.gz': " in error
    assert told(text) in error
    assert told(text) in state(server, kind)["reason"]
    assert re.search(f"Internal: environment archive '{archive}': .*{re.escape(text)}", server.log)
    assert set(server.tempdir.iterdir()) == before
    assert [p.name for p in outside.iterdir()] == ["mine"]
    assert (outside / "mine").read_text() == "mine"
    assert (outside / "mine").stat().st_nlink == 1


def test_an_archive_within_an_archive_is_a_file(explicit, tmp_path):
    server, repository = explicit
    before = set(server.tempdir.iterdir())
    archive = tmp_path / "inner.tar.gz"
    archive.write_bytes(gzip.compress(b"\0" * 15_000_000))
    for level in range(20):
        archive = archive_of(tmp_path / f"{level}.tar.gz", ({"name": "env.tar.gz"}, archive.read_bytes()))
    add_report(repository, "nested", archive)
    assert "Path activate does not exist. The Python environment should contain" in load(server, "nested")
    wait_until(lambda: set(server.tempdir.iterdir()) == before, 20, "the end of the unpacked files")


def fails(server, repository, name, env, text):
    add_report(repository, name, env)
    error = load(server, name)
    assert told(text) in error
    assert told(text) in state(server, name)["reason"]
    assert text in server.log
    assert state(server, name)["state"] == "UNAVAILABLE"
    return error


def test_environment_that_is_not_there(explicit, tmp_path):
    text = f"the Python environment '{tmp_path}/env' (EXECUTION_ENV_PATH): No such file or directory"
    fails(*explicit, "not_there", tmp_path / "env", text)


def test_folder_without_activate(explicit, tmp_path):
    path = tmp_path / "bin" / "activate"
    text = f"Internal: Path {path} does not exist. The Python environment should contain an 'activate' script."
    fails(*explicit, "no_activate", tmp_path, text)


def test_archive_without_activate(explicit, tmp_path):
    archive = archive_of(tmp_path / "env.tar.gz", ({"name": "top/bin/activate"}, b""))
    error = fails(
        *explicit, "archive_no_activate", archive, "The Python environment should contain an 'activate' script."
    )
    assert "(unpacked from 'env.tar.gz')" in error
    assert f"(unpacked from '{archive}')" in explicit[0].log
    assert unpacked(explicit[0].tempdir) == []


def test_file_that_is_no_archive(explicit, tmp_path):
    (tmp_path / "env.tar.gz").write_text("no archive")
    fails(*explicit, "no_archive", tmp_path / "env.tar.gz", f"environment archive '{tmp_path}/env.tar.gz': ")


def test_folder_without_interpreter(explicit, tmp_path):
    env = make_environment(tmp_path / "env", "x")
    for program in (env / "bin").glob("python*"):
        program.unlink()
    (env / "bin" / "python3").symlink_to("/nowhere/python3.12")
    text = (
        f"the Python environment '{env}' has no interpreter: neither bin/python3 nor bin/python is a program; "
        f"'{env}/bin/python3' is a link to '/nowhere/python3.12', which is not a program on this machine"
    )
    fails(*explicit, "no_interpreter", env, text)


def test_environment_without_numpy(explicit, tmp_path):
    env = make_environment(tmp_path / "env", "x", numpy_too=False)
    error = fails(*explicit, "no_numpy", env, f"numpy is not installed in {env}/bin/python3 (sys.path: [")
    assert "Python interpreter 'python3'" in error
    assert f"Python interpreter '{env}/bin/python3'" in explicit[0].log
    assert "site-packages" in error


def make_old(env):
    (site_packages,) = env.glob("lib/python*/site-packages")
    (site_packages / "older.pth").write_text("import sys; sys.version_info = (3, 9, 2, 'final', 0)\n")


def test_interpreter_that_is_too_old(explicit, tmp_path):
    env = make_environment(tmp_path / "env", "x")
    make_old(env)
    error = fails(*explicit, "too_old", env, " is too old, 3.11 or newer is needed (")
    assert "Python interpreter 'python3': Python 3" in error
    assert f"Python interpreter '{env}/bin/python3': Python 3" in explicit[0].log


def test_missing_module_is_named_with_its_environment(explicit, tmp_path, envs):
    server, repository = explicit
    add_report(repository, "no_module", envs / "one", source="import nonexistent_module\n" + REPORT)
    assert "ModuleNotFoundError: No module named 'nonexistent_module'" in load(server, "no_module")


def test_value_of_cpu_only_inputs(explicit):
    server, repository = explicit
    for value in ("yes", "no"):
        add_report(repository, f"cpu_{value}", extra=parameter("FORCE_CPU_ONLY_INPUT_TENSORS", value))
        assert load(server, f"cpu_{value}") == ""
    add_report(repository, "cpu_bad", extra=parameter("FORCE_CPU_ONLY_INPUT_TENSORS", "maybe"))
    assert "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe'" in load(server, "cpu_bad")


def test_folder_name_that_is_no_model_name(explicit):
    server, repository = explicit
    for name in ("semi;colon", "dollar$", "quote'", "back\\slash"):
        repository.add(name, IDENTITY, config(None, [("IN", "FP32", [1])], [("OUT", "FP32", [1])]))
    status, body = server.json("POST", "/v2/repository/models/semi;colon/load", {})
    assert status == 400
    assert "Invalid stub name: contains invalid characters" in body["error"]


# ---- lifetime of unpacked files ------------------------------------------------------------------


def test_next_server_removes_what_a_killed_one_left(repository, serve, envs, tmp_path):
    folder = tmp_path / "common-tmp"
    folder.mkdir()
    add_report(repository, "packed", envs / "one.tar.gz")
    killed = serve(repository, env={"TMPDIR": str(folder)})
    survivor = serve(repository, env={"TMPDIR": str(folder)})
    left = set(unpacked(folder))
    assert len(left) == 2
    used = pathlib.Path(report(survivor, "packed")["prefix"])
    killed.kill()
    assert set(unpacked(folder)) == left
    again = serve(repository, env={"TMPDIR": str(folder)})
    now = set(unpacked(folder))
    assert len(now) == 2
    assert now & left == {used}
    assert report(survivor, "packed")["tiny"] == report(again, "packed")["tiny"] == "one"
    again.stop()
    survivor.stop()
    assert list(folder.iterdir()) == []


def test_fresh_workers_run_in_their_environment(repository, serve, envs, tmp_path):
    bare = make_environment(tmp_path / "bare", "x", numpy_too=False)
    old = make_environment(tmp_path / "old", "x")
    make_old(old)
    add_report(repository, "one", envs / "one")
    add_report(repository, "bare", bare)
    add_report(repository, "old", old)
    server = serve(repository, "--worker-start=fresh", "--model-control-mode=explicit", "--load-model=one")
    assert report(server, "one")["tiny"] == "one"
    assert report(server, "one")["no_new_privs"] == ["1"]
    # A process's output on stderr goes only to the log.
    died = "Stub process '{}' is not healthy. It exited with code 1"
    assert died.format("bare") in load(server, "bare")
    assert died.format("old") in load(server, "old")
    server.wait_for_log(rf"last line of stderr: numpy is not installed in {bare}/bin/python3 \(sys\.path: \[")
    server.wait_for_log(r"last line of stderr: .* is too old, 3\.11 or newer is needed")


LIMITS = """
import resource
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        try:
            bytearray(1 << 30)
            outcome = "enough"
        except MemoryError:
            outcome = "too much"
        limits = [*resource.getrlimit(resource.RLIMIT_NOFILE), *resource.getrlimit(resource.RLIMIT_DATA)]
        report = np.array([repr((limits, outcome)).encode()], dtype=np.object_)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("REPORT", report)]) for _ in requests]
"""


@pytest.mark.parametrize("start", ["fork", "fresh"])
def test_limits_of_a_process(repository, serve, start):
    repository.add("limited", LIMITS, config("limited", [], OUTPUT))
    limits = ["--worker-rlimit=nofile=50", "--worker-rlimit", "data=500000000"]
    server = serve(repository, *limits, f"--worker-start={start}")
    for _ in range(2):
        _, answer = server.json("POST", "/v2/models/limited/infer", {"inputs": []})
        assert answer["outputs"][0]["data"] == ["([50, 50, 500000000, 500000000], 'too much')"]


# ---- the example ---------------------------------------------------------------------------------


def test_example(serve, tmp_path):
    example = ROOT / "examples" / "custom_environment"
    shutil.copytree(example / "models", tmp_path / "models")
    # The tests' own packages, which include the one that the example installs.
    env = make_environment(tmp_path / "env", "x")
    server = serve(tmp_path / "models")
    text = (example / "README.md").read_text()
    path, body = re.search(r"curl localhost:8000(\S+) -d '([^']*)'", text).groups()
    status, _, answer = server.request("POST", path, body)
    assert status == 200, answer
    outputs = {output["name"]: output["data"] for output in json.loads(answer)["outputs"]}
    assert outputs == {"SORTED": ["1.9", "1.10rc1", "1.10"], "ENVIRONMENT": [str(env)]}
    status, _, answer = server.request("POST", path, body.replace("1.9", "x"))
    assert (status, json.loads(answer)) == (400, {"error": "Invalid version: 'x'"})


# ---- Python-based backends (10.1) ----------------------------------------------------------------

BACKEND = REPORT.replace(
    "class TritonPythonModel:",
    "import backend_helper\n\n\nclass TritonPythonModel:\n"
    "    @staticmethod\n"
    "    def auto_complete_config(config):\n"
    "        with open(os.path.join(pb_utils.get_model_dir(), 'model.json')) as file:\n"
    "            facts = json.load(file)\n"
    "        config.add_output({'name': facts['output'], 'data_type': 'TYPE_STRING', 'dims': [1]})\n"
    "        return config\n",
).replace('"tiny": VERSION', '"tiny": VERSION, "helper": backend_helper.NAME')


@pytest.fixture(scope="module")
def backends(module_serve, tmp_path_factory, envs):
    """A server with Python-based backends and a plain Python model."""
    folder = tmp_path_factory.mktemp("backends")
    repository = Repository(folder / "models")
    for name in ("first", "second"):
        place = folder / "backends" / name
        place.mkdir(parents=True)
        (place / "model.py").write_text(BACKEND)
        (place / "backend_helper.py").write_text(f"NAME = '{name}'\n")
    data = {f"{version}/model.json": '{"output": "REPORT"}' for version in (1, 3, 7)}
    all_versions = "version_policy { all { } }"
    repository.add("a", None, 'backend: "first"', versions=(1, 3, 7), files=data)
    repository.add("b", None, f'backend: "first"\n{all_versions}', versions=(1, 3, 7), files=data)
    repository.add("c", None, 'backend: "second"\n' + environment(envs / "two"), files=data, versions=(1,))
    add_report(repository, "plain")
    return module_serve(repository, "--backend-directory", folder / "backends"), repository


def test_backend_serves_models_that_hold_only_data(backends):
    server, repository = backends
    seen = report(server, "a")
    assert seen["helper"] == "first"
    assert seen["module"] == "model"
    assert seen["model_dir"] == str(repository.path / "a" / "7")
    assert seen["args"]["model_repository"] == str(repository.path / "a")
    assert seen["args"]["model_version"] == "7"
    assert seen["args"]["model_name"] == "a"
    completed = server.json("GET", "/v2/models/a/config")[1]
    assert [output["name"] for output in completed["output"]] == ["REPORT"]
    assert completed["backend"] == "first"


def test_backends_and_plain_models_stand_side_by_side(backends):
    server, _ = backends
    assert report(server, "c")["helper"] == "second"
    assert report(server, "plain")["module"] == "1.model"
    versions = server.json("GET", "/v2/models/b")[1]["versions"]
    assert sorted(versions) == ["1", "3", "7"]
    assert server.json("GET", "/v2/models/a")[1]["versions"] == ["7"]
    status, answer = server.json("POST", "/v2/models/b/versions/3/infer", {"inputs": []})
    assert status == 200
    assert json.loads(answer["outputs"][0]["data"][0])["model_dir"].endswith("/b/3")


def test_model_of_a_backend_has_an_environment_of_its_own(backends, envs):
    server, _ = backends
    assert report(server, "c")["prefix"] == str(envs / "two")
    assert report(server, "c")["tiny"] == "two"
    assert report(server, "a")["tiny"] is None
