"""Writes what is generated in examples/notebooks: Colab badge, install cell, and with `--execute` the outputs.

    python -m tools.notebooks [--execute] [NAME ...]

Run it after a change of `repository` in pyproject.toml (tools/repository.py) or, with `--execute`, of a notebook. Of
the outputs everything but stderr and log lines is kept: progress bars and warnings depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from typing import Any

from tools.repository import ROOT, colab_badge, install_target, repository

FOLDER = ROOT / "examples" / "notebooks"
INSTALL = """from importlib.util import find_spec

if find_spec("countdown_selfplay") is None:
    %pip install -q "{target}\""""


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def generated(notebook: dict[str, Any], name: str, address: str) -> dict[str, Any]:
    """The notebook with the badge below its title and the install cell after its first text; twice is once."""
    cells = [cell for cell in notebook["cells"] if cell["id"] not in ("badge", "install")]
    badge = colab_badge(f"examples/notebooks/{name}.ipynb", address)
    badges = [{"cell_type": "markdown", "id": "badge", "metadata": {}, "source": lines(badge)}] if badge else []
    source = lines(INSTALL.format(target=install_target(address)))
    install = {"cell_type": "code", "id": "install", "metadata": {}, "source": source}
    install |= {"execution_count": None, "outputs": []}
    return notebook | {"cells": [*badges, cells[0], install, *cells[1:]]}


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with its outputs, run in an empty folder."""
    import nbformat
    from nbclient import NotebookClient

    os.environ["OMP_NUM_THREADS"] = "1"
    book = nbformat.reads(json.dumps(notebook), as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, timeout=900, resources={"metadata": {"path": folder}}).execute()
    return cleaned(json.loads(nbformat.writes(book))) | {"metadata": notebook["metadata"]}


def cleaned(notebook: dict[str, Any]) -> dict[str, Any]:
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["outputs"] = [output for output in cell["outputs"] if not noise(output)]
    return notebook


def noise(output: dict[str, Any]) -> bool:
    return output.get("name") == "stderr" or "[WARNING]" in "".join(output.get("text", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="notebooks without their ending; all by default")
    parser.add_argument("--execute", action="store_true", help="run them and keep their outputs")
    options = parser.parse_args()
    for path in sorted(FOLDER.glob("*.ipynb")):
        if options.names and path.stem not in options.names:
            continue
        notebook = json.loads(path.read_text(encoding="utf-8"))
        notebook = generated(executed(notebook) if options.execute else notebook, path.stem, repository())
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
