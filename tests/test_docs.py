"""What the documentation says to paste works."""

import json
import re

import pytest
from harness.server import ROOT

PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CURL = re.compile(r"curl -s localhost:8000(\S+)(?: -d '([^']*)')?")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.fixture(scope="module")
def server(module_serve):
    return module_serve(ROOT / "examples" / "models")


def requests_of(page):
    return [m.groups() for m in CURL.finditer(page.read_text()) if "/hello/" not in m.group(1)]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target
