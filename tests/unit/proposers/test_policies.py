# Tests: proposers/policies.py, proposers/__init__.py
"""Language models that propose: what each is asked for, what is put right before it is played, what each earns."""

import numpy as np

from countdown_selfplay.contract.game import Outcome
from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.policies import Policies
from countdown_selfplay.testing import ScriptedRound, in_ranks

BOTH = CountdownDomain(ProblemSpec((3, 4), 1, 12, 1, 99), conjecturer_prompt="compact", prover_prompt="compact")


def asked(operands=(), groups=3, **changes):
    domain = CountdownDomain(BOTH.spec, conjecturer_prompt="compact", operands=operands)
    made = ScriptedRound(lambda *_: "?", {"conjecturer": (groups * 2, 2)}, domain, **changes)
    Policies().propose(made, [])
    return [row["operands"] for row in made.rows["conjecturer"]]


def test_what_the_domain_asks_for_takes_turns_over_groups_rounds_and_processes():
    assert [asked(index=index) for index in range(3)] == [[3, 4, 3], [4, 3, 4], [3, 4, 3]]
    assert asked(operands=(3, 3, 4), index=1) == [3, 3, 4]  # groups 3, 4, 5 of a turn of three
    shares = [asked(groups=4, rank=rank, world=2) for rank in range(2)]
    assert shares[0] + shares[1] == asked(groups=4) == [3, 4, 3, 4]


def test_where_groups_do_not_divide_by_processes_each_is_credited_with_its_own():
    """Three groups of two on two processes: the first has one, the second two."""
    texts = [f"{i} {i + 1} {i + 2} = {3 * i + 3}" for i in range(1, 7)]

    def play(rank, gather):
        own = iter(texts[:2] if rank == 0 else texts[2:])
        sizes = {"conjecturer": (6, 2)}
        made = ScriptedRound(lambda *_: next(own), sizes, rank=rank, world=2, gather=gather)
        proposer = Policies()
        proposals = proposer.propose(made, [])
        assert [p.problem.target for p in proposals] == [6, 9, 12, 15, 18, 21]
        (turn,) = proposer.learn(made, Outcome(proposals, [0.0, 1.0, 2.0, 3.0, 4.0, 6.0], [], [], None, []))
        return turn.rewards_B.tolist(), turn.advantages_B.tolist(), turn.mean_reward

    first, second = in_ranks(2, play)
    assert first == ([0.0, 1.0], [-1.0, 1.0], 16 / 6)
    assert second == ([2.0, 3.0, 4.0, 6.0], [-1.0, 1.0, -2.0, 2.0], 16 / 6)


MOVES = CountdownDomain(
    ProblemSpec((3, 4, 7), 1, 12, 1, 99), Rules(answer_format="bare"), "compact_moves", "compact_any", answers="moves"
)
# whole answers: solvable, unsolvable, unreadable, out of range (13), of the wrong size, unsolvable
TEXTS = ["3 5 7 = 22", "1 1 1 = 99", "?", "3 5 13 = 21", "1 2 = 3", "2 2 2 = 97"]


def proposed(texts=TEXTS, domain=None, repair=True, rank=0, world=1, gather=list):
    """Proposals of groups of two."""
    count = iter(texts[rank * len(texts) // world :])
    sizes = {"conjecturer": (len(texts), 2), "prover": (4, 4)}
    domain = domain or CountdownDomain.tiny()
    made = ScriptedRound(lambda *_: next(count), sizes, domain, rank=rank, world=world, gather=gather)
    proposer = make_proposer("policies", {"repair": repair})
    return proposer.propose(made, []), proposer


def test_what_is_readable_and_in_range_and_not_solvable_gets_another_target():
    plain, quiet = proposed(repair=False)
    assert quiet.logged() == {}
    found, proposer = proposed()
    assert [p.reason for p in plain] == [
        "ok", "unsolvable", plain[2].reason, "out_of_range", "out_of_range", "unsolvable",
    ]  # fmt: skip
    assert [p.reason for p in found] == ["ok", "ok", plain[2].reason, "out_of_range", "out_of_range", "ok"]
    # three ones reach 1 (1 * 1 / 1, 1 + 1 - 1), 2 and 3; three twos 1 to 8
    assert found[1].problem.numbers == (1, 1, 1) and found[1].problem.target in (1, 2, 3)
    assert found[5].problem.numbers == (2, 2, 2) and found[5].problem.target in range(1, 9)
    assert [p.problem for p in (found[0], *found[2:5])] == [p.problem for p in (plain[0], *plain[2:5])]
    assert found[1].facts["solvable"] is False  # of what was written
    assert proposer.logged() == {"proposer/repaired_rate": 2 / 6}


def test_in_moves_every_proposal_in_range_is_put_right_alike_on_all_processes_or_refused():
    texts = ["3 5 7 = 22", "1 1 1 = 99", "1 2 3 4 5 6 7 = 50", "?"]
    found, proposer = proposed(texts, MOVES)
    assert [len(p.problem.numbers) for p in found[:3]] == [3, 3, 7] and found[3].problem is None
    assert found[0].problem.numbers == (3, 5, 7) and proposer.logged() == {"proposer/repaired_rate": 0.75}
    assert [p.reason for p in found[:3]] == ["ok"] * 3
    texts = ["1 2 3 4 5 6 7 = 50"] * 8
    alone = [p.problem for p in proposed(texts, MOVES)[0]]
    assert len(set(alone)) > 1  # 8 draws from dozens of targets
    both = in_ranks(2, lambda rank, gather: proposed(texts, MOVES, rank=rank, world=2, gather=gather)[0])
    assert [p.problem for p in both[0]] == [p.problem for p in both[1]] == alone
    spec = ProblemSpec((3,), 1, 12, 80, 99)
    domain = CountdownDomain(spec, MOVES.rules, "compact_moves", "compact", answers="moves")
    assert [p.reason for p in proposed(["1 1 1 = 90"] * 2, domain)[0]] == ["unsolvable"] * 2


def test_the_player_is_credited_for_what_it_wrote():
    """1 1 1 = 99 is played as 1 1 1 = t, t in {1, 2, 3}, and solved by two of four answers: tent(.5) = .75."""
    right = {1: "1 + 1 - 1", 2: "1 + 1 * 1", 3: "1 + 1 + 1"}

    def write(player, row, i):
        if player == "conjecturer":
            return ["1 1 1 = 99", "?"][i]
        return right[row["target"]] if row["numbers"] == [1, 1, 1] and i < 2 else "no"

    game = ProposeAndSolve(make_proposer("policies", {"repair": True}), settings=Settings(anchor_fraction=0.5))
    made = ScriptedRound(write, {"prover": (2, 4), "conjecturer": (2, 2)})
    result = game.play(made, [Problem((1, 2, 3), 6), Problem((2, 2, 2), 8)])
    assert result.turns[-1].rewards_B.tolist() == [0.75, 0.0] and result.turns[-1].rollout.texts[0] == "1 1 1 = 99"
    assert result.metrics["proposer/repaired_rate"] == 0.5
    assert result.metrics["conjecturer/solvable_rate"] == 0.0 and result.metrics["conjecturer/admitted_rate"] == 0.5


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
    asked = [row["prompt"] for row in made.rows["conjecturer"]]
    assert asked == ["propose like 1 2 3 4 5 6 7 = 50 :", "propose like 3 5 7 = 22 :"]
    bits = np.zeros((1, 3, 4))
    bits[0, 0, :2] = bits[0, 1, 0] = 1  # the synthetic problem, and the target of seven
    problems = [proposals[0].problem, *targets]
    proposer.learn(made, Outcome(proposals, np.zeros(2), problems, [0, None], bits, ["", "", None]))
    logged = proposer.logged()
    assert list(proposer.solved) == ["1,2,3,4,5,6,7=50"] and logged["targets/trainable"] == 1
    assert logged["targets/set_size"] == 5 and logged["targets/problem_size"] == 3  # (7 + 3) / 2
    assert "targets/set_complex" not in logged
