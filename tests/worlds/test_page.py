# Tests: docs/worlds.md
"""The Python of the page runs, from top to bottom."""

import pytest

from tests.test_docs import ROOT, blocks


@pytest.mark.filterwarnings("ignore")
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(ROOT / "docs" / "worlds.md", "python")
    assert found
    names = {"__name__": "worlds"}
    for block in found:
        exec(block, names)
