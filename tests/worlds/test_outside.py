# Tests: domains/__init__.py, docs/worlds.md, proposers/policies.py, worlds/reasoning_gym.py, worlds/verifiers.py
"""A domain in a package outside the repository, an extra that is not installed, a conjecturer that names levels, and
the Python of docs/worlds.md."""

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from countdown_selfplay.contract.domain import BaseDomain, Checked
from countdown_selfplay.domains import make_domain
from countdown_selfplay.errors import ConfigError, UnknownNameError
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.testing import ScriptedRound, in_ranks
from countdown_selfplay.worlds import verifiers
from tests.test_docs import ROOT, blocks

NAME = "largest_first:LargestFirst"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package in a folder of its own, first on the path."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(Path(__file__).parent / "package", folder / "source")
    flags = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *flags, "--target", str(folder / "lib"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sys.modules.pop("largest_first", None)  # the matrix takes it from its sources
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / "lib"))
        yield folder / "lib"
        sys.modules.pop("largest_first", None)


def test_an_installed_package_is_found_by_its_name(installed):
    assert importlib.metadata.version("largest-first") == "0.1.0"
    domain = make_domain(NAME, {"high": 20})
    assert domain.to_dict() == {"domain": "largest_first", "high": 20}
    assert Path(sys.modules["largest_first"].__file__).is_relative_to(installed)


@pytest.mark.parametrize(("name", "arguments", "error", "said"), [
    ("largest_first:LargestLast", {}, UnknownNameError, "has no 'LargestLast'.* Did you mean 'LargestFirst'"),
    ("largest_frist:LargestFirst", {}, ConfigError, "must lie in the current folder or be installed"),
    (NAME, {"high": 2}, ConfigError, r"`high` \(2\) of domain .* must be a whole number .*3.*99.*leave it out for 12"),
], ids=["class", "package", "argument"])  # fmt: skip
def test_a_wrong_name_or_argument_is_refused(installed, name, arguments, error, said):
    with pytest.raises(error, match=said):
        make_domain(name, arguments)


@pytest.mark.parametrize("old", [False, True], ids=["absent", "of the interface v0"])
def test_an_extra_that_is_not_installed_is_named_with_its_pip_line(old, monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    def find_spec(name):
        if not old:
            raise ModuleNotFoundError(name)

    verifiers._loaded.cache_clear()
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    for domain, extra in (("reasoning_gym", "gym"), ("verifiers", "verifiers")):
        with pytest.raises(ConfigError, match=rf"pip install 'countdown-selfplay\[{extra}\]'"):
            make_domain(domain, {"task": "chain_sum"} if extra == "gym" else {"taskset": "small_sums"})


@pytest.mark.filterwarnings("ignore")
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(ROOT / "docs" / "worlds.md", "python")
    assert found
    names = {"__name__": "worlds"}
    for block in found:
        exec(block, names)


class Leveled(BaseDomain):
    """A problem is (kind, levels, number), number None as it is proposed: "a 2 0"; a right answer is "yes"."""

    asks = ({},)
    facts = ()

    def key(self, problem):
        return repr(problem)

    def prove_row(self, problem):
        return {"prompt": self.key(problem), "levels": problem[1]}

    def propose_row(self):
        return {"prompt": "levels"}

    def verify(self, texts, problems):
        return [Bit(text == "yes") for text in texts]

    def parse(self, texts):
        asked = lambda text: ("a", tuple(map(int, text.split()[1:])), None)  # noqa: E731
        return [Bit(True, asked(text) if text[0] == "a" else None) for text in texts]

    def check(self, problems, asked):
        return [Checked() for _ in problems]

    def drawn(self, problems, seed, exclude):
        found = [(kind, levels, seed % 100 + i) for i, (kind, levels, _) in enumerate(problems)]
        return [None if problem[1][0] == 9 or self.key(problem) in exclude else problem for problem in found]


class Bit:
    def __init__(self, correct, problem=None):
        self.correct, self.score, self.problem = correct, float(correct), problem
        self.reason = "ok" if problem else "unreadable"


def test_a_conjecturers_levels_are_played_as_problems_and_each_process_draws_its_own():
    texts = ["a 2 1", "a 2 1", "a 9 1", "b"]
    write = lambda role, row, i: texts[i] if role == "conjecturer" else "yes"  # noqa: E731

    def play(rank, gather):
        sizes = {"conjecturer": (8, 4), "prover": (8, 2)}
        round = ScriptedRound(write, sizes, Leveled(), rank=rank, world=2, gather=gather)
        return [(p.problem, p.reason) for p in make_proposer("policies").propose(round, [])]

    first, second = in_ranks(2, play)
    assert first == second and [reason for _, reason in first] == ["ok", "ok", "not_made", "unreadable"] * 2
    drawn = [problem for problem, reason in first if reason == "ok"]
    assert len(set(drawn)) == len(drawn) and all(problem[2] is not None for problem in drawn)
