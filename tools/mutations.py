"""How many faults do the tests catch? Mutations of the package, drawn with a seed, and the tests that run their lines.

    python -m tools.mutations MAP --json before.json                        # 60 with seed 1; goes on where it was
    python -m tools.mutations NEW_MAP --only before.json --json after.json  # those that were caught before

MAP is a folder of tools/tests_map.py. HEAD is copied, one operator, constant or condition is changed or one line is
dropped in it, and the tests that run this line run with -x, first those of files that are named for it, then the quick
ones. A mutation has survived if they pass, or if there are none; it is caught if one fails or does not end.
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

from tools.tests_map import PACKAGE, Map
from tools.trees import write_tree

OTHER: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult}
OTHER |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And}
OTHER |= {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
OTHER |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.BitAnd: ast.BitOr}
OTHER |= {ast.BitOr: ast.BitAnd}
SPARE = 40  # seconds of the time of a mutation that go into imports and collection


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


def try_out(root: Path, one: dict, tests: list[str], seconds: int) -> tuple[str, str]:
    """("caught" or "survived", the test that failed or why)."""
    if not tests:
        return "survived", "no test runs it"
    path, picked = root / one["file"], root / "picked.json"
    source = path.read_bytes()
    picked.write_text(json.dumps(tests), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}", "PICKED_TESTS": str(picked)}
    environment |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    limits = f'ulimit -t {seconds} -v {2**23}; exec timeout -k 5 {8 * seconds} "$@"'  # CPU seconds, kB, on the clock
    command = ["bash", "-c", limits, "-", sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "tools.tests_map", *sorted({test.partition("::")[0] for test in tests})]
    try:
        path.write_bytes(one["text"])
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    finally:
        path.write_bytes(source)
    if done.returncode in (0, 5):
        return "survived", f"{len(tests)} tests pass"
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.MULTILINE)
    return "caught", failed[0] if failed else f"exit code {done.returncode}"


def play(options: argparse.Namespace) -> None:
    """Try the mutations that `options` name, a line each, and write them after each."""
    out: Path = options.json
    rows = json.loads(out.read_text(encoding="utf-8")) if out.exists() else []
    done = {row["key"] for row in rows}
    with tempfile.TemporaryDirectory() as temporary:
        root, known = write_tree("HEAD", Path(temporary) / "tree"), Map(options.map)
        if options.only:
            before = [row for row in json.loads(options.only.read_text()) if row["outcome"] == "caught"]
            files = {row["file"] for row in before if (root / row["file"]).exists()}
            there = {one["key"]: one for file in sorted(files) for one in mutations(root, file)}
            wanted = [there.get(row["key"], row) for row in before]
        else:
            wanted = draw(root, options.n, options.seed)
        for one in wanted:
            if one["key"] in done:
                continue
            one["outcome"], one["by"] = "gone", "the code is other"
            if "text" in one:
                tests = known.order(root, one, options.seconds - SPARE)
                one["outcome"], one["by"] = try_out(root, one, tests, options.seconds)
            rows.append({name: value for name, value in one.items() if name != "text"})
            said = " -> ".join(" ".join(one[name].split())[:60] for name in ("before", "after"))
            print(f"{one['outcome']:8} {one['file']}:{one['line']}  {one['kind']}: {said}  ({one['by']})", flush=True)
            out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    outcomes = Counter(row["outcome"] for row in rows)
    print(", ".join(f"{outcomes[name]} {name}" for name in ("caught", "survived", "gone")))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("map", type=Path, metavar="MAP", help="folder that tools/tests_map.py has made")
    parser.add_argument("--json", type=Path, required=True, help="the outcomes")
    parser.add_argument("--only", type=Path, help="outcomes of before, of which those caught are played again")
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120, help="CPU seconds of a mutation")
    play(parser.parse_args(argv))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
