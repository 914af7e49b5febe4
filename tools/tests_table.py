"""Which test files test a module: the table in CONTRIBUTING.md, from the first line of each test file.

    python -m tools.tests_table

The first line of tests/.../test_X.py reads `# Tests: training/round.py, training/credit.py`: files of the package, or
of the repository (`tools/readme.py`, `README.md`), that the file is there for. What a test only uses is not named.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tools.trees import ROOT

PACKAGE = ROOT / "src" / "countdown_selfplay"
PAGE = ROOT / "CONTRIBUTING.md"
MARKS = ("<!-- tests -->", "<!-- /tests -->")
FIRST = re.compile(r"# Tests: (.+)")


def named(path: Path) -> list[str]:
    """The names on a test file's first line; [] without such a line."""
    first = FIRST.fullmatch(path.read_text(encoding="utf-8").split("\n", 1)[0])
    return first[1].split(", ") if first else []


def files() -> list[Path]:
    return sorted((ROOT / "tests").rglob("test_*.py"))


def modules() -> list[str]:
    """The package's files, without those `__init__.py` that only re-export."""
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def exists(name: str) -> bool:
    return (PACKAGE / name).exists() or (ROOT / name).exists()


def table() -> str:
    tests = defaultdict(list)
    for path in files():
        for name in named(path):
            tests[name].append(str(path.relative_to(ROOT / "tests")).removesuffix(".py"))
    rows = [f"| {name} | {', '.join(tests[name])} |" for name in sorted(tests)]
    return "\n".join(["| file | tests |", "|---|---|", *rows])


def page(text: str) -> str:
    """CONTRIBUTING.md with the table of today between its marks; applied twice it changes nothing more."""
    before, rest = text.split(MARKS[0], 1)
    return f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{rest.split(MARKS[1], 1)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
