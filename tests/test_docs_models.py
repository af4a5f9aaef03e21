"""Runs the code blocks of the pages about models, graphs and pipelines, like test_docs.py."""

import pytest
from harness.pages import blocks, pages_of, read


@pytest.mark.parametrize("page", [page for page in pages_of("Models", "Graphs", "Pipelines") if blocks(page)])
def test_blocks_of_a_page(page, tmp_path, examples_server):
    read(page, tmp_path, examples_server)
