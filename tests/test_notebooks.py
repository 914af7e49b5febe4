# Tests: tools/notebooks.py
"""The notebooks run from top to bottom in a kernel of their own, and say what is wrong in one sentence."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.notebook
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def executed(path, folder, monkeypatch):
    """The notebook after its run in `folder`, which is not the one it lies in."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(folder.parent / "ipython"))
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    return book


def shown(book, kind):
    """What the cells put out: of streams the texts, of rich output its HTML and its plain text."""
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    if kind == "stream":
        return "".join(output.text for output in outputs if output.output_type == "stream")
    found = [output.data for output in outputs if "data" in output]
    return [data[kind] for data in found if kind in data]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    book = executed(path, folder, monkeypatch)
    tables = "".join(shown(book, "text/html"))
    assert all(f"<th>{column}</th>" in tables for column in ("Round", "solved", "solve rate", "solvable", "played"))
    if path.stem == "quickstart":
        assert shown(book, "image/png") and (folder / "runs/notebook-quickstart/report.html").exists()
        said = shown(book, "stream")
        assert "prover pass@16, rung 6" in said and "on 128 held-out problems" in said
    elif path.stem == "your_own_parts":
        assert "<th>spread</th>" in tables and "The solve rates of a round spread over" in shown(book, "stream")
    else:
        assert "The conjecturer was starved" in shown(book, "stream") and "pass@8, anchor minus" in shown(
            book, "stream"
        )
        assert (folder / "runs/notebook-comparison.html").exists()


def test_in_a_folder_that_cannot_be_written_a_notebook_says_so_in_one_sentence(tmp_path, monkeypatch):
    (path,) = [path for path in NOTEBOOKS if path.stem == "your_own_parts"]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    book = nbformat.read(path, as_version=4)
    with pytest.raises(CellExecutionError):  # /sys takes no folder, of root either
        NotebookClient(book, timeout=600, resources={"metadata": {"path": "/sys"}}).execute()
    (error,) = [o for cell in book.cells for o in cell.get("outputs", ()) if o.output_type == "error"]
    assert len(error.traceback) == 1 and error.ename == "RunFolderError"
    assert error.traceback[0].startswith(
        "RunFolderError: `output_dir` (/sys/runs/notebook-reward) cannot be written ("
    )
    assert error.traceback[0].endswith("); choose another folder.") and "\n" not in error.traceback[0]
