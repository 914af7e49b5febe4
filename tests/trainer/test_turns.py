# Tests: training/metrics_buffer.py, training/rollouts.py, training/round.py, objectives/rae.py
"""`log_completions`: the table shows what each role earned and was credited with; drawing its rows changes nothing."""

import math
import random
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pandas
import pytest

from countdown_selfplay.contract.game import BaseGame
from countdown_selfplay.contract.round import RoundResult
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.objectives.rloo import RLOO
from tests.toy_domain import CountingDomain

from .conftest import make_trainer, ran, results_of, rounds


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


def test_the_domain_is_asked_once_per_answer_and_reward_functions_get_the_verdicts(build):
    domain, seen, played = CountingDomain(CountdownDomain.tiny()), [], Counter()

    def reward(completions, verdict, **kwargs):
        seen.append(list(verdict))
        return [1.0 if v.correct else -0.5 for v in verdict]

    trainer = build(max_steps=2, trainer={"domain": domain, "reward_funcs": reward})
    results = results_of(trainer)
    trainer.train()
    for result, verdicts in zip(results, seen, strict=True):
        (turn,) = [turn for turn in result.turns if turn.rollout.role == "prover"]
        assert turn.rollout.verdicts == verdicts
        assert turn.rewards_B.tolist() == [1.0 if v.correct else -0.5 for v in verdicts]
        problems = [domain.key(domain.problem(row)) for row in turn.rollout.rows for _ in range(turn.rollout.n)]
        played.update(zip(turn.rollout.texts, problems, strict=True))
    assert [len(verdicts) for verdicts in seen] == [32, 32] and sum(domain.verified.values()) == 64
    assert domain.verified == played
    for verdicts, line in zip(seen, rounds(trainer.args.output_dir), strict=True):
        assert line["prover/correct_rate"] == sum(v.correct for v in verdicts) / 32


# A role with two turns of different size in a round: its mean reward, its line of the log and its completions are
# those of both.


class TwoTurns(BaseGame):
    """Two problems: 8 answers that earn 1 each, and in the first round 24 more that earn 0. In the second round the
    second turn is empty."""

    roles: ClassVar = {"prover": "answers twice"}
    metrics = ()

    def __init__(self):
        self.results = []

    def play(self, round, anchors):
        problems = anchors[:2]
        again = problems if round.index == 0 else []
        turns = []
        for asked, n, reward in ((problems, 4, 1.0), (again, 12, 0.0)):
            said = round.sample("prover", [round.domain.prove_row(p) for p in asked], n=n, problems=asked)
            turns.append(round.credit(said, [reward] * len(said.texts)))
        self.results.append(RoundResult(turns, {}))
        return self.results[-1]


def test_what_is_observed_logged_and_tabled_is_of_all_samples_of_all_turns(tmp_path):
    """8 x 1 and 24 x 0: 8 / 32. Then 8 x 1 alone. RAE's baseline: .25, then .95 x .25 + .05 x 1."""
    sizes, seen, game = [], [], TwoTurns()

    def count(completions, **kwargs):
        """1 for each sample of the first turn of a round, 0 for each of the second: 8 and 24 are asked for."""
        sizes.append(len(completions))
        return [float(len(completions) == 8)] * len(completions)

    trainer = make_trainer(
        tmp_path, max_steps=2, game=None, roles={"prover": {"objective": "rae"}}, conjecturer_num_generations=None,
        max_completion_length=4, log_completions=True, trainer={"game": game, "reward_funcs": count},
    )  # fmt: skip
    rae = trainer.learners["prover"].objective
    observe = rae.observe
    rae.observe = lambda mean: (seen.append(mean), observe(mean))
    trainer.train()
    assert sizes == [8, 24, 8]
    assert seen == [line["prover/rewards/count"] for line in rounds(tmp_path)] == [0.25, 1.0]
    assert rae.baseline == pytest.approx(0.2875)
    for step, result in enumerate(game.results, 1):
        table = pandas.read_parquet(tmp_path / "completions" / f"completions_{step:05d}.parquet")
        texts = [text for turn in result.turns for text in turn.rollout.texts]
        assert table["completion"].tolist() == texts and len(texts) == (32, 8)[step - 1]
        assert table["reward"].tolist() == [1.0] * 8 + [0.0] * (len(texts) - 8) == table["count"].tolist()
        assert table["advantage"].tolist() == pytest.approx([a for t in result.turns for a in t.advantages_B.tolist()])
