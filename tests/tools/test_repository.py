# Tests: tools/repository.py, tools/readme.py
"""One setting makes badges, edit links and install cells; the notebooks hold what the tool writes."""

import json
import re

import pytest
from tools.notebooks import FOLDER, generated
from tools.repository import ROOT, colab_badge, install_target, repository

ADDRESS = "https://github.com/someone/countdown-selfplay"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_the_address_is_read_and_adds_a_badge_and_an_install_cell_once(tmp_path):
    (tmp_path / "pyproject.toml").write_text(f'[tool.countdown-selfplay]\nrepository = "{ADDRESS}/"\n')
    assert repository(tmp_path) == ADDRESS
    assert repository() == repository(ROOT)
    assert colab_badge("examples/notebooks/x.ipynb", "") == ""
    assert colab_badge("examples/notebooks/x.ipynb", "https://gitlab.com/someone/x") == ""  # Colab reads from GitHub
    assert install_target("") == "../..[notebook]"
    notebook = json.loads(NOTEBOOKS[0].read_text(encoding="utf-8"))
    once = generated(notebook, "x", ADDRESS)
    link = "https://colab.research.google.com/github/someone/countdown-selfplay/blob/main/examples/notebooks/x.ipynb"
    assert link in "".join(once["cells"][0]["source"])
    assert f"countdown-selfplay[notebook] @ git+{ADDRESS}" in "".join(once["cells"][2]["source"])
    assert generated(once, "x", ADDRESS) == once
    assert generated(once, "x", "")["cells"] == generated(notebook, "x", "")["cells"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_its_generated_cells_and_small_outputs(path):
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert generated(notebook, path.stem, repository()) == notebook, "run: python -m tools.notebooks"
    assert path.stat().st_size < 200_000
    assert all(cell["outputs"] for cell in notebook["cells"][-1:]), "run: python -m tools.notebooks --execute"
    assert str(ROOT) not in text


def test_every_path_of_the_map_of_the_source_exists():
    text = (ROOT / "docs" / "where_is_what.md").read_text(encoding="utf-8")
    paths = [path for path in re.findall(r"`([\w/]+(?:\.py|/))`", text) if "/" in path and path != "exact/"]
    places = (ROOT / "src" / "countdown_selfplay", ROOT)
    assert len(paths) > 30
    assert [path for path in paths if not any((place / path).exists() for place in places)] == []
