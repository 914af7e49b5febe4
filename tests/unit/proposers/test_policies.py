# Tests: proposers/policies.py
"""Language models that propose: what each is asked for, and what each earns."""

import math

import pytest

from countdown_selfplay.contract.game import Outcome
from countdown_selfplay.countdown import CountdownDomain, ProblemSpec
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


def test_several_players_propose_and_each_is_credited_with_its_own():
    texts = {"conjecturer/0": ["3 5 7 = 22", "?"], "conjecturer/1": ["2 3 4 = 24", "6 5 4 = 15"]}
    made = ScriptedRound(lambda player, row, i: texts[player][i], dict.fromkeys(texts, (2, 2)))
    proposer = Policies()
    proposals = proposer.propose(made, [])
    assert [p.by for p in proposals] == ["conjecturer/0"] * 2 + ["conjecturer/1"] * 2
    assert [p.problem and p.problem.target for p in proposals] == [22, None, 24, 15]
    assert [p.request for p in proposals] == [{"operands": 3}] * 4
    assert [p.reason == "ok" for p in proposals] == [True, False, True, True]
    assert proposals[0].facts == {"in_range": True, "solvable": True} and proposals[1].facts == {}
    first, second = proposer.learn(made, Outcome(proposals, [0.75, 0.0, 0.5, math.nan], [], [], None, []))
    assert (first.rollout.role, second.rollout.role) == ("conjecturer/0", "conjecturer/1")
    assert first.advantages_B.tolist() == [0.75, -0.75] and second.advantages_B.tolist() == [0.0, 0.0]
    assert first.mean_reward == 0.375 and second.mean_reward == 0.5  # what was not measured is in no mean


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


@pytest.mark.parametrize("players", [0, 1])
def test_rollouts_are_those_of_the_last_round(players):
    """One player with one group of two."""
    proposer = Policies()
    made = ScriptedRound(lambda *_: "?", {"conjecturer": (2, 2)} if players else {})
    proposer.propose(ScriptedRound(lambda *_: "?", {"conjecturer": (2, 2)}), [])
    assert len(proposer.propose(made, [])) == 2 * players and len(proposer.rollouts) == players
