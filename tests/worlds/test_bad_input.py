# Tests: worlds/reasoning_gym.py, worlds/verifiers.py, worlds/detachment/domain.py, worlds/workers.py
"""What a user gets wrong is one sentence of the command line; what a model gets wrong costs one answer of a round.

The parts have tests of their own: test_verifiers.py of the scorers of a taskset, domains/test_workers.py of the
processes, detachment/test_checker.py of texts that are no proof, test_openenv.py of a task that is absent."""

import importlib.metadata
import importlib.util
import json
from types import SimpleNamespace

import pytest

from countdown_selfplay.cli.main import main
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.testing import ScriptedRound
from countdown_selfplay.worlds import workers as pool
from tests.worlds.test_reasoning_gym import SUMS, value_of

SETTINGS = {
    "reasoning_gym": ({"task": "chain_smu"}, "reasoning-gym has no task 'chain_smu'. Did you mean 'chain_sum'"),
    "verifiers": ({"taskset": "smal_sums"}, "`taskset` (smal_sums) is not installed"),
    "detachment": ({"longest_proof": 8}, "`longest_proof` (8) of detachment are lengths of proofs, which are odd"),
    "verifier": ({}, "Unknown domain 'verifier'. Did you mean 'verifiers'"),
}


def refused(domain, arguments, capsys, tmp_path):
    """What `joint` prints on standard error, which is one sentence, with the exit code of bad input."""
    given = ["--model_name_or_path", "tiny", "--output_dir", str(tmp_path / "run"), "--domain", domain]
    given += ["--domain_kwargs", json.dumps(arguments), "--conjecturer_players", "0", "--max_steps", "1"]
    code = main(["joint", *given])
    said = capsys.readouterr().err.strip()
    assert code == 2 and "\n" not in said and "Traceback" not in said
    assert not (tmp_path / "run").exists()
    return said


@pytest.mark.parametrize("domain", SETTINGS)
def test_a_wrong_setting_is_one_sentence_of_the_command(domain, capsys, tmp_path):
    arguments, sentence = SETTINGS[domain]
    if domain in ("reasoning_gym", "verifiers"):
        pytest.importorskip(domain, reason=f"{domain} is not installed: make test-worlds")
    assert sentence in refused(domain, arguments, capsys, tmp_path)


def test_an_extra_that_is_not_installed_is_named_with_its_pip_line(capsys, tmp_path, monkeypatch):
    real, find = importlib.metadata.version, importlib.util.find_spec

    def version(name):
        if name == "reasoning-gym":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    absent = lambda name, *more: None if name == "verifiers.v1" else find(name, *more)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", absent)
    for domain, extra, arguments in (
        ("reasoning_gym", "gym", {"task": "chain_sum"}),
        ("verifiers", "verifiers", {"taskset": "of_no_other_test"}),
    ):
        said = refused(domain, arguments, capsys, tmp_path)
        assert f"pip install 'countdown-selfplay[{extra}]'" in said, said


class Bad:
    """Texts of a round of four answers to each of two problems; what came of them, by the game."""

    def __init__(self, domain, texts):
        self.seen = []
        judge = domain.verify

        def verify(answers, problems):
            found = judge(answers, problems)
            self.seen += found
            return found

        domain.verify = verify
        write = lambda player, row, i: texts(row)[i]  # noqa: E731
        round = ScriptedRound(write, {"prover": (2, 4)}, domain)
        self.played = domain.random(2, 0)
        game = ProposeAndSolve(make_proposer("uniform_rungs"), "learnability", settings=Settings(anchor_fraction=0.0))
        self.result = game.play(round, [])


def test_answers_that_hang_kill_or_break_a_scorer_are_counted_in_the_round_and_earn_0(monkeypatch, tmp_path):
    """The pool's clock stands still until the one scorer hangs, and then shows more than the deadline."""
    pytest.importorskip("reasoning_gym", reason="needs the extra gym: pip install 'countdown-selfplay[gym]'")
    from countdown_selfplay.worlds.reasoning_gym import ReasoningGym

    class Hostile(ReasoningGym):
        checker = "tests.worlds.gym_checkers:run"

    domain, file = Hostile(**SUMS | {"workers": 1}, deadline=600.0), tmp_path / "hangs"
    asked = []

    def breaks(row):
        asked.append(row["seed"])
        return f"hang {file}" if row["seed"] == asked[0] else "raise"

    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: 1000.0 if file.exists() else 0.0))
    try:
        bad = Bad(domain, lambda row: [value_of(row["prompt"]), breaks(row), "die", "9" * 1_000_000])
    finally:
        domain.close()
    # of each problem: one is right, one hangs (of the other problem: raises), one dies, one is too long to be scored
    assert sorted(str(one.reason) for one in bad.seen if one.unchecked) == ["died", "died", "error", "timed_out"]
    metrics = bad.result.metrics
    assert [str(one.reason) for one in bad.seen].count("correct") == 2
    assert metrics["prover/unchecked_rate"] == 0.5 and metrics["prover/correct_rate"] == 0.25
    assert {one.score for one in bad.seen if not one.correct} == {0.0}
