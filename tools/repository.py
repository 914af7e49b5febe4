"""The public address of the repository, from one setting: `[tool.countdown-selfplay] repository` in pyproject.toml.

Badges (README, notebooks), the edit links of the docs site and the notebooks' install cells are made from it.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BRANCH = "main"


def repository(root: Path = ROOT) -> str:
    """The address without a trailing slash, such as https://github.com/OWNER/NAME; "" if none is set."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return settings["tool"]["countdown-selfplay"]["repository"].rstrip("/")


def colab_badge(path: str, address: str) -> str:
    """Markdown of the badge that opens the notebook at `path` (relative to the root) in Colab; "" unless `address` is
    on GitHub, the only host that Colab reads from."""
    host = "https://github.com/"
    if not address.startswith(host):
        return ""
    link = f"https://colab.research.google.com/github/{address.removeprefix(host)}/blob/{BRANCH}/{path}"
    return f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({link})"


def install_target(address: str) -> str:
    """The argument of pip in a notebook's first cell: the repository, or without an address the checkout itself."""
    return f"countdown-selfplay[notebook] @ git+{address}" if address else "../..[notebook]"
