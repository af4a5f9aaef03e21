"""Runs the code blocks of the examples' pages, like test_docs.py."""

import pytest
from harness.pages import blocks, pages, read


@pytest.mark.parametrize("page", [page for page in pages() if blocks(page) and page.startswith("examples/")])
def test_blocks_of_a_page(page, tmp_path, examples_server):
    read(page, tmp_path, examples_server)


@pytest.mark.campaign
@pytest.mark.parametrize("folder", ["examples/custom_nodes", "examples/calculators"])
def test_all_libraries_of_a_folder_are_made(folder, tmp_path, examples_server):
    read(f"{folder}/README.md", tmp_path, examples_server, makes_all=True)
