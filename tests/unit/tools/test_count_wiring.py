# Tests: tools/count_wiring.py
"""tools/count_wiring.py on a made-up package whose counts are told by the comments in it."""

import ast
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"

PACKAGE = {
    # lines 5 and 7, the second of a string's three; not `improver`, not `proven`. For its type: the trainer.
    "__init__.py": '''"""The prover's package."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trainer import JointConjecturerProverTrainer
text = "two\\n", """lines: a
conjecturer's and
a third"""  # of the prover
improver = "proven"
"""A string under a field, about the prover."""
''',
    # line 4 (twice, and counted once); two functions and a lambda take the trainer
    "trainer.py": """from .rounds import play  # -> rounds.py
from . import countdown  # -> countdown/__init__.py
class T:
    PROVER_LIMIT, prover_limit = 1, 2
    def f(self, *, trainer): return lambda trainer: 0
    async def g(self, trainer=None): return 1
    def h(self, trainers): return self.trainer
""",
    # nothing named; a circle with trainer.py by a type, and with leaf.py by a real import in a function
    "rounds.py": """from typing import TYPE_CHECKING
import numpy as np
if TYPE_CHECKING:
    from .trainer import T
def play(target_low):
    import pkg.games.leaf
    target = np.number  # a local variable, which is nobody's own
""",
    # line 2, where it belongs; Countdown's own by an attribute; circle: games/leaf.py -> rounds.py
    "games/leaf.py": """from .. import rounds
provers = 1
hit = rounds.problem.target
""",
    # in no circle: games/__init__.py is reached and reaches leaf.py, which does not come back to it
    "games/__init__.py": "from .leaf import hit\n",
    "rows.py": "column = f'{1}', 'numbers'\n",  # Countdown's own by a column's name
    "typed.py": "from .countdown import Problem as P\n",  # and by an import
    "told.py": '"""Problem, numbers and target."""\n# Problem.target\nx = "a target"\n',  # not in words of a text
    "countdown/__init__.py": "class Problem: numbers: int; target: int\n",  # its own place
    # the trainer's own place: four of five functions take it, one in the words of a type; two calls of getattr
    "training/loop.py": """def run(trainer): ...
def go(a: "Host", b): return getattr(getattr(a, "b"), a.hasattr())
class Loop:
    def on(self, *, c: T | Host | None = None):
        def inner(host): ...
    def off(self, hosts: list[str]): return hasattr
""",
}


@pytest.fixture
def wiring(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import count_wiring

    yield count_wiring
    for name in ("count_wiring", "trees"):
        del sys.modules[name]


@pytest.fixture
def tree(tmp_path):
    for name, text in PACKAGE.items():
        path = tmp_path / "src" / "pkg" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_counts_of_the_made_up_package(wiring, tree):
    assert wiring.count(tree) == {
        "lines that name prover or conjecturer": "4 in 3 files",
        "the same without games, proposers, recipes.py": "3 in 2 files",
        "files outside countdown/ that name Countdown's own": 3,
        "modules at the package root": 6,
        "functions outside training/ that take `trainer`": "3 in 1 files",
        "functions in training/ that take the whole trainer": 4,
        "calls of getattr and hasattr": 2,
        "lines of the longest function": "3 (rounds.py: play)",
        "files in import circles, typing imports included": "3 (games 1, rounds.py 1, trainer.py 1)",
        "files in import circles, typing imports left out": 2,  # rounds, games/leaf
        "files that import the trainer for its type": 1,
        "files in src/": 10,
        "lines of src/": 10 + 7 + 7 + 3 + 1 + 1 + 1 + 3 + 1 + 6,
    }


def test_what_is_left_out_is_a_folder_or_a_file(wiring, tree):
    found = wiring.count(tree, ("games", "trainer.py"))
    assert found["the same without games, trainer.py"] == "2 in 1 files"


def test_the_lines_of_a_string_are_counted_one_by_one(wiring):
    assert wiring.role_lines(PACKAGE["__init__.py"]) == {5, 7}
    assert wiring.role_lines("x = f'{prover} and {y}'\nx = 'JointProver'\nRLOOProver = 1\nproverbs = 2\n") == {1, 2, 3}


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("f(target=1)", True),
        ("def f(target): ...", True),
        ("operands: list[int] = []", True),
        ("target = folder / 'x'", False),
        ("number_low, operand = 1, 'my numbers'", False),
    ],
)
def test_names_of_countdown(wiring, source, named):
    assert wiring.names_countdown(ast.parse(source)) is named


def test_the_table_has_a_column_a_tree(wiring, tree, capsys):
    wiring.main(["--tree", str(tree), str(tree / "src" / "..")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"|  | {tree} | {tree}/src/.. |" and lines[1] == "| --- | --- | --- |"
    assert "| modules at the package root | 6 | 6 |" in lines and len(lines) == 15


def test_the_package_itself_is_asked_for_its_fields_and_its_help(wiring, tmp_path):
    files = {
        "pyproject.toml": '[project.scripts]\nits-own = "its_own.cli:program"\n',
        "src/trl.py": "from dataclasses import dataclass\n@dataclass\nclass GRPOConfig:\n    beta: float = 0\n",
        "src/its_own/__init__.py": """from dataclasses import dataclass
from trl import GRPOConfig
@dataclass
class JointSelfPlayConfig(GRPOConfig):
    beta: float = 1
    one: int = 1
    two: int = 2
""",
        "src/its_own/cli.py": """import os, sys
def program(): print(*sys.argv[1:], os.environ["COLUMNS"], sep="\\n")
""",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert wiring.asked(tmp_path) == {"own fields of the config": 2, "lines of `joint --help` in 80 columns": 3}
    (tmp_path / "src/its_own/cli.py").write_text("1 / 0\n")
    with pytest.raises(SystemExit, match="ZeroDivisionError"):
        wiring.asked(tmp_path)
