# Tests: worlds/detachment/domain.py, worlds/detachment/theorems.py
"""`domain: detachment`: its problems, sides, rungs, prompts and refusals, and rounds of the games without a model."""

import re

import pytest

from countdown_selfplay.contract.domain import Checked
from countdown_selfplay.domains import check_domain, held_out_by_rung, make_domain
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.worlds.detachment import conclusion, is_instance, is_tautology, read, shortest_proof
from countdown_selfplay.worlds.detachment.domain import DetachmentDomain

DOMAIN = DetachmentDomain(longest_proof=11)


def formula(text):
    return read(text).problem


def test_it_is_a_domain_by_name_whose_problems_go_to_rows_and_back():
    made = make_domain("detachment", '{"longest_proof": 9, "prompt": "chat"}')
    check_domain("detachment", made)
    assert made == DetachmentDomain(longest_proof=9, prompt="chat")
    assert made.to_dict()["domain"] == "detachment" and made.to_dict()["axioms"]["1"] == "CpCqp"
    for problem in DOMAIN.random(50, 0):
        row = DOMAIN.prove_row(problem)
        assert row["prompt"] == f"{problem}:" and DOMAIN.problem(row) == problem
    assert DOMAIN.problem({"theorem": "CaCba"}) == formula("CpCqp")
    for row in ({}, {"theorem": None}, {"theorem": "p -> p"}, {"theorem": 3}):
        with pytest.raises(DataError, match=r"row 4, column 'theorem': .* not a formula .*Polish notation"):
            DOMAIN.problem(row, 4)
    assert DOMAIN.longest.symbols == 23 and is_tautology(DOMAIN.longest)
    assert DetachmentDomain(symbols=13).longest.symbols == 13


def test_right_answers_are_right_and_random_is_a_function_of_its_arguments():
    problems = DOMAIN.random(40, 1)
    proofs = [shortest_proof(problem) for problem in problems]
    assert all(verdict.correct and verdict.score == 1 for verdict in DOMAIN.verify(proofs, problems))
    texts = ["DD211", "D21", "D31", "D1", "hm", "D" * 100_000]
    reasons = [str(verdict.reason) for verdict in DOMAIN.verify(texts, [formula("Cpp")] * 6)]
    assert reasons == ["correct", "other_theorem", "no_detachment", "unbalanced", "no_proof", "too_long"]
    first = DOMAIN.random(30, 2)
    assert DOMAIN.random(30, 2) == first != DOMAIN.random(30, 3)
    left = DOMAIN.random(10_000, 2, {DOMAIN.key(problem) for problem in first})
    assert not set(first) & set(left) and len(left) + 30 == len(DOMAIN.random(10_000, 2))


def test_the_sides_are_disjoint_and_rungs_are_lengths_of_shortest_proofs():
    held_out, trained = DOMAIN.held_out(1000), DOMAIN.random(1000, 0)
    assert len(set(held_out)) == len(held_out) > 20 and len(set(trained)) == len(trained) > 200
    general = [{conclusion(shortest_proof(p)).conclusion for p in side} for side in (held_out, trained)]
    assert not general[0] & general[1]
    assert all(map(DOMAIN.is_held_out, held_out)) and not any(map(DOMAIN.is_held_out, trained))
    instance = formula(str(held_out[0]).replace("p", "NNp"))
    assert DOMAIN.is_held_out(instance) and instance not in held_out
    assert DOMAIN.held_out(5) == DetachmentDomain(longest_proof=11, prompt="chat").held_out(5)
    assert DOMAIN.rungs == (5, 7, 9, 11)
    for rung in DOMAIN.rungs:
        for problem in [*DOMAIN.random_of_rung(20, rung, 3), *DOMAIN.held_out_of_rung(5, rung)]:
            assert DOMAIN.rung(problem) == len(shortest_proof(problem)) == rung and is_tautology(problem)
            assert DOMAIN.outside(problem) is None
    assert [DOMAIN.rung(formula(text)) for text in ("CpCqp", "CNpNp", "CCCpqpp")] == [1, 5, 13]  # Peirce: beyond
    assert [DOMAIN.rung(p) for p in DOMAIN.random(8, 5)] == [5, 7, 9, 11] * 2
    assert [DOMAIN.rung(p) for p in held_out_by_rung(DOMAIN, [9, 11], 2)] == [9, 9, 11, 11]


def test_no_proof_of_one_side_proves_a_problem_of_the_other():
    """Of all 1,014 x 130 pairs none is an instance of the other, either way round."""
    domain = DetachmentDomain()
    held_out, trained = domain.held_out(10_000), domain.random(10_000, 0)
    assert (len(held_out), len(trained)) == (130, 1014)
    assert not [(f, g) for f in trained for g in held_out if is_instance(f, g) or is_instance(g, f)]
    # CpCqCqCrq has a proof of its own, D1D11, and that of CpCqCrCsq, D1DD2D111, proves it too: no proposal.
    general, instance = formula("CpCqCrCsq"), formula("CpCqCqCrq")
    assert general in held_out and is_instance(instance, general) and shortest_proof(instance) == "D1D11"
    assert domain.check([instance])[0].reason == "held_out"
    # The hash put CpCCCqrqCCqrr beside them and an instance of it on the training side: it is on neither.
    dropped, trained_on = formula("CpCCCqrqCCqrr"), formula("CpCCCqCrsqCCqCrsCrs")
    assert is_instance(trained_on, dropped) and trained_on in trained
    assert domain.is_held_out(dropped) and dropped not in held_out


def test_proposals_are_read_and_checked():
    texts = ["CaCba", " C p p ", "Cpq", "CpCq", "p = q", None, "C" + "N" * 40 + "pp"]
    found = DOMAIN.parse(texts)
    assert [one.reason for one in found] == ["ok", "ok", "ok", "unbalanced", "no_formula", "no_formula", "ok"]
    problems = [one.problem for one in found if one.problem is not None]
    checked = DOMAIN.check(problems, [None] * 4)
    assert [one.reason for one in checked] == ["ok", "ok", "unsolvable", "out_of_range"]
    assert [dict(one.facts) for one in checked][2:] == [
        {"in_range": True, "solvable": False},
        {"in_range": False, "solvable": False},
    ]
    held_out = DOMAIN.held_out(1)[0]
    assert DOMAIN.check([held_out])[0] == Checked("held_out", {"in_range": True, "solvable": True})
    many = formula("CpCqCrCsCtCuCvCwCxp")
    assert DOMAIN.check([many])[0].reason == "out_of_range"
    assert DOMAIN.outside(many) == "it has 9 variables, more than `variables` (6)"
    assert DOMAIN.outside(problems[-1]) == "it has 43 signs, more than `symbols` (24)"


def test_prompts():
    assert DOMAIN.prove_row(formula("Cpp")) == {"prompt": "Cpp:", "theorem": "Cpp"}
    assert DOMAIN.propose_row()["prompt"] == "?" and DOMAIN.propose_row(formula("Cpp"))["prompt"] == "Cpp?"
    chat = DetachmentDomain(prompt="chat")
    asked = chat.prove_row(formula("CNpNp"))["prompt"][0]["content"]
    assert "Write a proof of CNpNp" in asked and re.search(r"3 = CCNpNqCqp", asked)
    assert "Here is a theorem: Cpp" in chat.propose_row(formula("Cpp"))["prompt"][0]["content"]
    answers = ["<answer>1</answer> no: <answer>DD211</answer>", "DD211", "<answer>DD211"]
    verdicts = chat.verify(answers, [formula("Cpp")] * 3)
    assert [str(verdict.reason) for verdict in verdicts] == ["correct", "no_proof", "no_proof"]
    assert chat.parse(["It is <answer>Cpp</answer>"])[0].problem == formula("Cpp")
    assert chat.stop_strings("prover/0") == ["</answer>"] and DOMAIN.stop_strings("prover") is None
    for role in ("prover", "conjecturer/1"):
        assert chat.cut_by(role, chat.stop_strings(role)) is None and DOMAIN.cut_by(role, ["\n"]) is None
    assert chat.cut_by("prover", ["<answer>"]) == "<answer>DD211</answer>"
    assert DOMAIN.cut_by("conjecturer", ["q"]) == "CpCqp"


@pytest.mark.parametrize(("settings", "said"), [
    ({"longest_proof": 17}, r"`longest_proof` \(17\) of detachment must be a whole number from 1 to 15"),
    ({"shortest_proof": "5"}, "`shortest_proof`"),
    ({"shortest_proof": 4}, r"`shortest_proof` \(4\) and `longest_proof` \(15\) .*odd"),
    ({"shortest_proof": 9, "longest_proof": 7}, "first not above the second"),
    ({"symbols": 2}, r"`symbols` \(2\) of detachment must be a whole number from 3 to 1000"),
    ({"variables": 13}, "from 1 to 12"),
    ({"prompt": "json"}, r"`prompt` \(json\) of detachment must be one of compact, chat"),
    ({"longest_proof": 5, "symbols": 3, "shortest_proof": 3}, None),
    ({"longest_proof": 3, "symbols": 5, "shortest_proof": 3}, "raise `symbols` or `variables`"),
    ({"length": 7}, "does not take length"),
])  # fmt: skip
def test_bad_settings_are_refused(settings, said):
    if said is None:
        assert make_domain("detachment", settings).random(5, 0) in ([formula("Cpp")], [])
    else:
        with pytest.raises(ConfigError, match=said):
            make_domain("detachment", settings)
