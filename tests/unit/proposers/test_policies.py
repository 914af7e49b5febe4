# Tests: proposers/policies.py
"""Language models that propose: what each is asked for, and what each earns."""

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
