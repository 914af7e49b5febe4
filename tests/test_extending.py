# Tests: docs/extending.md, testing/__init__.py, contract/game.py, contract/domain.py
"""The code of docs/extending.md runs from top to bottom, and does what the page says of it."""

import copy
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from countdown_selfplay import JointConjecturerProverTrainer
from countdown_selfplay.cli.main import main
from countdown_selfplay.config.roles import FLAT_FIELDS
from countdown_selfplay.countdown import CountdownDomain, Problem, verify
from countdown_selfplay.errors import DataError
from countdown_selfplay.games import GAMES
from countdown_selfplay.games.metrics import METRICS
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.objectives import OBJECTIVES
from countdown_selfplay.proposers import PROPOSERS
from countdown_selfplay.proposers.metrics import PROPOSER_METRICS
from countdown_selfplay.rewards import CONJECTURER_REWARDS
from countdown_selfplay.testing import ScriptedRound
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.parts import declared_metrics
from tests.test_docs import ROOT, blocks
from tests.trainer.conftest import equal, optimizer_state, weights

COUNTDOWN = ("operands", "number_high", "target_high", "prover_prompt", "conjecturer_prompt")
REGISTRIES = (GAMES, OBJECTIVES, PROPOSERS, CONJECTURER_REWARDS)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that the page's code makes, in the folder in which it ran; what it registers is taken out again."""
    before = [dict(registry) for registry in REGISTRIES]
    names: dict = {"__name__": "extending"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("extending"))
        patch.setitem(sys.modules, "extending", ModuleType("extending"))  # dataclasses look their module up
        try:
            for block in blocks(ROOT / "docs" / "extending.md", "python"):
                exec(compile(block, "extending.md", "exec"), names)
            yield names
        finally:
            for registry, entries in zip(REGISTRIES, before, strict=True):
                registry.clear()
                registry.update(entries)


def lines(folder):
    found = [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if "loss" in line]


def test_the_rewards_and_the_objective_are_what_their_docstrings_say(page):
    # peak 0.25: 0.1 / 0.25 = 0.4 on the left, (1 - 0.7) / 0.75 = 0.4 on the right, 1 at the peak, 0 at both ends
    rewards = page["Triangle"](0.25)(np.array([0.0, 0.1, 0.25, 0.7, 1.0]), None)
    np.testing.assert_allclose(rewards, [0.0, 0.4, 1.0, 0.4, 0.0], atol=1e-12)
    # (1, 0, 0): leave-one-out means 0, 1/2, 1/2; advantages 1, -1/2, -1/2; clamped at 0
    assert page["PositiveOnly"]().advantages(torch.tensor([[1.0, 0.0, 0.0]])).tolist() == [[1.0, 0.0, 0.0]]
    texts = ["<answer>1 + 2</answer>", "3"]
    verdicts = [verify(text, Problem((1, 2), 3)) for text in texts]
    assert page["reward_funcs"][1](texts, verdicts) == pytest.approx([-0.022, 0.0])  # 22 characters; and a wrong one


def test_the_bandit_moves_its_arms_without_a_conjecturer_and_is_watched(page):
    trainer = page["bandit"]
    # 8 slots, half of them the anchors': 4 proposals a round are measured
    state = trainer.game.proposer.state_dict()
    assert sum(state["count"]) == 2 * 4 and trainer.args.trained_roles == ("prover",)
    first, _ = lines("runs/bandit")
    assert first["proposer/played_rate"] == 0.5 and first["round/conjectured_slots"] == 4
    unknown = ("conjecturer/", "proposer/solvable_rate", "proposer/played_rate_")  # an arm is no number of operands
    assert trainer.args.countdown.operands == [3, 4] and [name for name in first if name.startswith(unknown)] == []
    samples = [json.loads(line) for line in Path("runs/bandit/samples.jsonl").read_text().splitlines()]
    asked = {(sample["step"], sample["prompt"]) for sample in samples}
    assert len({prompt for _, prompt in asked}) == len(asked) > 2  # other problems in the other round


def test_the_second_try_has_as_many_rows_as_there_are_problems_left(page):
    first, second = lines("runs/second_try")
    samples = page["second_try"].counts.samples
    assert samples["prover"] == 2 * 32 and 0 < samples["corrector"] <= 2 * 32 and samples["corrector"] % 4 == 0
    assert first["corrector/trained_samples"] + second["corrector/trained_samples"] == samples["corrector"]
    assert page["second_try"].game.tries == samples["corrector"]
    assert (
        "prover/correct_rate" in first
        and second["round/mended"] == page["second_try"].game.mended / samples["corrector"]
    )
    written = json.loads(Path("runs/second_try/run.json").read_text())
    said = [*written["config"], *page["second_try"].store.settings]
    assert "prover_beta" in said  # and nothing of a role that the game does not have
    assert [name for name in said if name.startswith("conjecturer_") and name in FLAT_FIELDS] == []
    declared = written["metrics"]
    assert declared["round/mended"].pop("help") == "Share of second tries that were right so far."
    assert declared["round/mended"] == {"healthy": [0.05, 1], "word": "mended"}


@pytest.mark.parametrize("run", ["bandit", "second_try"])
def test_a_part_of_ones_own_is_resumed_bit_for_bit(page, run):
    straight = page[run]
    args = copy.copy(straight.args)
    args.output_dir = f"again/{run}"
    again = JointConjecturerProverTrainer(model=str(TINY_MODEL_PATH), args=args)
    again.train(resume_from_checkpoint=f"runs/{run}/checkpoint-1")
    assert equal(weights(again), weights(straight)) and equal(optimizer_state(again), optimizer_state(straight))
    assert again.game.state_dict() == straight.game.state_dict() != type(straight.game)().state_dict()
    assert again.counts.state_dict() == straight.counts.state_dict()


def test_a_game_in_a_file_of_ones_own_is_named_in_yaml_and_on_the_command_line(page, tmp_path, monkeypatch, capsys):
    (code,) = (block for block in blocks(ROOT / "docs" / "extending.md", "python") if "class SecondTry" in block)
    (tmp_path / "my_game.py").write_text(code.partition("GAMES[")[0])
    (text,) = blocks(ROOT / "docs" / "extending.md", "yaml")
    (tmp_path / "mine.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    line = ["joint", "--config", "mine.yaml", "--max_steps", "1", "--eval_problems", "0", "--report", "false"]
    assert main([*line, "--disable_tqdm", "true"]) == 0
    run = tmp_path / "runs" / "mine"
    assert lines(run)[0]["corrector/trained_samples"] % 4 == 0 and (run / "corrector").is_dir()
    assert main([*line, "--game", "my_game:SecondTrie", "--output_dir", "other"]) == 2
    assert "'my_game' has no 'SecondTrie'. Did you mean 'SecondTry'?" in capsys.readouterr().err


def test_the_domain_is_played(page):
    """Two numbers are read in the tiny model's way to write three."""
    domain, Sum = page["Sums"](), page["Sum"]
    texts = ["3 5 7 = 22", "61 1", "?"]
    played = ScriptedRound(
        lambda role, row, i: texts[i] if role == "conjecturer" else "8",
        {"prover": (4, 2), "conjecturer": (3, 3)},
        domain,
    )
    result = ProposeAndSolve().play(played, [Sum(1, 1), Sum(4, 4), Sum(2, 2), Sum(3, 3)])
    # 3 + 5 and, in the slots that are left, the first anchors; 8 is right twice
    assert [row["prompt"] for row in played.rows["prover"]] == ["3 + 5 :", "1 + 1 :", "4 + 4 :", "2 + 2 :"]
    assert result.metrics["prover/correct_rate"] == 0.5 and result.metrics["round/solve_rate_mean"] == 1.0
    shares = [result.metrics[f"conjecturer/{name}_rate"] for name in ("parseable", "in_range", "played")]
    assert shares == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    with pytest.raises(DataError, match="Row 7 must hold whole numbers `a` and `b`"):
        domain.problem({"a": "x"}, 7)
    drawn = set(map(domain.key, domain.random(2048, 0, frozenset({"1+1"}))))
    assert len(drawn) == 2048 and "1+1" not in drawn


def test_the_domain_in_moves_is_played_by_a_script(page):
    """A player that adds the first two numbers, and is off by one where their sum is above 9."""
    domain = page["AddUp"]()

    def write(role, row, i):
        a, b = map(int, row["prompt"].split()[:2])
        return f"{a} + {b} = {a + b + (a + b > 9)}"

    played = ScriptedRound(write, {"prover": (3, 2)}, domain)
    problems = [(2, 3), (1, 2, 3), (4, 4, 4)]
    episodes = played.sample("prover", [domain.prove_row(p) for p in problems], problems=problems)
    # 2 + 3; 1 + 2 and 3 + 3; 4 + 4 = 8, and 8 + 4 = 13, which is false
    assert [verdict.reason for verdict in episodes.verdicts] == ["ok"] * 4 + ["false_sum"] * 2
    assert len(played.rows["prover"]) == 3 and episodes.lengths == [1, 1, 2, 2, 2, 2]
    ends = domain.moved(["3 - 1 = 2", "7 + 1 = 8", "1 + 1 = 2"], problems[:1] * 3, [[1, 3]] * 3)
    assert [end.reason for end in ends] == ["no_move", "not_there", "not_there"]  # 1 is there once
    drawn = domain.random_of_rung(50, 2, 0, frozenset({"1 1"}))
    assert len({tuple(sorted(p)) for p in drawn}) == 50 and (1, 1) not in drawn
    assert len(domain.random_of_rung(100, 2, 0, frozenset())) <= 78  # 12 x 13 / 2 pairs


def test_the_domain_in_moves_is_trained_on(page):
    (line,) = lines("runs/add_up")
    assert page["add_up"].counts.samples["prover"] == 64 and line["prover/moves"] >= 1
    samples = [json.loads(row) for row in Path("runs/add_up/samples.jsonl").read_text().splitlines()]
    right = [row for row in samples if row["reason"] == "ok"]
    assert 0 < line["round/solve_rate_mean"] < 1 and right  # it has learned sums of two and three numbers


def test_the_cures_of_findings_name_no_setting_of_another_domain(page):
    own = declared_metrics(
        ProposeAndSolve(), {"prover": ["prover"], "conjecturer": ["conjecturer"]}, page["Sums"].cures
    )
    said = " ".join(metric.cure for metric in own)
    assert "warm-start" in said and not [name for name in COUNTDOWN if f"`{name}`" in said]
    known = {metric.name for metric in (*METRICS, *PROPOSER_METRICS)}
    assert CountdownDomain.cures.keys() <= known and "`operands`" in CountdownDomain.cures["round/too_hard_share"]
