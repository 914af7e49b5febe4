# Tests: examples/one_file.py
"""The round in one file: its credit by hand, its log-probs against a row alone, and a run."""

import importlib.util
from pathlib import Path

import pytest
import torch

from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.tiny import load_tiny_model


@pytest.fixture(scope="module")
def one_file():
    place = Path(__file__).resolve().parents[1] / "examples" / "one_file.py"
    spec = importlib.util.spec_from_file_location("one_file", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_sample_is_compared_with_the_others_of_its_group_that_have_a_reward(one_file):
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0], [2.0, float("nan"), 0.0, float("nan")]])
    # row 1: 1 - (0 + 0 + 1) / 3, 0 - 2 / 3, ...; row 2: 2 - 0, none, 0 - 2, none
    expected = torch.tensor([[2 / 3, -2 / 3, -2 / 3, 2 / 3], [2.0, 0.0, -2.0, 0.0]])
    torch.testing.assert_close(one_file.rloo(rewards), expected)


def test_a_proposal_is_paid_by_its_solve_rate_charged_without_a_solution_and_else_left_out(one_file):
    paid = one_file.conjecturer_rewards([True, False, True, True], [1, None, None, 0], torch.tensor([1.0, 0.25]))
    assert paid[0, :2].tolist() == [0.75, -1.0]  # 4 x 1/4 x 3/4
    assert paid[0, 2].isnan() and paid[0, 3] == 0  # no slot; always solved


def test_what_is_solvable_new_and_not_held_out_gets_a_slot_once(one_file):
    domain = CountdownDomain.tiny()
    played, again, held_out = *domain.random(2, 7), domain.held_out(1)[0]
    texts = [f"{' '.join(map(str, p.numbers))} = {p.target}" for p in (played, again, played, held_out)] + ["none"]
    solvable, slots, problems = one_file.admit(domain, texts, {domain.key(again)})
    assert solvable == [True, True, True, True, False]
    assert slots == [0, None, None, None, None] and [domain.key(p) for p in problems] == [domain.key(played)]


def test_log_probs_of_padded_rows_are_those_of_each_row_alone(one_file):
    model, tokenizer = load_tiny_model()
    prompts = [CountdownDomain.tiny().prove_row(problem)["prompt"] for problem in CountdownDomain.tiny().random(2, 3)]
    torch.manual_seed(0)
    both = one_file.sample(model, tokenizer, [prompts[0], prompts[1] + " "], 1)
    scores = one_file.log_probs(model, both)
    for row in range(2):
        ids = both.ids[row][both.attention[row].bool()][None]
        alone = model(ids).logits.log_softmax(-1)[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
        counted = int(both.counted[row].sum())
        torch.testing.assert_close(scores[row, :counted], alone[-counted:], rtol=1e-4, atol=1e-5)


def test_a_run_repeats_and_prints_a_line_a_round(one_file, capsys):
    arguments = ["--rounds", "2", "--eval_problems", "8"]
    first, lines = one_file.main(arguments), capsys.readouterr().out
    assert one_file.main(arguments) == first and capsys.readouterr().out == lines
    assert [line.split(":")[0] for line in lines.splitlines()] == ["before", "round 1", "round 2", "after"]
