"""How much of src/ is wired to two roles, to Countdown and to the trainer: a table of counts for one or more trees.

    python tools/count_wiring.py                              # the working tree
    python tools/count_wiring.py --commit 63a9b13 HEAD        # a column a commit
    python tools/count_wiring.py --tree PATH --except games proposers recipes.py

Comments and docstrings (any string that is a statement) never count. Of the rest:
- a line names a role if an identifier or a string in it has the word prover or conjecturer, also in the plural or as a
  part: `prover_rewards`, `JointConjecturerProverTrainer`, "the prover's". --except leaves out the folders and files in
  which the roles belong.
- a file names Countdown's own if it has the name `numbers`, `operands`, `CountdownDomain` or `Problem`, the attribute,
  keyword or parameter `target`, or one of these words as a whole string, such as a column's name. (A local variable
  called target is mostly a folder or a module, and does not count.)
- imports are edges between files, to the file that is named: `from .games import base` leads to games/base.py, `from
  .games import Game` to games/__init__.py. A file lies in a circle if it and another one reach each other.
- a function of training/ takes the whole trainer if a parameter has the name `trainer` or `host`, or an annotation
  that names `Host` or the trainer's class. Lambdas do not count.
- the length of a function is from its `def` to its last line, docstring included, decorators not.
- own fields are those of JointSelfPlayConfig that TRL's GRPOConfig lacks, and the help is `joint --help` in 80
  columns: both asked of the tree's package in a process, if its pyproject.toml has a program.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from trees import ROOT, write_tree

ROLES = {"prover", "provers", "conjecturer", "conjecturers"}
COUNTDOWN = {"numbers", "operands", "CountdownDomain", "Problem"}
TRAINER = "JointConjecturerProverTrainer"
BELONG = ("games", "proposers", "recipes.py")  # where the names of roles are no wiring
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # JointProver, prover_rewards, RLOOProver
OWN_FIELDS = """
from dataclasses import fields
from trl import GRPOConfig
from {package} import JointSelfPlayConfig
print(len({{f.name for f in fields(JointSelfPlayConfig)}} - {{f.name for f in fields(GRPOConfig)}}))
"""
Graph = dict[Path, set[Path]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def role_lines(source: str) -> set[int]:
    """Numbers of the lines that name a role outside comments and docstrings."""
    docs = [(n.lineno, n.end_lineno) for n in ast.walk(ast.parse(source)) if is_docstring(n)]
    found = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "COMMENT" or any(a <= token.start[0] and token.end[0] <= b for a, b in docs):
            continue
        if kind in ("NAME", "STRING", "FSTRING_MIDDLE"):
            for i, row in enumerate(token.string.splitlines()):
                if ROLES & {word.lower() for word in WORD.findall(row)}:
                    found.add(token.start[0] + i)
    return found


def names_countdown(tree: ast.Module) -> bool:
    words = COUNTDOWN | {"target"}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in COUNTDOWN:
                return True
            case ast.Attribute(attr=name) | ast.keyword(arg=name) | ast.arg(arg=name) if name in words:
                return True
            case ast.alias(name=name) | ast.Constant(value=str(name)) if name in words:
                return True
    return False


def takes_trainer(tree: ast.Module) -> int:
    """Functions with a parameter called `trainer`."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))
    return sum("trainer" in {a.arg for a in ast.walk(n.args) if isinstance(a, ast.arg)} for n in functions)


def takes_whole(function: Function) -> bool:
    """Does it take the whole trainer, by the name or the annotation of a parameter?"""
    args = function.args
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        # an annotation in quotes is a constant
        said = [] if arg.annotation is None else ast.walk(arg.annotation)
        named = {getattr(node, "id", getattr(node, "value", None)) for node in said}
        if arg.arg in ("trainer", "host") or named & {"Host", TRAINER}:
            return True
    return False


def functions(tree: ast.Module) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def probes(tree: ast.Module) -> int:
    """Calls of getattr and hasattr."""
    calls = (n.func for n in ast.walk(tree) if isinstance(n, ast.Call))
    return sum(isinstance(f, ast.Name) and f.id in ("getattr", "hasattr") for f in calls)


def typing_blocks(tree: ast.Module) -> list[ast.If]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]


def types_trainer(tree: ast.Module) -> bool:
    """Is the trainer imported for its type alone?"""
    inside = [n for block in typing_blocks(tree) for part in block.body for n in ast.walk(part)]
    return any(isinstance(n, ast.ImportFrom) and TRAINER in {a.name for a in n.names} for n in inside)


# -- circles ---------------------------------------------------------------------------------------------------------


def imported(path: Path, package: Path, tree: ast.Module, typing: bool) -> Iterator[Path]:
    """The files of `package` that the file `path` names in its imports, in functions too."""
    left_out = set() if typing else {n for b in typing_blocks(tree) for part in b.body for n in ast.walk(part)}
    here = [package.name, *path.relative_to(package).parts[:-1]]
    for node in ast.walk(tree):
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            dotted = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = here[: len(here) - node.level + 1] if node.level else []
            base = [*start, *(node.module.split(".") if node.module else [])]
            dotted = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for parts in dotted:
            if parts[0] == package.name:
                yield from file_of(parts, package)


def file_of(parts: list[str], package: Path) -> Iterator[Path]:
    """The module `parts`, or the one that holds the name in their last place."""
    for some in (parts, parts[:-1]):
        place = package.parent.joinpath(*some)
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if path.is_file() and path.is_relative_to(package):
                yield path
                return


def in_circles(graph: Graph) -> set[Path]:
    """The files that reach themselves over another file."""
    reach: Graph = {}
    for first in graph:
        seen: set[Path] = set()
        waiting = list(graph[first] - {first})
        while waiting:
            path = waiting.pop()
            if path not in seen:
                seen.add(path)
                waiting += graph.get(path, set()) - {path}
        reach[first] = seen
    return {path for path, seen in reach.items() if path in seen}


# -- the table -------------------------------------------------------------------------------------------------------


def count(tree: Path, left_out: tuple[str, ...] = BELONG) -> dict[str, object]:
    """Every count of the package below `tree`/src, by the words of the table's row."""
    (package,) = [path.parent for path in (tree / "src").glob("*/__init__.py")]
    sources = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(source) for path, source in sources.items()}
    inside = {path: path.relative_to(package) for path in sources}
    roles = {path: len(role_lines(source)) for path, source in sources.items()}
    wired = {path: n for path, n in roles.items() if not any(inside[path].is_relative_to(p) for p in left_out)}
    graphs = [
        {path: set(imported(path, package, parsed, typing)) for path, parsed in trees.items()}
        for typing in (True, False)
    ]
    takers = {path: takes_trainer(parsed) for path, parsed in trees.items() if inside[path].parts[0] != "training"}
    elsewhere = [parsed for path, parsed in trees.items() if inside[path].parts[0] != "countdown"]
    loop = [f for path, parsed in trees.items() if inside[path].parts[0] == "training" for f in functions(parsed)]
    circles = in_circles(graphs[0])
    places = Counter(inside[path].parts[0] for path in circles)
    lengths = {(path, f): (f.end_lineno or f.lineno) - f.lineno + 1 for path in trees for f in functions(trees[path])}
    longest, found = max(lengths, key=lambda key: lengths[key])
    return {
        "lines that name prover or conjecturer": lines_in_files(roles),
        f"the same without {', '.join(left_out)}": lines_in_files(wired),
        "files outside countdown/ that name Countdown's own": sum(map(names_countdown, elsewhere)),
        "modules at the package root": sum(len(place.parts) == 1 for place in inside.values()),
        "functions outside training/ that take `trainer`": lines_in_files(takers),
        "functions in training/ that take the whole trainer": sum(map(takes_whole, loop)),
        "calls of getattr and hasattr": sum(map(probes, trees.values())),
        "lines of the longest function": f"{lengths[longest, found]} ({inside[longest]}: {found.name})",
        "files in import circles, typing imports included": f"{len(circles)} ({said(places)})" if circles else "0",
        "files in import circles, typing imports left out": len(in_circles(graphs[1])),
        "files that import the trainer for its type": sum(map(types_trainer, trees.values())),
        "files in src/": len(sources),
        "lines of src/": sum(len(source.splitlines()) for source in sources.values()),
    }


def asked(tree: Path) -> dict[str, object]:
    """The counts that the package itself is asked for; none for a package without the config or the program."""
    (package,) = [path.parent for path in (tree / "src").glob("*/__init__.py")]
    project = tree / "pyproject.toml"
    scripts = tomllib.loads(project.read_text())["project"]["scripts"] if project.exists() else {}
    if not scripts:
        return {}
    module, _, name = scripts[package.name.replace("_", "-")].partition(":")
    program = f"import sys, {module} as m; sys.argv[1:] = ['joint', '--help']; sys.exit(m.{name}())"
    return {
        "own fields of the config": int(output_of(OWN_FIELDS.format(package=package.name), tree)),
        "lines of `joint --help` in 80 columns": len(output_of(program, tree).splitlines()),
    }


def output_of(code: str, tree: Path) -> str:
    """What Python prints with the package of `tree`."""
    own = {"PYTHONPATH": str(tree / "src"), "COLUMNS": "80", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | own, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"The package in {tree} does not answer: {done.stderr.strip()[-1000:]}")
    return done.stdout


def said(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))


def lines_in_files(counts: dict[Path, int]) -> str:
    return f"{sum(counts.values())} in {sum(n > 0 for n in counts.values())} files"


def table(columns: dict[str, dict[str, object]]) -> str:
    rows = [["", *columns], ["---"] * (len(columns) + 1)]
    rows += [[name, *(str(column[name]) for column in columns.values())] for name in next(iter(columns.values()))]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", nargs="+", type=Path, default=[], help="Folders that hold src/.")
    parser.add_argument("--commit", nargs="+", default=[])
    parser.add_argument("--except", nargs="+", default=BELONG, dest="left_out", metavar="PATH")
    args = parser.parse_args(argv)
    left_out = tuple(args.left_out)

    def column(tree: Path) -> dict[str, object]:
        return count(tree, left_out) | asked(tree)

    columns = {str(tree): column(tree) for tree in args.tree}
    with tempfile.TemporaryDirectory() as name:
        for i, commit in enumerate(args.commit):
            columns[commit] = column(write_tree(commit, Path(name) / str(i)))
    print(table(columns or {"working tree": column(ROOT)}))


if __name__ == "__main__":
    main()
