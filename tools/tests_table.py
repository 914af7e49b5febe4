"""Which test files test a source file, by the first line of each test file.

    python -m tools.tests_table training/round.py tools/readme.py    # a line a test file, for pytest
    python -m tools.tests_table                                      # all

The first line of tests/.../test_X.py reads `# Tests: training/round.py, training/plan.py`: files of the package, or
of the repository (`tools/readme.py`, `README.md`), that the file is there for. What a test only uses is not named.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from tools.trees import ROOT

PACKAGE = ROOT / "src" / "countdown_selfplay"
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


def tests_of() -> dict[str, list[str]]:
    """Source file -> its test files, both sorted."""
    tests = defaultdict(list)
    for path in files():
        for name in named(path):
            tests[name].append(path.relative_to(ROOT).as_posix())
    return {name: tests[name] for name in sorted(tests)}


def main(names: list[str]) -> int:
    """Print the test files of the source files `names`, or the table of all; 1 if one is tested by none."""
    known = tests_of()
    if not names:
        print("\n".join(f"{name}: {', '.join(tests)}" for name, tests in known.items()))
        return 0
    asked = [name.removeprefix("src/countdown_selfplay/") for name in names]
    print("\n".join(dict.fromkeys(test for name in asked for test in known.get(name, []))))
    untested = [name for name in asked if name not in known]
    if untested:
        print(f"No test file names {', '.join(untested)}.", file=sys.stderr)
    return 1 if untested else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
