"""How many faults do the tests catch? Mutations of the package, drawn with a seed, and the tests that run their lines.

    python -m tools.mutations --json now.json tests/unit tests/trainer  # 60 with seed 1; goes on where it was
    python -m tools.mutations --json old.json --commit COMMIT           # with no tests but those of the file
    python -m tools.mutations --json new.json --only old.json           # those that were caught there

A commit is copied, one operator, constant or condition is changed or one line is dropped in it, and the test files
that are named for the changed file in their first line run with -x. What these do not catch is tried again with those
of the tests given that run the line; one run of all of them, with a probe in each line, finds out which. A mutation
is caught if a test fails or does not end, and that test passes without it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tools.tests_table import named
from tools.trees import write_tree

PACKAGE = "src/countdown_selfplay"
OTHER: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}
OTHER |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And}
OTHER |= {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
OTHER |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.BitAnd: ast.BitOr}
OTHER |= {ast.BitOr: ast.BitAnd}
SPARE = 40  # seconds of the time of a mutation that go into imports and collection
PROBE = '__import__("probe").reached({})'
PROBE_MODULE = '''"""Write down which test runs now, maybe in a child process, once for each probe."""
import functools, os, pathlib

@functools.cache
def note(number, test):
    with pathlib.Path(__file__).with_name("reached.txt").open("a", encoding="utf-8") as file:
        file.write(f"{number} {test}\\n")

def reached(number):
    note(number, os.environ.get("PYTEST_CURRENT_TEST", ""))
'''


def changed(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """(kind, a part of `node` or all of it, what stands in its place)."""
    new = copy.deepcopy(node)
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in OTHER:
        new.op = OTHER[type(node.op)]()
        yield "operator", node, new
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        new.ops[0] = OTHER[type(node.ops[0])]()
        yield "operator", node, new
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        new.value = not node.value if isinstance(node.value, bool) else node.value * 2 or 1
        yield "constant", node, new
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "condition", node.test, ast.UnaryOp(ast.Not(), node.test)
    stores = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    calls = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if stores or calls or isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Delete):
        yield "line", node, ast.Pass()


def sites(tree: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.AST]]:
    """(function, node) of what may be changed; annotations and texts with fields are not."""
    for name, value in ast.iter_fields(tree):
        for node in value if isinstance(value, list) else [value]:
            if name in ("annotation", "returns") or not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            inner = f"{scope}.{node.name}".strip(".") if named else scope
            yield inner, node
            yield from sites(node, inner)


def mutations(root: Path, file: str) -> list[dict]:
    """All of a file, each with its text; `key` finds it again in another state of the file."""
    source, found, seen = (root / file).read_bytes(), [], defaultdict(int)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for scope, node in sites(ast.parse(source)):
        for kind, whole, by in changed(node):
            before, after = ast.unparse(whole), ast.unparse(ast.fix_missing_locations(by))
            begin = starts[whole.lineno - 1] + whole.col_offset
            end = starts[whole.end_lineno - 1] + whole.end_col_offset
            put = after if isinstance(whole, ast.stmt) else f"({after})"
            key = f"{file}|{scope}|{before} -> {after}"
            seen[key] += 1
            text = source[:begin] + put.encode() + source[end:]
            row = {"key": f"{key}|{seen[key]}", "file": file, "line": whole.lineno, "kind": kind}
            found.append(row | {"end": whole.end_lineno, "before": before, "after": after, "text": text})
    return found


def draw(root: Path, n: int, seed: int) -> list[dict]:
    """`n` mutations: folder by folder of the package, of a kind and then of a place by chance."""
    folders, rng = defaultdict(list), random.Random(seed)
    for path in sorted((root / PACKAGE).rglob("*.py")):
        inner = path.relative_to(root / PACKAGE).parts
        folders[inner[0] if len(inner) > 1 else ""].append(path.relative_to(root).as_posix())
    pools = {folder: [one for file in files for one in mutations(root, file)] for folder, files in folders.items()}
    drawn: dict[str, dict] = {}
    while len(drawn) < n:
        for pool in (pools[folder] for folder in rng.sample(sorted(pools), len(pools)) if pools[folder]):
            kind = rng.choice(sorted({one["kind"] for one in pool}))
            one = rng.choice([one for one in pool if one["kind"] == kind])
            drawn.setdefault(one["key"], one)
    return list(drawn.values())[:n]


def with_probes(source: str, rows: list[tuple[int, dict]]) -> str:
    """`source` with a probe before the statement of each row; for one outside of functions, in every function."""
    lines, functions = source.splitlines(keepends=True), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.body[0].lineno > node.lineno:
            functions.append(node.body[1:] if ast.get_docstring(node) and node.body[1:] else node.body)
    places = []
    for number, row in rows:
        inside = [body for body in functions if body[0].lineno <= row["line"] and row["end"] <= body[-1].end_lineno]
        for body in inside[-1:] or functions:  # the innermost is the last, since ast.walk goes breadth first
            place = body[0]
            for node in (node for statement in body * bool(inside) for node in ast.walk(statement)):
                itself = isinstance(node, ast.stmt) and not lines[node.lineno - 1].lstrip().startswith("elif")
                if itself and node.lineno <= row["line"] <= node.end_lineno and node.lineno >= place.lineno:
                    place = node
            first = min(node.lineno for node in [place, *getattr(place, "decorator_list", [])])
            places.append((first, " " * place.col_offset + PROBE.format(number) + "\n"))
    for line, probe in sorted(places, reverse=True):
        lines.insert(line - 1, probe)
    return "".join(lines)


def run(root: Path, tests: list[str], limits: str, *options: str) -> tuple[int, str]:
    """Exit code and output of pytest for `tests` of a tree, after `limits` in bash."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root / 'src'}:{root}",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [
        "bash",
        "-c",
        f'{limits} exec "$@"',
        "-",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run([*command, *options, *tests], cwd=root, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


def reach(root: Path, rows: list[dict], paths: list[str], most: float) -> list[list[str]]:
    """For each row the tests of `paths` that run it, the quick ones first, of `most` seconds together."""
    sources = {file: (root / file).read_bytes() for file in sorted({row["file"] for row in rows})}
    for file, source in sources.items():
        own = [(number, row) for number, row in enumerate(rows) if row["file"] == file]
        (root / file).write_text(with_probes(source.decode(), own), encoding="utf-8")
    notes = root / "reached.txt"
    notes.touch()
    (root / "probe.py").write_text(PROBE_MODULE, encoding="utf-8")
    code, said = run(root, paths, "", "--durations=0", "--durations-min=0")
    if code not in (0, 1):
        raise SystemExit(f"The run with probes did not end as a run of tests does:\n{said[-2000:]}")
    for file, source in sources.items():
        (root / file).write_bytes(source)
    seconds: Counter[str] = Counter()
    for cost, test in re.findall(r"^([\d.]+)s (?:call|setup) +(.+)$", said, re.MULTILINE):
        seconds[test] += float(cost)
    found = [set() for _ in rows]
    for line in notes.read_text(encoding="utf-8").splitlines():
        number, _, test = line.partition(" ")
        test, _, phase = test.rpartition(" (")
        shared = [other for other in seconds if other.startswith(f"{test.partition('::')[0]}::")]
        found[int(number)] |= set(shared if phase == "setup)" else [test]) - {""}  # others look at what a fixture ran
    return [affordable(tests, seconds, most) for tests in found]


def affordable(tests: set[str], seconds: Counter[str], most: float) -> list[str]:
    chosen: list[str] = []
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        most -= seconds[test]
        chosen += [test] * (most >= 0)
    return chosen


def own_tests(root: Path, file: str) -> list[str]:
    """The test files whose first line names `file`."""
    tests = sorted((root / "tests").rglob("test_*.py"))
    short = file.removeprefix(f"{PACKAGE}/")
    return [test.relative_to(root).as_posix() for test in tests if short in named(test)]


def try_out(root: Path, one: dict, tests: list[str], seconds: int) -> tuple[str, str]:
    """("caught" or "survived", the test that failed or why)."""
    if not tests:
        return "survived", "no test runs it"
    path = root / one["file"]
    source = path.read_bytes()
    limits = f"ulimit -t {seconds} -v {2**23};"  # CPU seconds and kB of each process
    try:
        path.write_bytes(one["text"])
        code, said = run(root, tests, limits, "-x")
    finally:
        path.write_bytes(source)
    if code in (0, 5):
        return "survived", f"{len(tests)} of {'tests' if '::' in tests[0] else 'files'} pass"
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
    if run(root, failed or tests, limits)[0] not in (0, 5):
        return "survived", f"{failed[0] if failed else 'no end'}, as without it"
    return "caught", failed[0] if failed else f"exit code {code}"


def play(options: argparse.Namespace) -> None:
    """Try the mutations that `options` name, a line each, and write them after each."""
    out: Path = options.json
    rows = {row["key"]: row for row in json.loads(out.read_text(encoding="utf-8"))} if out.exists() else {}

    def note_down(one: dict, step: str, tests: list[str]) -> None:
        one["outcome"], one["by"] = try_out(root, one, tests, options.seconds) if "text" in one else ("gone", "")
        rows[one["key"]] = {name: value for name, value in one.items() if name != "text"} | {"step": step}
        said = " -> ".join(" ".join(one[name].split())[:60] for name in ("before", "after"))
        print(f"{one['outcome']:8} {one['file']}:{one['line']}  {one['kind']}: {said}  ({one['by']})", flush=True)
        out.write_text(json.dumps(list(rows.values()), indent=1) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as temporary:
        root = write_tree(options.commit, Path(temporary) / "tree")
        if options.only:
            before = [row for row in json.loads(options.only.read_text()) if row["outcome"] == "caught"]
            files = {row["file"] for row in before if (root / row["file"]).exists()}
            there = {one["key"]: one for file in sorted(files) for one in mutations(root, file)}
            wanted = [there.get(row["key"], row) for row in before]
        else:
            wanted = draw(root, options.n, options.seed)
        for one in wanted:
            if one["key"] not in rows:
                note_down(one, "named", own_tests(root, one["file"]))
        left = [
            one for one in wanted if (rows[one["key"]]["outcome"], rows[one["key"]]["step"]) == ("survived", "named")
        ]
        if options.tests and left:
            for one, tests in zip(left, reach(root, left, options.tests, options.seconds - SPARE), strict=True):
                note_down(one, "reached", tests)
    counts = Counter((row["outcome"], row["step"]) for row in rows.values())
    print(", ".join(f"{count} {outcome} ({step})" for (outcome, step), count in sorted(counts.items())))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "tests", nargs="*", help="files or folders; none: only the test files that are named for the file"
    )
    parser.add_argument("--json", type=Path, required=True, help="the outcomes")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--only", type=Path, help="outcomes of before, of which those caught are played again")
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120, help="CPU seconds of a mutation")
    play(parser.parse_args(argv))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
