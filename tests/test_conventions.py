"""Conventions for contributors: workflows that only call scripts, forms, hooks, and consistent settings."""

import configparser
import json
import re
import subprocess
import tomllib

import pytest
import yaml
from harness.public_clients import need
from harness.server import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [ROOT / ".github" / "ISSUE_TEMPLATE" / name for name in ("bug.yml", "feature.yml")]
# The only commands of a workflow on a bare machine.
INSTALLS = re.compile(r"apt-get -q (update|install -y --no-install-recommends( [a-z0-9-]+)+)")


def read(path):
    return yaml.safe_load((ROOT / path).read_text())


def steps(workflow):
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def workflow(request):
    return request.param


def test_workflows_are_valid():
    program = need("actionlint") / "actionlint"
    # Without the optional programs that it would find on some machines.
    ran = subprocess.run([program, "-shellcheck=", "-pyflakes=", *WORKFLOWS], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_workflows_only_call_scripts(workflow):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    lines = [line for step in steps(workflow) for line in step.get("run", "").splitlines()]
    calls = [line for line in lines if not INSTALLS.fullmatch(line)]
    assert calls
    for line in calls:
        program, called = line.split()
        if program == "make":
            assert called in targets, line
        else:
            assert program == "bash", line
            assert (ROOT / called).is_file(), line


def test_actions_are_pinned_and_may_read_only(workflow):
    uses = re.findall(r"uses: (.*)", workflow.read_text())
    assert len(uses) == sum("uses" in step for step in steps(workflow)) > 0
    for action in uses:
        assert re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40} # v[0-9.]+", action), action
    assert read(workflow)["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] for job in read(workflow)["jobs"].values())


def test_workflows_use_the_same_actions():
    pins = {pin for workflow in WORKFLOWS for pin in re.findall(r"uses: (.*)", workflow.read_text())}
    assert len(pins) == len({pin.partition("@")[0] for pin in pins})


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.name)
def test_forms_ask(form):
    asked = read(form)
    assert asked["name"]
    assert asked["description"]
    fields = [field for field in asked["body"] if field["type"] != "markdown"]
    assert "version" in [field["id"] for field in fields]
    assert len({field["id"] for field in fields}) == len(fields)
    for field in fields:
        assert field["type"] in ("input", "textarea"), field
        assert field["attributes"]["label"], field


def test_targets_and_files_that_are_named_exist():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    texts = [path.read_text() for path in (*FORMS, ROOT / ".github" / "pull_request_template.md")]
    for target in re.findall(r"`make ([a-z-]+)`", "".join(texts)):
        assert target in targets, target
    for page in re.findall(r"\b[A-Za-z/]+\.md\b", "".join(texts)):
        assert (ROOT / page).is_file(), page
    assert read(".github/ISSUE_TEMPLATE/config.yml")["blank_issues_enabled"] is True


def test_hooks_run_what_make_check_runs():
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    check = (ROOT / "scripts" / "check").read_text()
    for hook in repository["hooks"]:
        assert hook["language"] == "system", hook
        program, *options = hook["entry"].split()
        assert all(f'{word}"' in check for word in (program.removeprefix(".venv/bin/"), *options)), hook


def test_the_container_to_work_in_has_its_files():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).is_file()
    assert (ROOT / container["postCreateCommand"]).stat().st_mode & 0o111


def test_editors_agree_with_formatters():
    editor = configparser.ConfigParser()
    editor.read_string("[top]\n" + (ROOT / ".editorconfig").read_text())
    style = read(".clang-format")
    # Google's style has two.
    assert style["BasedOnStyle"] == "Google"
    assert editor["*.{cc,h}"].getint("indent_size") == style.get("IndentWidth", 2)
    assert editor["*.{cc,h}"].getint("max_line_length") == style["ColumnLimit"]
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert editor["*.py"].getint("indent_size") == ruff.get("indent-width", 4)
    assert editor["*.py"].getint("max_line_length") == ruff["line-length"]
