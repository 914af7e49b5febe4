# Tests: contract/episodes.py, training/credit.py, training/learners.py, training/micro_batch.py, training/replay.py
"""Episodes in a round: how they are played, whose rows are whose, and that a loss counts them as one answer each."""

from types import SimpleNamespace

import pytest
import torch

from countdown_selfplay.contract.episodes import Episodes, play_out
from countdown_selfplay.contract.round import Rollout, Turn
from countdown_selfplay.distributed.processes import ALONE
from countdown_selfplay.errors import ConfigError, GameError
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import LossInputs, Replay
from countdown_selfplay.training.credit import merged, token_counts
from countdown_selfplay.training.learners import Demonstrations
from countdown_selfplay.training.micro_batch import micro_batches
from countdown_selfplay.training.replay import AnswerBuffer, CarriedAnswers, EpisodeReplay, Kept
from countdown_selfplay.training.window import RoleBatch, sequence_windows, trained_counts

TWO = [SimpleNamespace(rank=rank, world=2, gather=list) for rank in (0, 1)]


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


def move(tokens):
    """A move's samples with so many prompt and completion tokens each."""
    longest = [max(column) for column in zip(*tokens, strict=True)]
    columns = list(zip(*tokens, strict=True))
    masks = [(torch.arange(n)[None] < torch.tensor(c)[:, None]).long() for n, c in zip(longest, columns, strict=True)]
    tensors = {"prompt_mask": masks[0].flip(1), "completion_mask": masks[1]}
    tensors |= {name.replace("mask", "ids"): mask for name, mask in tensors.items()}
    return Rollout("prover", [], ["x"] * len(tokens), 1, tensors=tensors)


def four_episodes():
    """Moves 2, 1, 3, 2; the completion of episode e's move m has e + 1 tokens, its prompt 6 - m."""
    episode_of = [[0, 1, 2, 3], [0, 2, 3], [2]]
    moves = [move([(6 - m, e + 1) for e in own]) for m, own in enumerate(episode_of)]
    return Episodes("prover", [], ["x"] * 4, 2, moves=moves, episode_of=episode_of)


def batch_of_four(advantages=(1.0, 0.0, 0.5, -0.5), selected=None):
    turn = Turn(four_episodes(), torch.tensor(advantages), selected_B=selected, group=2)
    return merged([turn], {})


def test_every_move_has_the_credit_of_its_episode_and_the_moves_are_side_by_side():
    batch = batch_of_four()
    assert batch.sequence_B.tolist() == [0, 0, 1, 2, 2, 2, 3, 3]
    assert batch.group_B.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert batch.advantages_B.tolist() == [1, 1, 0, 0.5, 0.5, 0.5, -0.5, -0.5]
    assert batch.tensors["completion_mask"].sum(1).tolist() == [1, 1, 2, 3, 3, 3, 4, 4]
    assert batch.tensors["prompt_mask"].sum(1).tolist() == [6, 5, 6, 6, 5, 4, 6, 5]
    assert token_counts(four_episodes()) == [1, 2, 3, 4]


def test_normalisers_count_episodes_and_tokens():
    """Four episodes, 1x2 + 2x1 + 3x3 + 4x2 = 21 tokens, two groups; without episodes 1 and 2 it is 10 tokens."""
    assert trained_counts(batch_of_four()) == [4, 21, 2]
    chosen = torch.tensor([True, False, False, True])
    assert trained_counts(batch_of_four(selected=chosen)) == [2, 10, 2]


def test_windows_hold_whole_episodes_with_credit_alone():
    cut, filled, dropped = sequence_windows(batch_of_four(), 8, 3, 2, 5, ALONE)
    sizes = [[len(set(w.sequence_B[w.advantages_B != 0].tolist())), int((w.advantages_B != 0).sum())] for w in cut]
    assert (filled, dropped) == (2, 0) and [s[0] for s in sizes] == [2, 1, 0]
    assert sum(s[1] for s in sizes) == 2 + 3 + 2


def test_micro_batches_keep_episodes_whole_and_the_rest_is_empty():
    batch = batch_of_four()
    found = micro_batches({"prover": batch}, {"prover": 4}, most=4)
    numbers = [set(part["sequence"][part["completion_mask"].any(1)].tolist()) for part in found]
    assert all(a.isdisjoint(b) for i, a in enumerate(numbers) for b in numbers[:i])
    assert set.union(*numbers) == {0, 1, 2, 3} and not numbers[-1]
    assert sum(int(part["completion_mask"].sum()) for part in found) == 21
    with pytest.raises(GameError, match="8 rows of 4 episodes do not fit into 1 micro-batches of 4"):
        micro_batches({"prover": batch}, {"prover": 1}, most=4)


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


def buffer(reuse=4, per_problem=1, sequences=2, capacity=8):
    rule = Replay(rounds=None, reuse=reuse, per_problem=per_problem, capacity=capacity)
    return AnswerBuffer(rule, SimpleNamespace(sequences_per_step=sequences, beta=0.0, temperature=1.0, role="prover"))


def test_right_answers_buy_steps_and_what_is_owed_waits():
    """Two new answers, each to be seen 4 times, in steps of 2: 4 steps are owed, of which a round may take 3."""
    kept, batch = buffer(), batch_of_four((1.0, 0.0, 1.0, 1.0), torch.tensor([True, False, True, True]))
    assert kept.take_in(batch, 0, ("k",), ALONE) == 2  # of the second group one of two
    cut, filled = kept.steps(batch, 3, ("k",), ALONE)
    assert filled == 3 and kept.owed == 1.0
    assert [len(set(window.sequence_B.tolist())) for window in cut] == [2, 2, 2]
    state = kept.state_dict()
    again = buffer()
    again.load_state_dict(state)
    assert [a.key for a in again.kept] == [a.key for a in kept.kept] and again.owed == 1.0
    none = batch_of_four((0.0,) * 4, torch.zeros(4, dtype=torch.bool))
    assert again.take_in(none, 1, ("k",), ALONE) == 0
    cut, filled = again.steps(none, 3, ("k",), ALONE)
    assert filled == 1 and [window.has_signal for window in cut] == [True, False, False]


def test_nothing_solved_takes_no_step_and_the_newest_are_kept():
    kept, none = buffer(capacity=1), batch_of_four((0.0,) * 4, torch.zeros(4, dtype=torch.bool))
    assert kept.take_in(none, 0, ("k",), ALONE) == 0 and kept.steps(none, 3, ("k",), ALONE)[1] == 0
    right = batch_of_four((1.0,) * 4, torch.ones(4, dtype=torch.bool))
    assert kept.take_in(right, 1, ("k",), ALONE) == 2 and len(kept.kept) == 1
    with pytest.raises(ConfigError, match="sequences_per_step"):
        buffer(sequences=0)


def test_carried_answers_are_in_one_step_each_and_a_remainder_waits():
    """Three answers with credit a round, steps of 2: round 0 fills one and carries one; with round 1 four wait, which
    are two steps. Six answers, three steps of 2, each answer once, the oldest first."""
    rule, settings = (
        Replay(rounds=None, carry=True),
        SimpleNamespace(sequences_per_step=2, beta=0.0, temperature=1.0, role="prover"),
    )
    right = batch_of_four((1.0, 0.0, 0.5, 1.0), torch.tensor([True, True, True, True]))
    kept = CarriedAnswers(rule, settings)
    assert kept.take_in(right, 0, ("k", 0), ALONE) == 3  # the one without credit is in no step
    cut, filled = kept.steps(right, 4, ("k", 0), ALONE)
    assert filled == 1 and kept.owed == 0.5 and [answer.round for answer in kept.kept] == [0]
    assert trained_counts(cut[0])[0] == 2 and [window.has_signal for window in cut] == [True, False, False, False]
    again = CarriedAnswers(rule, settings)
    again.load_state_dict(kept.state_dict())
    assert again.take_in(right, 1, ("k", 1), ALONE) == 3
    assert [answer.round for answer in again.kept] == [0, 1, 1, 1]
    cut, filled = again.steps(right, 1, ("k", 1), ALONE)
    assert filled == 1 and len(again.kept) == 2 and again.owed == 1.0  # a second step was full, and the round had one
    with pytest.raises(ConfigError, match="`carry` of the prover's objective"):
        CarriedAnswers(rule, SimpleNamespace(sequences_per_step=0, beta=0.0, temperature=1.0, role="prover"))


def test_carried_answers_that_find_no_room_are_counted():
    """Three a round, room for four and one step of 2 a round: 3 - 2 = 1 waits, then 4 - 2 = 2; with the 3 of round 2
    five wait, of which the oldest goes, and so again in round 3."""
    settings = SimpleNamespace(sequences_per_step=2, beta=0.0, temperature=1.0, role="prover")
    right = batch_of_four((1.0, 0.0, 0.5, 1.0), torch.tensor([True, True, True, True]))
    kept, dropped = CarriedAnswers(Replay(rounds=None, carry=True, capacity=4), settings), []
    for round_ in range(4):
        kept.take_in(right, round_, ("k", round_), ALONE)
        kept.steps(right, 1, ("k", round_), ALONE)
        dropped.append(kept.dropped)
    assert dropped == [0, 0, 1, 1]  # 12 came, 8 were in steps, 2 wait
    assert len(kept.kept) == 2


def test_demonstrations_are_in_the_supervised_term_alone():
    batch = batch_of_four()
    shown = [Kept(0, 0.0, [5, 6], [7, 8, 9], {}), Kept(0, 0.0, [5], [7], {})]
    found = Demonstrations(3, lambda n, seed: [shown] * n).beside(batch, ("k",), ALONE)
    assert found.rows == 8 + 3 * 2 and int(found.tensors["sft_mask"].sum()) == 3 * 4
    assert trained_counts(found) == trained_counts(batch)
    assert len(set(found.sequence_B.tolist())) == 4 + 3
    assert isinstance(found, RoleBatch) and not found.tensors["sft_mask"][:8].any()


def test_each_step_draws_other_demonstrations_and_processes_share_them():
    asked = []

    def make(n, seed):
        asked.append(seed)
        return [[Kept(0, 0.0, [i], [i], {})] for i in range(n)]

    shown = Demonstrations(5, make)
    mine, others = (shown.beside(batch_of_four(), ("k",), one) for one in TWO)
    shown.beside(batch_of_four(), ("l",), TWO[0])
    assert asked[0] == asked[1] != asked[2]
    assert [row.tensors["completion_ids"][8:].max(1).values.tolist() for row in (mine, others)] == [[0, 2, 4], [1, 3]]


UNUSED = SimpleNamespace(beta=0.0, temperature=1.0)


def test_kept_episodes_come_whole_and_leave_after_their_rounds():
    """Episodes 0 (2 moves) and 2 (3 moves) are selected; one process has room for both, or for one whole one."""
    batch = batch_of_four((1.0, 0.0, 1.0, 0.0), torch.tensor([True, False, True, False]))
    kept = EpisodeReplay(Replay(rounds=2), UNUSED)
    found = kept.play(batch, 4, 0, ("k",), ALONE)
    assert found.sequence_B.tolist() == [0, 0, 1, 1, 1] and found.advantages_B.tolist() == [1.0] * 5
    assert found.selected_B is None and trained_counts(found)[:2] == [2, 2 * 1 + 3 * 3]
    none = batch_of_four((0.0,) * 4, torch.zeros(4, dtype=torch.bool))
    again = EpisodeReplay(Replay(rounds=2), UNUSED)
    again.load_state_dict(kept.state_dict())
    one = again.play(none, 1, 1, ("k",), ALONE)
    assert again.kept == kept.kept and one.rows in (2, 3) and len(set(one.sequence_B.tolist())) == 1
    gone = again.play(none, 4, 2, ("k",), ALONE)
    assert not again.kept and not gone.has_signal and trained_counts(gone)[:2] == [0, 0]


def test_processes_share_kept_episodes_and_weights_are_by_token():
    """Tokens: 2 of weight 1 and 9 of weight .25, sum 4.25 over 11: a mean by weight multiplies by 11 / 4.25."""
    batch = batch_of_four((1.0, 0.0, 0.25, 0.0), torch.tensor([True, False, True, False]))
    shares = [EpisodeReplay(Replay(rounds=1, weighted=True), UNUSED).play(batch, 4, 0, ("k",), one) for one in TWO]
    assert [part.rows for part in shares] == [2, 3]
    assert shares[0].advantages_B.tolist() == pytest.approx([11 / 4.25] * 2)
    assert shares[1].advantages_B.tolist() == pytest.approx([0.25 * 11 / 4.25] * 3)


@pytest.mark.parametrize("name", ["expert_iteration", "rest"])
def test_the_gradient_of_kept_episodes_is_that_of_the_mean_written_out(name):
    """A model of one table of logits. Expert iteration: the mean over the three right episodes of the mean log-prob of
    an episode's tokens; ReST: of all their 2 + 9 + 8 = 19 tokens. Through selection, store, window and cuts."""
    torch.manual_seed(0)
    objective, right = make_objective(name), torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    selected = objective.select(right, right)
    batch = batch_of_four(tuple(objective.advantages(right, right).flatten().tolist()), selected.flatten())
    mask = batch.tensors["completion_mask"]
    batch.tensors["completion_ids"] = torch.randint(1, 9, mask.shape) * mask
    kept = EpisodeReplay(objective.replay, UNUSED).play(batch, 4, 0, ("k",), ALONE)
    (window,), filled, dropped = sequence_windows(kept, 8, 1, 3, 5, ALONE)
    sequences, tokens, groups = trained_counts(window)
    table = torch.randn(9, requires_grad=True)
    loss = torch.zeros(())
    for part in micro_batches({"prover": window}, {"prover": 4}, most=4):
        logps = table.log_softmax(0)[part["completion_ids"]]
        inputs = LossInputs(
            logps, logps.detach(), part["advantages"], part["completion_mask"].float(), sequences, tokens, groups,
            sequence_B=part["sequence"],
        )  # fmt: skip
        loss = loss + objective.loss(inputs).loss
    (mine,) = torch.autograd.grad(loss, table)
    ids = [batch.tensors["completion_ids"][batch.sequence_B == e] for e in (0, 2, 3)]
    logs = [table.log_softmax(0)[own[own > 0]] for own in ids]
    plain = (
        -torch.stack([one.mean() for one in logs]).mean() if name == "expert_iteration" else -torch.cat(logs).mean()
    )
    (other,) = torch.autograd.grad(plain, table)
    assert (filled, dropped, sum(map(len, logs))) == (1, 0, 19)
    assert torch.allclose(mine, other, atol=1e-5) and bool(other.abs().max() > 0.01)
