"""Hook of mkdocs (mkdocs.yml): links to the repository, and a page for each notebook of examples/notebooks.

Both need nothing but the checkout: the address comes from tools/repository.py (without one there are no links), and a
notebook's page has its text, code, printed output and pictures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # mkdocs loads a hook by its path

from tools.repository import BRANCH, colab_badge, repository  # noqa: E402

NOTEBOOKS = ROOT / "examples" / "notebooks"


def on_config(config: Any) -> Any:
    address = repository()
    if address:
        config.repo_url, config.edit_uri = address, f"edit/{BRANCH}/docs/"
        config.repo_name = address.removeprefix("https://").split("/", 1)[1]
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text = notebook_page(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def notebook_page(notebook: dict[str, Any], name: str) -> str:
    """Markdown of a notebook; links to docs/ are those of the site."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace("../../docs/", "../"))
        elif cell["id"] != "install":
            parts += [f"```python\n{source}\n```", *filter(None, map(shown, cell["outputs"]))]
    title, *rest = parts
    note = f"This page is the notebook `examples/notebooks/{name}` with its outputs. " + colab_badge(
        f"examples/notebooks/{name}", repository()
    )
    head, _, text = title.partition("\n")
    return "\n\n".join([head, note.strip(), text.strip(), *rest]) + "\n"


def shown(output: dict[str, Any]) -> str:
    """One output of a cell: a picture, a table, or a block of text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f"![Output of the cell above](data:image/png;base64,{''.join(data['image/png']).strip()})"
    if "text/html" in data:
        lines = "".join(data["text/html"]).splitlines()
        return "\n".join(line.strip() for line in lines if line.strip())
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return f"```text\n{text}\n```" if text else ""
