"""The commands for a model's author: braid init, braid examples, and the fixtures for tests."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from harness.server import BINARY, Server

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = {
    "python": '"data":[2.0,4.0,6.0]',
    "decoupled": '"text_output":"three"',
    "bls": '"data":[64.0,128.0]',
    "stateful": '"data":[5.0]',
    "graph": '"data":["HELLO"]',
    "pipeline": '"data":[2.0,3.0,4.0]',
}


def braid(*arguments, **options):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=100, **options)


def run_pytest(folder, *arguments):
    environment = {**os.environ, "BRAID_PROGRAM": str(BINARY), "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "braid._pytest", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_model_works(kind, tmp_path):
    made = braid("init", "first", "--kind", kind, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    folder = tmp_path / "first"
    assert not [file for file in folder.rglob("*") if file.is_file() and "@NAME@" in file.read_text("latin-1")]
    tested = run_pytest(folder)
    assert tested.returncode == 0, tested.stdout
    assert re.search(r"\b[12] passed", tested.stdout)
    serve = shlex.split(re.search(r"braid serve (.*)", made.stdout)[1])
    request = re.search(r"curl .*", made.stdout)[0]
    assert request in (folder / "README.md").read_text()
    repositories = [folder / each for each in serve if each == "models"]
    options = ["--config_path", folder / "config.json"] if "--config_path" in serve else ["--watch"]
    with Server(repositories, *options, workdir=tmp_path) as server:
        answer = subprocess.run(
            request.replace("localhost:8000", server.http), shell=True, capture_output=True, text=True, timeout=60
        )
        assert KINDS[kind] in answer.stdout, answer.stdout


def test_init_refuses_a_wrong_name_kind_or_folder(tmp_path):
    wrong = braid("init", "../up", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "the name is '../up'; expected a letter, and then letters, digits and underscores" in wrong.stderr
    assert "python" in braid("init", "x", "--kind", "other", cwd=tmp_path).stderr
    (tmp_path / "used").mkdir()
    (tmp_path / "used/file").write_text("kept")
    again = braid("init", "used", cwd=tmp_path)
    assert again.returncode == 1
    assert "'used' exists already" in again.stderr
    assert [file.name for file in (tmp_path / "used").iterdir()] == ["file"]


def test_examples_are_listed_and_copied(tmp_path):
    listed = braid("examples")
    assert "graphs               Graphs with Python nodes" in listed.stdout
    copied = braid("examples", "here", "models", "graphs", cwd=tmp_path)
    assert copied.returncode == 0, copied.stderr
    for folder in ("models", "graphs"):
        theirs = subprocess.run(
            ["git", "ls-files", folder], cwd=ROOT / "examples", capture_output=True, text=True, check=True
        ).stdout.split()
        for file in theirs:
            assert (tmp_path / "here" / file).read_bytes() == (ROOT / "examples" / file).read_bytes()
    for header in (ROOT / "include").iterdir():
        assert (tmp_path / "here/include" / header.name).read_bytes() == header.read_bytes()
    more = braid("examples", "here", "fleet", cwd=tmp_path)
    assert more.returncode == 0, more.stderr
    refused = braid("examples", "here", "absent", cwd=tmp_path)
    assert refused.returncode == 1
    assert "there is no example 'absent'; expected access, " in refused.stderr


TESTS = """
import os
import threading

def test_one(braid_model, pytestconfig):
    first = braid_model("models/first")
    assert first is braid_model("models/first")
    assert first.execute({"IN": [1]})["OUT"].tolist() == [2]
    in_process = pytestconfig.getoption("--braid-in-process")
    assert any(thread.name == "braid-model" for thread in threading.enumerate())
    if in_process:
        assert type(first.instance).__name__ == "TritonPythonModel"
"""


@pytest.mark.parametrize("options", [[], ["--braid-in-process"]], ids=["worker", "in-process"])
def test_fixtures_load_a_model_once(options, tmp_path):
    braid("init", "first", cwd=tmp_path)
    folder = tmp_path / "first"
    (folder / "test_first.py").write_text(TESTS)
    tested = run_pytest(folder, *options)
    assert tested.returncode == 0, tested.stdout


def test_coverage_sees_a_model_in_the_process_of_the_tests(tmp_path):
    braid("init", "first", cwd=tmp_path)
    folder = tmp_path / "first"
    environment = {**os.environ, "BRAID_PROGRAM": str(BINARY), "PYTHONPATH": str(ROOT / "python")}
    for command in (
        ["run", "--include=*/models/first/*", "-m", "pytest", "-q", "-p", "braid._pytest", "--braid-in-process"],
        ["json", "-o", "coverage.json"],
    ):
        subprocess.run(
            [sys.executable, "-m", "coverage", *command], cwd=folder, env=environment, check=True, timeout=100
        )
    (covered,) = json.loads((folder / "coverage.json").read_text())["files"].values()
    assert covered["summary"]["percent_covered"] == 100


@pytest.mark.parametrize("options", [[], ["--braid-in-process"]], ids=["worker", "in-process"])
def test_the_tests_of_the_examples(options):
    tested = run_pytest(ROOT / "examples/tests", *options)
    assert tested.returncode == 0, tested.stdout
