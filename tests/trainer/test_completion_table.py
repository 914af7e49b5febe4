# Tests: training/book.py
"""`log_completions`: the table shows what each role earned and was credited with; drawing its rows changes nothing."""

import math
import random
from pathlib import Path

import pandas
import pytest

from countdown_selfplay.objectives.rloo import RLOO

from .conftest import ran, results_of


class Doubled(RLOO):
    """Not GRPO's credit, and not RLOO's either: the table must ask the objective."""

    def advantages(self, rewards_PG, correct_PG=None):
        return 2 * super().advantages(rewards_PG, correct_PG)


def test_the_table_holds_the_runs_own_rewards_and_advantages_per_role(build, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")  # room for the names of roles

    def length(completions, log_extra, **kwargs):
        log_extra("words", [len(text.split()) for text in completions])
        return [float(len(text)) for text in completions]

    objectives = {"prover": Doubled(), "conjecturer": Doubled()}
    trainer = build(
        max_steps=2, seed=8, log_completions=True, trainer={"reward_funcs": length, "objectives": objectives}
    )
    results = results_of(trainer)
    trainer.train()
    for step, result in enumerate(results, 1):
        table = pandas.read_parquet(Path(trainer.args.output_dir, "completions", f"completions_{step:05d}.parquet"))
        assert len(table) == 48 and set(table["step"]) == {step}  # 32 answers and 16 proposals
        for turn in result.turns:
            role = turn.rollout.role
            own = table[table["role"] == role]
            assert own["completion"].tolist() == turn.rollout.texts
            assert own["advantage"].tolist() == pytest.approx(turn.advantages_B.tolist())
            assert own["reward"].tolist() == pytest.approx(turn.rewards_B.tolist(), nan_ok=True)
        proposals, answers = (table[table["role"] == role] for role in ("conjecturer", "prover"))
        assert (
            answers["length"].tolist() == answers["reward"].tolist() == [len(text) for text in answers["completion"]]
        )
        assert answers["words"].tolist() == [len(text.split()) for text in answers["completion"]]
        assert all(map(math.isnan, proposals["length"])) and proposals["words"].isna().all()
        assert proposals["reward"].nunique() > 1 and (proposals["advantage"] != 0).any()
    assert "conjecturer" in capsys.readouterr().out  # the printed table names the role


def test_printing_a_few_completions_leaves_pythons_generator_as_it_was(build, capsys):
    trainer = ran(build(max_steps=1, log_completions=True, num_completions_to_print=2))
    capsys.readouterr()
    before = random.getstate()
    trainer.log({"loss": 0.0})
    assert random.getstate() == before and "Step 1" in capsys.readouterr().out
