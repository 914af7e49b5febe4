"""Are the parts of the source tree within their budgets of lines (tools/budgets.toml)?

python tools/budgets.py      # a row a part; the exit code is 1 if one has more lines than its budget
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "src/countdown_selfplay"


def budgets() -> dict[str, int]:
    """Part -> lines."""
    return tomllib.loads((ROOT / "tools/budgets.toml").read_text(encoding="utf-8"))


def lines() -> Counter[str]:
    """Part -> lines that it has."""
    found: Counter[str] = Counter()
    parts = budgets()
    for folder in (PACKAGE, "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            inner = path.relative_to(ROOT / folder).parts[0]
            part = "tests" if folder == "tests" else inner if inner in parts else "core"
            found[part] += len(path.read_text(encoding="utf-8").splitlines())
    return found


def main() -> int:
    """Print the table; 1 if a part is over its budget."""
    found, allowed = lines(), budgets()
    over = {part: count - allowed.get(part, 0) for part, count in found.items() if count > allowed.get(part, 0)}
    for part, budget in {**dict.fromkeys(found, 0), **allowed}.items():
        print(f"{part:12} {found[part]:7,} of {budget:7,}{f'  {over[part]} too many' if part in over else ''}")
    core = sum(found[part] for part in ("core", "countdown", "cli"))
    print(f"core with countdown and cli {core:,}; the package {sum(found.values()) - found['tests']:,}")
    if over:
        print("Delete lines, or raise tools/budgets.toml in a commit of its own that says why.")
    return 1 if over else 0


if __name__ == "__main__":
    raise SystemExit(main())
