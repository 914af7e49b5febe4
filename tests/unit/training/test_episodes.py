# Tests: contract/episodes.py, objectives/base.py
"""Episodes in a round: how they are played, and that a loss counts the moves of one as one answer."""

from types import SimpleNamespace

import pytest
import torch

from countdown_selfplay.contract.episodes import play_out
from countdown_selfplay.contract.round import Rollout
from countdown_selfplay.errors import GameError
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import LossInputs


class Countdowns:
    """A problem is a number; the move "-1" lowers it, any other is wrong. Solved at 0."""

    most_moves = 4

    def begin(self, problem):
        return problem

    def move_row(self, problem, state):
        return {"prompt": str(state)}

    def moved(self, texts, problems, states):
        found = []
        for text, state in zip(texts, states, strict=True):
            verdict = None if text == "-1" else SimpleNamespace(correct=False, score=0.0, reason="wrong")
            if text == "-1" and state == 1:
                verdict = SimpleNamespace(correct=True, score=1.0, reason="ok")
            found.append(verdict or state - 1)
        return found


def scripted(answers, asked):
    """Texts of each move in turn; what was asked for is noted."""

    def sample(move, rows, n):
        asked.append([row["prompt"] for row in rows])
        return Rollout("prover", rows, answers[move], n)

    return sample


def test_later_moves_are_asked_of_the_episodes_that_go_on_and_a_verdict_is_that_of_the_last_move():
    asked = []
    answers = [["-1", "no", "-1", "-1"], ["-1", "-1", "no"], ["-1"]]
    rows = [{"prompt": "2"}, {"prompt": "3"}]
    played = play_out(Countdowns(), "prover", rows, [2, 3], 2, scripted(answers, asked))
    # episodes 0 and 1 are of problem 2, 2 and 3 of problem 3: 0 solves in two moves, 1 fails at its first, 2 solves in
    # three, 3 fails at its second
    assert asked == [["2", "3"], ["1", "2", "2"], ["1"]]
    assert [v.correct for v in played.verdicts] == [True, False, True, False]
    assert played.texts == ["-1\n-1", "no", "-1\n-1\n-1", "-1\nno"]
    assert played.episode_of == [[0, 1, 2, 3], [0, 2, 3], [2]] and played.lengths == [2, 1, 3, 2]


def test_an_endless_episode_ends_at_the_bound_and_a_domain_that_loses_one_is_named():
    answers = [["-1"]] * 4
    played = play_out(Countdowns(), "prover", [{"prompt": "9"}], [9], 1, scripted(answers, []))
    assert [v.reason for v in played.verdicts] == ["too_many_moves"] and played.lengths == [4]
    forgetful = Countdowns()
    forgetful.moved = lambda texts, problems, states: []
    with pytest.raises(GameError, match="0 results for 1 moves"):
        play_out(forgetful, "prover", [{"prompt": "9"}], [9], 1, scripted(answers, []))


@pytest.mark.parametrize("name", ["rloo", "reinforce", "reinforce_half", "grpo", "dr_grpo", "cispo", "maxrl"])
@pytest.mark.parametrize("behind", [0.0, 0.3])
def test_the_gradient_of_episodes_is_that_of_each_written_as_one_answer(name, behind):
    """The tokens of an episode's moves one after the other are one answer: log-prob, importance weight, lengths and
    means are then those of ordinary rows, computed by the same objective without `sequence_B`."""
    torch.manual_seed(0)
    sequence = torch.tensor([0, 0, 1, 2, 2, 2, 3, 3])
    lengths = [1, 1, 2, 3, 3, 3, 4, 4]
    mask = (torch.arange(4)[None] < torch.tensor(lengths)[:, None]).float()
    logps = (torch.randn(8, 4) * 0.3 - 1).requires_grad_()
    old = logps.detach() + behind * torch.randn(8, 4)
    credit = torch.tensor([1.0, 0.2, 0.5, -0.5])
    groups = torch.tensor([4.0, 4.0, 17.0, 17.0])
    shared = {"sequences": 4.0, "tokens": 21.0, "groups": 2.0, "length_cap": 12}
    objective = make_objective(name)
    moves = LossInputs(
        logps, old, credit[sequence], mask, group_tokens_B=groups[sequence], sequence_B=sequence, **shared
    )
    (mine,) = torch.autograd.grad(objective.loss(moves).loss, logps)

    def whole(values):
        rows = [torch.cat([values[i, : lengths[i]] for i in range(8) if sequence[i] == e]) for e in range(4)]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    one = LossInputs(whole(logps), whole(old), credit, whole(mask), group_tokens_B=groups, **shared)
    (other,) = torch.autograd.grad(objective.loss(one).loss, logps)
    assert torch.allclose(mine, other, atol=1e-6) and bool(mine.any())
