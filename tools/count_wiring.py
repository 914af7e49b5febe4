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
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

from trees import ROOT, write_tree

ROLES = {"prover", "provers", "conjecturer", "conjecturers"}
COUNTDOWN = {"numbers", "operands", "CountdownDomain", "Problem"}
TRAINER = "JointConjecturerProverTrainer"
BELONG = ("games", "proposers", "recipes.py")  # where the names of roles are no wiring
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # JointProver, prover_rewards, RLOOProver
Graph = dict[Path, set[Path]]


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
    return {
        "lines that name prover or conjecturer": lines_in_files(roles),
        f"the same without {', '.join(left_out)}": lines_in_files(wired),
        "files outside countdown/ that name Countdown's own": sum(map(names_countdown, elsewhere)),
        "modules at the package root": sum(len(place.parts) == 1 for place in inside.values()),
        "functions outside training/ that take `trainer`": lines_in_files(takers),
        "files in import circles, typing imports included": len(in_circles(graphs[0])),
        "files in import circles, typing imports left out": len(in_circles(graphs[1])),
        "files that import the trainer for its type": sum(map(types_trainer, trees.values())),
        "files in src/": len(sources),
        "lines of src/": sum(len(source.splitlines()) for source in sources.values()),
    }


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
    columns = {str(tree): count(tree, left_out) for tree in args.tree}
    with tempfile.TemporaryDirectory() as name:
        for i, commit in enumerate(args.commit):
            columns[commit] = count(write_tree(commit, Path(name) / str(i)), left_out)
    print(table(columns or {"working tree": count(ROOT, left_out)}))


if __name__ == "__main__":
    main()
