# Tests: proposers/__init__.py
"""Proposers of whole answers on problems in moves, beyond what the exact solver takes."""

import numpy as np

from countdown_selfplay.contract.game import Outcome
from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.testing import ScriptedRound

SPEC = ProblemSpec((3, 4, 7, 8), 1, 12, 1, 99)


def domain(prompt):
    return CountdownDomain(SPEC, Rules(answer_format="bare"), "compact_moves", prompt, answers="moves")


def test_rungs_and_tiers_beyond_the_solver_are_planted():
    made = ScriptedRound(lambda *_: "", {"prover": (16, 4)}, domain("compact"))
    proposals = make_proposer("uniform_rungs", {"rungs": [7, 8]}).propose(made, [])
    assert len(proposals) == 16 and all(len(p.problem.numbers) == p.request["rung"] for p in proposals)
    texts = make_proposer("uniform_texts").propose(made, [])
    assert len(texts) == 16 and {p.request["rung"] for p in texts} <= {3, 4, 7, 8}
    tiers = make_proposer("tiers", {"start": [3, 7], "axis": "operands", "levels": [3, 4, 7, 8], "min_valid": 2})
    players = {"conjecturer/0": (1, 1), "conjecturer/1": (1, 1), "prover": (4, 4)}
    texts = {"conjecturer/0": "3 5 7 = 22", "conjecturer/1": "1 2 3 4 5 6 7 = 50"}
    made = ScriptedRound(lambda player, row, i: texts[player], players, domain("compact"))
    tiers.check({"conjecturer": ["conjecturer/0", "conjecturer/1"]}, made.domain)
    proposals = tiers.propose(made, [])
    assert [len(p.problem.numbers) for p in proposals] == [3, 7, 3, 7] and [p.reason for p in proposals] == ["ok"] * 4


def test_targets_of_seven_numbers_get_help_and_are_solved():
    targets = [Problem((1, 2, 3, 4, 5, 6, 7), 50), Problem((3, 5, 7), 22)]
    write = lambda player, row, i: "1 2 3 = 6"  # noqa: E731
    made = ScriptedRound(write, {"conjecturer": (2, 1), "prover": (4, 4)}, domain("compact"), problems=targets)
    made.objectives["conjecturer"] = make_objective("reinforce")
    proposer = make_proposer("targets")
    assert proposer.targets(made, []) == targets
    proposals = proposer.propose(made, [])
    assert [row["prompt"] for row in made.rows["conjecturer"]] == [
        "propose like 1 2 3 4 5 6 7 = 50 :",
        "propose like 3 5 7 = 22 :",
    ]
    bits = np.zeros((1, 3, 4))
    bits[0, 0, :2] = bits[0, 1, 0] = 1  # the synthetic problem, and the target of seven
    problems = [proposals[0].problem, *targets]
    proposer.learn(made, Outcome(proposals, np.zeros(2), problems, [0, None], bits, ["", "", None]))
    logged = proposer.logged()
    assert list(proposer.solved) == ["1,2,3,4,5,6,7=50"] and logged["targets/trainable"] == 1
    assert logged["targets/set_size"] == 5 and logged["targets/problem_size"] == 3  # (7 + 3) / 2
    assert "targets/set_complex" not in logged
