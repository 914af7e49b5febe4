# Tests: training/learners.py, training/losses.py, training/credit.py, training/replay.py
"""A role's own right answers beside a step's answers: which are kept, which are drawn, and the gradient of the sum."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.contract.round import Rollout, Turn
from countdown_selfplay.distributed.processes import ALONE
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.training.credit import merged, with_right
from countdown_selfplay.training.learners import SUCCESSES, Demonstrations, Learner
from countdown_selfplay.training.losses import RoleLoss
from countdown_selfplay.training.micro_batch import micro_batches
from countdown_selfplay.training.replay import Answer, AnswerBuffer, Kept
from countdown_selfplay.training.window import RoleBatch, sft_tokens, trained_counts

from .test_window import BLANK, tensors_of

ROLE = SimpleNamespace(sequences_per_step=0, beta=0.0, temperature=1.0, role="prover")
COEF, VOCABULARY = 3.0, 12  # a supervised share of 3 / 4


def settings():
    given = {"prover_imitated_per_step": 2, "prover_sft_coef": COEF, "prover_samples_per_round": 8}
    given |= {"prover_num_generations": 4, "prover_sequences_per_step": 8, "prover_micro_batches": 2}
    return JointSelfPlayConfig(
        output_dir="runs/none", per_device_train_batch_size=8, conjecturer_micro_batches=0, use_cpu=True, **given
    ).role("prover")


def learner_with(*answers):
    objective = make_objective("rloo")
    found = Learner(objective, RoleLoss(objective, settings()), successes=AnswerBuffer(SUCCESSES, ROLE))
    found.successes.kept = [Answer(tuple(Kept(0, 0.0, [1], move, {}) for move in moves)) for moves in answers]
    return found


def window():
    """Two problems with two answers each, of 3, 1, 2 and 2 tokens; the token of row i is i + 1."""
    advantages_PG = make_objective("rloo").advantages(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert advantages_PG.tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    return RoleBatch(tensors_of([2, 2, 1, 1], [3, 1, 2, 2]), advantages_PG.flatten(), None, torch.tensor([0, 0, 1, 1]))


def gradient(learner, batch, count, most):
    """Of the whole window in float64, for a policy that draws every token from softmax(logits)."""
    logits = torch.linspace(-1, 1, VOCABULARY, dtype=torch.float64, requires_grad=True)
    learner.loss.normalise_by(*trained_counts(batch), sft_tokens(batch))
    for part in micro_batches({"prover": batch}, {"prover": count}, most=most):
        logps = logits.log_softmax(0)[part["completion_ids"]]
        learner.loss(logps, torch.zeros_like(logps), part).backward()
    return logits.grad, logits.detach().softmax(0)


@pytest.mark.parametrize("count, most", [(1, 7), (3, 4), (4, 3)])
def test_the_gradient_is_rloos_plus_that_of_the_mean_token_of_own_right_answers(count, most):
    """By hand: d log softmax(l)_t / dl = e_t - p. RLOO: minus the mean over 4 answers of A times that, summed over an
    answer's tokens; the supervised term: minus its mean over the 5 tokens of the two imitated answers, one of which
    has two moves. Nothing depends on how rows are cut into micro-batches."""
    learner = learner_with([[7, 8]], [[9], [10, 10]])
    batch = learner.beside(window(), 2, ("k",), ALONE)
    found, p = gradient(learner, batch, count, most)
    unit = torch.eye(VOCABULARY, dtype=torch.float64)
    answers = [(1.0, [1] * 3), (-1.0, [2]), (-1.0, [3] * 2), (1.0, [4] * 2)]
    expected = -sum(credit * (unit[token] - p) for credit, tokens in answers for token in tokens) / 4
    expected -= COEF * sum(unit[token] - p for token in (7, 8, 9, 10, 10)) / 5
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_imitated_rows_are_in_no_mean_of_the_objective():
    batch = learner_with([[7, 8]], [[9], [10, 10]]).beside(window(), 2, ("k",), ALONE)
    assert trained_counts(batch) == [4.0, 8.0, 2.0] and sft_tokens(batch) == 5


def test_rows_that_no_policy_sampled_are_in_no_term_that_reads_a_sampler_or_a_reference():
    """A KL to the start beside demonstrations, and kept log-probs of several steps: a demonstration has neither. KL by
    k3 of the window's own 8 tokens, of which each differs by log 2 from the reference: 2 - 1 - log 2 a token."""
    batch = window()
    mask = batch.tensors["completion_mask"]
    current = -1.0
    batch.tensors["ref_per_token_logps"] = torch.full(mask.shape, current + math.log(2.0))
    for name in ("old_per_token_logps", "sampling_per_token_logps"):
        batch.tensors[name] = torch.full(mask.shape, current)
    shown = Demonstrations(2, lambda count, seed: [[Kept(0, 0.0, [1], [5, 6, 7], {})]] * count)
    objective = make_objective("rloo")
    learner = Learner(objective, RoleLoss(objective, replace(settings(), beta=1.0)), demonstrations=shown)
    found = learner.beside(batch, 0, ("k",), ALONE)
    assert found.rows == 6 and {"ref_per_token_logps", "old_per_token_logps"} <= set(found.tensors)
    assert found.tensors["old_per_token_logps"][4:].isnan().all()
    learner.loss.normalise_by(*trained_counts(found), sft_tokens(found))
    for part in micro_batches({"prover": found}, {"prover": 2}, most=4):
        learner.loss(
            torch.full(part["completion_ids"].shape, current),
            torch.zeros(()).expand(part["completion_ids"].shape),
            part,
        )
    assert float(learner.loss.pop_sums()["kl"]) == pytest.approx(1 - math.log(2.0))


def test_a_step_draws_other_answers_each_time_and_all_where_there_are_fewer():
    learner = learner_with(*([[i]] for i in range(5, 11)))

    def drawn(count, key):
        batch = learner.beside(window(), count, (key,), ALONE)
        return batch.tensors["completion_ids"][batch.tensors["sft_mask"].bool()].tolist() if batch.rows > 4 else []

    assert drawn(3, "k") == drawn(3, "k") != drawn(3, "l") and len(set(drawn(3, "k"))) == 3
    assert sorted(drawn(9, "k")) == [5, 6, 7, 8, 9, 10]
    learner.successes.kept = []
    assert drawn(3, "k") == []


def test_two_processes_share_what_one_draws():
    learner = learner_with(*([[i]] for i in range(5, 11)))
    ranks = [learner.beside(window(), 4, ("k",), SimpleNamespace(rank=rank, world=2)) for rank in (0, 1)]
    whole = learner.beside(window(), 4, ("k",), ALONE)
    own = [batch.tensors["completion_ids"][4:, 0].tolist() for batch in ranks]
    assert [len(one) for one in own] == [2, 2]
    assert sorted(own[0] + own[1]) == sorted(whole.tensors["completion_ids"][4:, 0].tolist())


def verdicts(*right):
    return [SimpleNamespace(correct=bool(one), score=float(one), reason="") for one in right]


def test_right_answers_are_kept_whatever_the_objective_credits_and_equal_ones_once():
    """Six answers to one problem, four of them right and two of those equal: two different ones are kept. All have
    credit 0, as a group that is solved whole has."""
    tensors = tensors_of([1] * 6, [1] * 6)
    tensors["prompt_ids"][:] = 1
    tensors["completion_ids"][:, 0] = torch.tensor([5, 5, 6, 7, 8, 9])
    rollout = Rollout("prover", [{}], [""] * 6, 6, verdicts(1, 1, 0, 1, 0, 1), tensors=tensors)
    turn = Turn(rollout, torch.zeros(6), selected_B=torch.zeros(6, dtype=torch.bool), group=6)
    kept = AnswerBuffer(SUCCESSES, ROLE)
    assert kept.take_in(merged([with_right(turn)], BLANK), 0, ("k",), ALONE) == 2 and kept.owed == 0
    found = {answer.rows[0].completion[0] for answer in kept.kept}
    assert len(found) == 2 and found <= {5, 7, 9}
    again = AnswerBuffer(SUCCESSES, ROLE)
    again.load_state_dict(kept.state_dict())
    assert again.kept == kept.kept


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"prover_sft_coef": 0.0}, r"`prover_imitated_per_step` \(2\) has no effect with `prover_sft_coef` 0"),
        ({"prover_imitated_per_step": -1}, "must be at least 0 answers a step"),
        ({"prover_objective": "expert_iteration"}, "keeps right answers beside `prover_objective`, which imitates"),
        (
            {
                "prover_imitated_per_step": 0,
                "prover_sft_coef": 0.0,
                "conjecturer_imitated_per_step": 2,
                "conjecturer_sft_coef": 1.0,
            },
            "needs the verifier's bit, which the conjecturer does not have",
        ),
        (
            {
                "prover_imitated_per_step": 0,
                "prover_sft_coef": 0.0,
                "conjecturer_demonstrations_per_step": 2,
                "conjecturer_sft_coef": 1.0,
            },
            "are right answers, and the conjecturer gives none",
        ),
        ({"prover_micro_batches": 1}, "makes 10 answers in a step of the prover, whose micro-batches hold 8.*to 2"),
    ],
)
def test_settings_that_have_no_effect_or_no_room_are_refused(changes, said):
    given = {"prover_imitated_per_step": 2, "prover_sft_coef": 1.0, "prover_samples_per_round": 8}
    given |= {"prover_num_generations": 4, "prover_sequences_per_step": 8, "prover_micro_batches": 2}
    with pytest.raises(ConfigError, match=said):
        JointSelfPlayConfig(output_dir="runs/none", per_device_train_batch_size=8, use_cpu=True, **given | changes)


def test_the_cure_of_a_round_that_fills_its_micro_batches_is_accepted():
    """2 x 8 own answers and 2 imitated ones are 18 rows, or 3 micro-batches; with these alone a round would have 24
    answers of its own."""
    given = {"prover_imitated_per_step": 2, "prover_sft_coef": 1.0, "prover_num_generations": 4}
    given |= {"per_device_train_batch_size": 8, "use_cpu": True, "output_dir": "runs/none"}
    cure = "set prover_micro_batches to 3, prover_samples_per_round to 16 and prover_sequences_per_step to 16"
    with pytest.raises(ConfigError, match=f"makes 18 answers in a step .* {cure}"):
        JointSelfPlayConfig(**given, prover_micro_batches=2)
    more = dict(prover_micro_batches=3, prover_samples_per_round=16, prover_sequences_per_step=16)
    JointSelfPlayConfig(**given, **more)
