"""`python -m docs.pictures`: write the pictures of the pages to docs/assets/."""

from __future__ import annotations

import re
from pathlib import Path

from .diagrams import DIAGRAMS
from .gallery import charts

ASSETS = Path(__file__).resolve().parents[1] / "assets"


def compact(text: str) -> str:
    """The same picture in half of the bytes: a tenth of a unit is fine enough, and indentation is not drawn."""
    text = re.sub(r"<[^>]+>", _compact_tag, text)
    return re.sub(r"\s*\n\s*", "\n", text)


def _compact_tag(tag: re.Match[str]) -> str:
    text = re.sub(r"-?\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), tag[0])
    text = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", text)
    text = re.sub(r'(?<= d=")[^"]*', lambda path: re.sub(r"\s*([MLCQz])\s*", r"\1", path[0]), text)
    return re.sub(r'(?<=style=")[^"]*', lambda style: re.sub(r"([:;]) ", r"\1", style[0]), text)


def pictures() -> dict[str, str]:
    """Name of the file in docs/assets/, without its ending -> SVG text."""
    texts = {name: draw() for name, draw in DIAGRAMS.items()}
    texts |= {f"gallery/{name}": text for name, text in charts().items()}
    return {name: compact(text) for name, text in texts.items()}


if __name__ == "__main__":
    texts = pictures()
    (ASSETS / "gallery").mkdir(exist_ok=True)
    for stale in (ASSETS / "gallery").glob("*.svg"):
        stale.unlink()
    for name, text in texts.items():
        (ASSETS / f"{name}.svg").write_text(text, encoding="utf-8")
    print(f"wrote {len(texts)} pictures to {ASSETS}")
