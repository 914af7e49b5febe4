"""Write what of README.md and examples/README.md depends on a setting, and the README's badges.

    python -m tools.readme

Run it after a change of `repository`, `requires-python`, `license` or the floor of TRL in pyproject.toml. The lines
between `<!-- repository -->` and `<!-- /repository -->` need the repository's address: where to clone from, and links
that open the notebooks in Colab. While there is no address they are empty. Badges are files, so that a page shows them
without a request to another host.
"""

from __future__ import annotations

import re
import tomllib

from tools.repository import ROOT, colab_badge, repository

PLACES = ("README.md", "examples/README.md")
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
BADGES = ROOT / "docs" / "assets" / "badges"
BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}: {value}">
<title>{name}: {value}</title>
<rect width="{width}" height="20" rx="3" fill="#555b66"/>
<path d="M{left} 0h{inner}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="#0b62b0"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{name_at}" y="14">{name}</text>
<text x="{value_at}" y="14">{value}</text>
</g>
</svg>
"""


def badge(name: str, value: str) -> str:
    """A badge as SVG; a letter of the font is about 7 units wide."""
    left, right = 7 * len(name) + 12, 7 * len(value) + 12
    places = {"name_at": left / 2, "value_at": left + right / 2, "left": left, "inner": right - 3}
    return BADGE.format(name=name, value=value, width=left + right, **places)


def badges() -> dict[str, str]:
    """Name of the file in docs/assets/badges/ -> SVG text, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (trl,) = (need for need in project["dependencies"] if need.startswith("trl"))
    floors = {"python": project["requires-python"], "TRL": trl.removeprefix("trl")}
    shown = {name: floor.replace(">=", "") + "+" for name, floor in floors.items()} | {"licence": project["license"]}
    return {f"{name.lower()}.svg": badge(name, value) for name, value in shown.items()}


def links(address: str) -> str:
    """What stands between the two marks: nothing without an address."""
    if not address:
        return ""
    badges_of = {path.stem: colab_badge(f"examples/notebooks/{path.name}", address) for path in NOTEBOOKS}
    opened = [f"[{name}]({text.rpartition('](')[2]}" for name, text in badges_of.items() if text]
    notebooks = f"Notebooks in Colab: {', '.join(opened)}.\n\n" if opened else ""
    return f"\n{notebooks}```bash\ngit clone {address}\n```\n\n"


def with_links(text: str, address: str) -> str:
    """A page with what belongs between its marks; twice is once."""
    return re.sub(r"(<!-- repository -->\n).*?(<!-- /repository -->)", rf"\1{links(address)}\2", text, flags=re.DOTALL)


def main() -> None:
    address = repository()
    for path in (ROOT / place for place in PLACES):
        path.write_text(with_links(path.read_text(encoding="utf-8"), address), encoding="utf-8")
    BADGES.mkdir(exist_ok=True)
    for name, text in badges().items():
        (BADGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
