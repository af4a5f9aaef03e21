"""Runs every code block of the documentation, like a reader who pastes one after the other, and checks links."""

import re

import pytest
from harness.pages import NOT_RUN, blocks, blocks_of, pages, pages_of, read
from harness.server import ROOT

LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")

# tests/test_docs_models.py; tests/test_kubernetes_deployment.py; examples: tests/test_docs_examples.py
ELSEWHERE = [*pages_of("Models", "Graphs", "Pipelines"), "docs/kubernetes-deployment.md"]


@pytest.mark.parametrize(
    "page", [page for page in pages() if blocks(page) and page not in ELSEWHERE and not page.startswith("examples/")]
)
def test_blocks_of_a_page(page, tmp_path, examples_server):
    read(page, tmp_path, examples_server)


@pytest.mark.parametrize("page", NOT_RUN)
def test_what_is_not_run_is_there(page):
    for beginning in NOT_RUN[page]:
        assert any(block.begins(beginning) for block in blocks(page)), f"{page}: no block begins with {beginning!r}"


# Generated pages, and the page about the source. README.md first says what Braid is.
TO_READ = ("docs/architecture.md", "docs/benchmarks")


@pytest.mark.parametrize("page", [page for page in pages() if page != "README.md" and not page.startswith(TO_READ)])
def test_a_page_begins_with_something_to_paste(page):
    beginning, _, _ = (ROOT / page).read_text(encoding="utf-8").partition("\n## ")
    assert any(block.language == "sh" or block.name for block in blocks_of(beginning)), page


def test_ratios_of_the_readme():
    """The README's figures are those of the benchmark's last run: (load, throughput, p50, CPU)."""
    measured = re.findall(
        r"^\| (W\d+\w* [^|]+) \| ([\d.]+) [^|]*\|[^|]*\| ([\d.]+) [^|]*\|[^|]*\| ([\d.]+) ",
        (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    shown = re.findall(
        r"^\| (W\d+\w* [^|]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(shown) == 18
    assert shown == measured[: len(shown)]


@pytest.mark.parametrize("page", pages())
def test_links_of_a_page_lead_somewhere(page):
    for target in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / target).exists(), target
