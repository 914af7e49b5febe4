"""Which tests run a line of the package, and what each test costs. Needs pytest-cov.

    python -m tools.tests_map MAP tests      # folder MAP gets both; what follows is for pytest
    python -m tools.tests_map --top 30 MAP   # the test files that cost the most CPU seconds

Lines that a child process runs belong to the test that started it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

PACKAGE = "src/countdown_selfplay"
state: dict = {}


class Map:
    """Which tests run a line, and what each of them costs."""

    def __init__(self, folder: Path):
        from coverage import CoverageData

        self.data = CoverageData(str(folder / "coverage"))
        self.data.read()
        self.files = {name.split(f"{PACKAGE}/")[-1]: name for name in self.data.measured_files()}
        rows = map(json.loads, (folder / "tests.jsonl").read_text(encoding="utf-8").splitlines())
        self.seconds = {row["id"]: row["seconds"] for row in rows if row["passed"]}

    def tests(self, root: Path, one: dict) -> set[str]:
        """Those that run one of its lines in a function; outside of one, those that run any function of the file."""
        name = self.files.get(one["file"].removeprefix(f"{PACKAGE}/"), "")
        lines = self.data.contexts_by_lineno(name) if name else {}
        inside: set[int] = set()
        for node in ast.walk(ast.parse((root / one["file"]).read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inside |= set(range(node.body[0].lineno, node.end_lineno + 1))
        wanted = set(range(one["line"], one["end"] + 1)) & inside or inside or set(lines)
        found: set[str] = set()
        for context in {context for line in wanted for context in lines.get(line, ())}:
            test, _, phase = re.sub(r" \((\w+)\)$", r"|\1", context).rpartition("|")  # of pytest-cov, or of a child
            file = test.partition("::")[0]
            shared = [other for other in self.seconds if phase == "setup" and other.startswith(f"{file}::")]
            found |= {test, *shared}  # what a fixture ran, other tests of the file may look at
        return found & set(self.seconds)

    def order(self, root: Path, one: dict, most: float) -> list[str]:
        """Its tests, file by file, of `most` seconds together."""
        files = defaultdict(list)
        for test in self.tests(root, one):
            files[test.partition("::")[0]].append(test)
        short = one["file"].removeprefix(f"{PACKAGE}/")
        cost = {file: sum(self.seconds[test] for test in tests) for file, tests in files.items()}
        first = {file: (root / file).read_text(encoding="utf-8").partition("\n")[0] for file in files}
        chosen: list[str] = []
        for file in sorted(files, key=lambda file: (short not in first[file], cost[file], file)):
            for test in sorted(files[file], key=lambda test: (self.seconds[test], test)):
                if self.seconds[test] <= most:
                    most -= self.seconds[test]
                    chosen.append(test)
        return chosen


def make(folder: Path, arguments: list[str]) -> int:
    """Run pytest with `arguments` under coverage; its exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    config = "[run]\nsource = countdown_selfplay\nparallel = true\npatch = _exit\n"
    config += f"context = ${{PYTEST_CURRENT_TEST-}}\ndata_file = {folder.resolve() / 'coverage'}\n"
    (folder / "settings.ini").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tools.tests_map", "--cov"]
    command += [f"--cov-config={folder / 'settings.ini'}", "--cov-context=test", "--cov-report=", *arguments]
    environment = {**os.environ, "TIMED_TESTS": str(folder.resolve() / "tests.jsonl"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment).returncode


# Hooks of pytest, of which this module is a plug-in


def cpu() -> float:
    return sum(os.times()[:4])


def pytest_configure(config: object) -> None:
    if "TIMED_TESTS" in os.environ:  # read by children, whose context it makes the test that runs
        os.environ["COVERAGE_PROCESS_START"] = str(Path(os.environ["TIMED_TESTS"]).with_name("settings.ini"))


def pytest_collection_modifyitems(items: list) -> None:
    if "PICKED_TESTS" in os.environ:
        tests = json.loads(Path(os.environ["PICKED_TESTS"]).read_text(encoding="utf-8"))
        there = {item.nodeid: item for item in items}
        items[:] = [there[test] for test in tests if test in there]


def pytest_runtest_logstart(nodeid: str) -> None:
    state.update(began=cpu(), passed=True)


def pytest_runtest_logreport(report: object) -> None:
    state["passed"] &= report.outcome == "passed"


def pytest_runtest_logfinish(nodeid: str) -> None:
    if "TIMED_TESTS" in os.environ:
        row = {"id": nodeid, "seconds": round(cpu() - state["began"], 3), "passed": state["passed"]}
        with Path(os.environ["TIMED_TESTS"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def main(arguments: list[str]) -> int:
    if arguments[0] != "--top":
        return make(Path(arguments[0]), arguments[1:])
    cost: Counter[str] = Counter()
    for line in (Path(arguments[2]) / "tests.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        cost[row["id"].partition("::")[0]] += row["seconds"]
    print("\n".join(f"{seconds:8.1f} {file}" for file, seconds in cost.most_common(int(arguments[1]))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
