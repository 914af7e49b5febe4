# Tests: evaluation/roles.py, evaluation/terminal.py
"""Both roles' evaluations with scripted models whose right answers are known beforehand; several provers as one."""

import json
from collections import Counter
from dataclasses import replace

import pytest
import torch

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec
from countdown_selfplay.evaluation import evaluate_conjecturer, evaluate_prover
from countdown_selfplay.evaluation.roles import ProverEvaluation, pooled, unique_rate
from countdown_selfplay.statistics.bootstrap import Estimate
from tests.unit.evaluation.stairs import Written, words

WORDS = ["<pad>", "</s>", "+", "-", "*", "/", "(", ")", "=", ":", "propose", *map(str, range(100))]
DOMAIN = CountdownDomain.tiny()


@pytest.fixture(scope="module")
def tokenizer():
    return words(WORDS)


PROBLEMS = [Problem((3, 5, 7), 22), Problem((1, 2, 3), 6)]
ANSWERS = {
    "3 5 7 = 22 :": "3 * 5 + 7, 3 + 5 + 7, 3 * 5, 3 * 5 +",
    "1 2 3 = 6 :": "1 + 2 + 3, 1 * 2 * 3, 1 + 2 + 3 + 1 - 1, 1 + 2 + 3",
}


def test_the_prover_is_scored_by_the_verifier_alone_and_survives_json(tokenizer):
    model = Written(tokenizer, ANSWERS)
    found = evaluate_prover(model, tokenizer, PROBLEMS, DOMAIN, n=4, ks=(1, 2, 4), max_new_tokens=12)
    assert found.correct == [1, 3]
    # pass@1: (1/4 + 3/4) / 2. pass@2: C(3,2)/C(4,2) = 1/2 -> 1/2, and C(1,2) = 0 -> 1; mean 3/4. pass@4: both 1.
    assert {k: e.value for k, e in found.pass_at.items()} == {1: 0.5, 2: 0.75, 4: 1.0}
    assert (found.pass_at[1].low, found.pass_at[1].high) == (0.25, 0.75)  # two problems: a resample has one twice
    # Wrong value and wrong numbers are well-formed (0.1), "3 * 5 +" is not: (1.2 / 4 + 3.1 / 4) / 2
    assert found.score.value == pytest.approx(4.3 / 8, abs=1e-12)
    refused = str(DOMAIN.verify(["3 * 5 +"], PROBLEMS[:1])[0].reason)
    assert found.reasons == {"correct": 4, "wrong_value": 1, "wrong_numbers": 2, refused: 1}
    assert sum(found.reasons.values()) == 8
    assert found.truncated_rate == found.several_answers_rate == 0
    # Five tokens: "3 * 5 + 7" has no room for its end token, "3 * 5" has.
    found = evaluate_prover(
        Written(tokenizer, ANSWERS), tokenizer, PROBLEMS[:1], DOMAIN, n=4, ks=(1,), max_new_tokens=5
    )
    assert found.truncated_rate == 2 / 4
    model = Written(tokenizer, ANSWERS)
    found = evaluate_prover(model, tokenizer, PROBLEMS, DOMAIN, n=4, ks=(1, 4), temperature=0.6, max_new_tokens=8)
    loaded = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert loaded["pass_at"]["1"] == {"value": 0.5, "low": 0.25, "high": 0.75}
    assert (loaded["correct"], loaded["n"], loaded["problems"]) == ([1, 3], 4, 2)
    assert loaded["setting"]["temperature"] == 0.6
    assert loaded["setting"]["domain"]["rules"]["answer_format"] == "bare"


PROPOSALS = [
    "3 5 7 = 22",  # solvable
    "7 5 3 = 22",  # the same problem in another order
    "1 2 3 = 6",  # solvable
    "1 1 1 = 99",  # in range, unsolvable
    "50 2 3 = 55",  # 50 is above 12
    "1 2 = 3",  # two numbers
    "3 5 7 =",  # malformed
    "3 5 7 22",  # malformed
]


def test_the_conjecturers_rates_are_shares_of_all_and_only_what_is_in_range_is_solved(tokenizer, monkeypatch):
    model = Written(tokenizer, {"propose 3 :": ", ".join(PROPOSALS)})
    found = evaluate_conjecturer(model, tokenizer, DOMAIN, n=8, max_new_tokens=8)
    assert found.parseable.value == 6 / 8
    assert found.facts["in_range"].value == 4 / 8
    assert found.facts["solvable"].value == 3 / 8
    assert found.unique is not None and found.unique.value == 5 / 6
    assert found.reasons == {"ok": 3, "unsolvable": 1, "out_of_range": 2, "malformed": 2}
    assert [p.key for p in found.problems] == ["3,5,7=22", "3,5,7=22", "1,2,3=6"]
    assert found.solve_rate is None and "solve_rate" not in found.to_dict()
    json.dumps(found.to_dict(), allow_nan=False)
    asked = []

    def prover_correct(problems):
        asked.extend(p.key for p in problems)
        return [0.25, 0.75]

    model = Written(tokenizer, {"propose 3 :": ", ".join(PROPOSALS)})
    found = evaluate_conjecturer(model, tokenizer, DOMAIN, n=8, max_new_tokens=8, prover_correct=prover_correct)
    assert asked == ["3,5,7=22", "1,2,3=6"]
    assert found.solve_rate is not None and found.solve_rate.value == 0.5
    # Sixteen operands would keep the solver busy for longer than the universe is old.
    asked = []
    monkeypatch.setattr(CountdownDomain, "solvable_batch", lambda self, ps: asked.extend(ps) or [True] * len(ps))
    model = Written(tokenizer, {"propose 3 :": " ".join(["9"] * 16) + " = 9, 1 2 3 = 6"})
    found = evaluate_conjecturer(model, tokenizer, DOMAIN, n=2, max_new_tokens=20)
    assert (found.parseable.value, found.facts["solvable"].value) == (1.0, 0.5)
    assert [problem.key for problem in asked] == ["1,2,3=6"]


def test_proposals_are_dealt_out_over_the_operand_counts_and_none_parsed_has_no_unique_rate(tokenizer):
    domain = CountdownDomain(ProblemSpec((2, 3), 1, 12, 1, 99), DOMAIN.rules, "compact", "compact")
    model = Written(tokenizer, {"propose 2 :": "1 2 = 3", "propose 3 :": "1 2 3 = 6"})
    found = evaluate_conjecturer(model, tokenizer, domain, n=5, max_new_tokens=8)
    assert [len(p.numbers) for p in found.problems] == [2, 3, 2, 3, 2]
    found = evaluate_conjecturer(Written(tokenizer, {"propose 3 :": "= ="}), tokenizer, DOMAIN, n=3, max_new_tokens=4)
    assert (found.unique, found.parseable.value, found.problems) == (None, 0.0, [])
    assert "unique" not in found.to_dict()


def test_the_unique_rates_interval_by_hand_covers_its_expectation():
    # a a b: 2 distinct of 3, one singleton: s = (1 + 2) / (3 + 4) = 3/7, half-width 1.96 sqrt(3/7 * 4/7 / 2) = .6859
    found = unique_rate(["a", "a", "b"])
    assert (found.value, found.low, found.high) == pytest.approx((2 / 3, 0.0, 1.0))
    # 100 distinct of 100: s = 102/104, half-width 1.959964 sqrt(102/104 * 2/104 / 99) = .027052
    found = unique_rate([str(i) for i in range(100)])
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1 - 0.027052, 1.0), abs=1e-6)
    assert unique_rate([]) is None
    # 60 keys drawn from 100: the expected number of distinct ones is 100 (1 - .99^60) = 45.28, a rate of .7547.
    generator = torch.Generator().manual_seed(0)
    expected = (1 - 0.99**60) * 100 / 60
    covered = 0
    for _ in range(300):
        keys = [str(i) for i in torch.randint(100, (60,), generator=generator).tolist()]
        found = unique_rate(keys)
        covered += found.low <= expected <= found.high
    assert covered / 300 > 0.93  # conservative: at least about 95%, less the error of 300 trials


def one(correct, score, truncated):
    return ProverEvaluation(
        n=4, pass_at={}, score=Estimate(score, score - 0.1, score + 0.1), truncated_rate=truncated,
        several_answers_rate=0.0, reasons=Counter(ok=sum(correct)), seconds=1.0, setting={}, correct=correct,
        keys=[str(i) for i in range(len(correct))],
    )  # fmt: skip


def test_all_answers_to_a_problem_are_put_together_and_settings_that_differ_told():
    found = pooled([one([4, 0, 1], 0.4, 0.0), one([0, 0, 3], 0.6, 0.5)], ks=(1, 8))
    assert (found.correct, found.n, found.truncated_rate, found.seconds) == ([4, 0, 4], 8, 0.25, 2.0)
    # pass@1: (4 + 0 + 4) / 8 / 3; pass@8: two of three problems have a right answer among the eight
    assert found.pass_at[1].value == pytest.approx(1 / 3) and found.pass_at[8].value == pytest.approx(2 / 3)
    assert (found.score.value, found.score.low) == (pytest.approx(0.5), pytest.approx(0.4))
    assert found.reasons == {"ok": 8}
    # Wilson's for 0 of 3 problems: 3.841459 / 6.841459 = .561497.
    found = pooled([one([0, 0, 0], 0.0, 0.0)] * 2, ks=(1, 8))
    assert [found.pass_at[k].high for k in (1, 8)] == pytest.approx([0.561497] * 2, abs=1e-6)
    alone = one([1, 2], 0.3, 0.0)
    assert pooled([alone], ks=(1,)) is alone
    settings = [{"temperature": t, "top_p": 1.0, "seed": seed} for t, seed in ((0.8, 0), (1.2, 7))]
    each = [replace(one([1], 0.3, 0.0), setting=setting) for setting in settings]
    assert pooled(each).setting == {"temperature": [0.8, 1.2], "top_p": 1.0, "seed": 0}
