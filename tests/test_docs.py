"""What the documentation says to paste works."""

import json
import re
import subprocess
import sys

import pytest
from harness.server import ROOT, Server

PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CURL = re.compile(r"curl -s localhost:8000(\S+)(?: -d '([^']*)')?")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def server(module_serve):
    return module_serve(ROOT / "examples" / "models")


def requests_of(page):
    return [m.groups() for m in CURL.finditer(page.read_text()) if not re.search("/(hello|triple)/", m.group(1))]


@pytest.mark.parametrize("page", [p for p in PAGES if requests_of(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_requests_of_a_page(server, page):
    for path, body in requests_of(page):
        status, _, answer = server.request("POST" if body else "GET", path, body)
        assert status == 200, answer


def test_answer_of_the_quickstart(server):
    text = (ROOT / "docs" / "quickstart.md").read_text()
    path, body = CURL.search(text).groups()
    shown = re.search(r"```json\n(.*)\n```", text).group(1)
    _, _, answer = server.request("POST", path, body)
    assert json.loads(answer) == json.loads(shown)


def test_events_of_the_page_on_decoupled_models(server):
    text = (ROOT / "docs" / "decoupled.md").read_text()
    path, body = CURL.search(text).groups()
    shown = re.search(r"```\n(data: .*?)```", text, re.DOTALL).group(1)
    _, _, answer = server.request("POST", path, body)
    assert answer.decode() == shown


def test_model_of_the_quickstart(repository, serve):
    text = (ROOT / "docs" / "quickstart.md").read_text()
    source = re.search(r"<<'MODEL'\n(.*?)\nMODEL\n", text, re.DOTALL).group(1)
    repository.add("hello", source, None)
    path, body = next(m.groups() for m in CURL.finditer(text) if "/hello/" in m.group(1))
    status, _, answer = serve(repository).request("POST", path, body)
    assert status == 200, answer
    assert json.loads(answer)["outputs"][0]["data"] == ["Hello, world!"]


FILE = re.compile(r"^`([^`\n/]+)`:\n\n```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
ASK = re.compile(r"curl -s localhost:(\d+)(\S+)(?: -d '([^']*)')?(?:\n```\n\n```json\n(.*?)\n```)?", re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [
        "pipelines",
        "config-json",
        "openvino-models",
        "custom-nodes",
        "graphs",
        "python-nodes",
        "stateful-models",
        "writing-a-calculator",
    ],
)
def test_what_a_page_on_config_json_starts_with(page, tmp_path):
    """Files are made as the page shows them, its commands are run, and the server that it starts is asked."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    start = text[: text.index("```", ASK.search(text).end()) + 3]
    for name, content in FILE.findall(start):
        (tmp_path / name).write_text(content)
    commands = "".join(SHELL.findall(start)).replace("/tmp/", f"{tmp_path}/")
    commands = commands.replace(".venv/bin/python", sys.executable).replace("examples/", f"{ROOT}/examples/")
    commands = commands.replace("-I include", f"-I {ROOT}/include")
    before, _, serve = commands.partition("build/braid serve ")
    subprocess.run(["bash", "-euc", before], cwd=tmp_path, check=True, timeout=120)
    options = re.sub(r"--((rest_)?port|python) \S+", "", serve.splitlines()[0]).split()
    _, path, body, shown = ASK.search(text).groups()
    with Server([], *options, workdir=tmp_path) as server:
        status, _, answer = server.request("POST" if body else "GET", path, body)
        assert status == 200, answer
        if shown:
            assert json.loads(answer) == json.loads(shown)
        if page == "custom-nodes":
            assert json.loads(answer)["outputs"][0]["data"] == [3, 6, 9]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target
