"""The documentation as a site: it builds in strict mode, can be searched, and loads nothing from other servers."""

import html.parser
import importlib.machinery
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import urllib.parse

import pytest
from harness.server import ROOT

if importlib.util.find_spec("mkdocs") is None:
    pytest.skip("mkdocs is not installed; scripts/python-env site", allow_module_level=True)

SCRIPT = ROOT / "scripts" / "build-site"
PAGES = sorted((ROOT / "docs").glob("*.md"))
# Attributes with addresses that a browser fetches by itself.
FETCHED = {
    "script": "src",
    "link": "href",
    "img": "src",
    "source": "src",
    "iframe": "src",
    "video": "src",
    "object": "data",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--output", folder], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def elements(page):
    """Returns (tag, attributes) of all elements of an HTML file."""
    found = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.append((tag, dict(attributes)))
    parser.feed(page.read_text(encoding="utf-8"))
    return found


def of_page(site, markdown):
    path = markdown.relative_to(ROOT)
    return site / (path.parent / "index.html" if path.name == "README.md" else path.with_suffix(".html"))


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_each_page_is_there_and_begins_with_its_title(site, page):
    title = re.search(r"^# (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)[1]
    shown = re.search(r"<h1[^>]*>(.*?)<a ", of_page(site, page).read_text(encoding="utf-8"), re.DOTALL)[1]
    assert html.unescape(re.sub("<[^>]+>", "", shown)) == title.replace("`", "")


def test_search_finds_each_page(site):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    found = {entry["location"].partition("#")[0] for entry in index}
    assert {str(of_page(site, page).relative_to(site)) for page in PAGES} <= {place or "index.html" for place in found}
    texts = {entry["location"]: entry["text"] for entry in index}
    assert "demultiply_count" in texts["docs/demultiplexing.html"]


def test_nothing_comes_from_elsewhere(site):
    for page in site.rglob("*.html"):
        for tag, attributes in elements(page):
            address = attributes.get(FETCHED.get(tag), "")
            if tag == "link" and attributes.get("rel") in ("prev", "next", "canonical"):
                continue
            assert not re.match(r"(https?:)?//", address or ""), f"{page.relative_to(site)}: {tag} {address}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_links_lead_to_files(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue  # its links begin at the site's root, whose address is not known here
        for tag, attributes in elements(page):
            address = urllib.parse.urlsplit(attributes.get({"a": "href", **FETCHED}.get(tag)) or "")
            if address.scheme or not address.path:
                continue
            target = page.parent / urllib.parse.unquote(address.path)
            assert target.is_file() or (target / "index.html").is_file(), f"{page.relative_to(site)}: {address.path}"


def test_each_page_is_in_a_list():
    listed = re.findall(
        r"^\| \[[^]]+\]\(([^)]+)\)", (ROOT / "docs" / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(page.name for page in PAGES if page.name != "README.md")


@pytest.mark.parametrize(
    ("link", "told"), [("[there](nowhere.md)", "nowhere.md"), ("[there](a.md#no-such-heading)", "no-such-heading")]
)
def test_a_broken_link_fails(tmp_path, link, told):
    for folder in ("site", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "docs").mkdir()
    (tmp_path / "examples").mkdir()
    (tmp_path / "README.md").write_text("# Start\n\n[examples](examples/README.md), [docs](docs/README.md)\n")
    (tmp_path / "examples" / "README.md").write_text("# Examples\n")
    (tmp_path / "docs" / "README.md").write_text(
        "# Documentation\n\n## All\n\n| page | for |\n| --- | --- |\n| [A](a.md) | a |\n"
    )

    def build():
        return subprocess.run(
            [sys.executable, tmp_path / "scripts" / "build-site"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    (tmp_path / "docs" / "a.md").write_text("# A\n\nNothing broken.\n")
    assert build().returncode == 0
    (tmp_path / "docs" / "a.md").write_text(f"# A\n\n{link}\n")
    broken = build()
    assert broken.returncode == 1
    assert told in broken.stderr
