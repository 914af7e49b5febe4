"""What the frame logs for every game. It stands here and not in training/, for a report reads it without torch."""

from __future__ import annotations

from math import inf

from .metric import Metric

ROLE = (
    Metric(
        "{role}/loss",
        "The role's part of the loss; the logged `loss` is the sum. No trend is expected.",
        finite=True,
    ),
    Metric(
        "grad_norm/{role}",
        "The role's gradient norm before its own clip; it should be steady. The logged `grad_norm` is over all roles "
        "together; the clip does not use it.",
        finite=True,
    ),
    Metric("lr/{role}", "Learning rate used in the round. The logged `learning_rate` is the first group's."),
    Metric(
        "{role}/entropy",
        "Mean entropy of the policy over the tokens that are trained on, nats per token; absent in a round without "
        "any. It falls slowly. Near 0: the policy is deterministic and explores no more. `guard_min_entropy` makes "
        "the guard watch it.",
        healthy=(0.05, inf),
        cure="Raise `entropy_coef`, or lower the learning rate.",
    ),
    Metric(
        "{role}/kl",
        "Mean k3 estimate of KL(policy to reference) per token, nats; absent with beta 0. Grows fast: learning rate "
        "too high or beta too low.",
    ),
    Metric(
        "{role}/sft_loss",
        "Mean -log-prob per token of the samples in the supervised term (`sft_coef`), at the role's temperature; "
        "absent at 0. It falls.",
    ),
    Metric(
        "{role}/signal",
        "1 if any of the role's advantages differs from 0. 0: its gradients were dropped in this round "
        "(`drop_signalless_gradients`).",
    ),
    Metric(
        "{role}/trained_samples",
        "Samples that the objective selected, over all processes: the role's samples of a round, fewer for "
        "`reinforce_half`, `expert_iteration` and `rest`. 0: the role has nothing to learn from in this round.",
    ),
    Metric(
        "{role}/steps",
        "Optimizer steps that the role took in the round under `sequences_per_step`: trained sequences over their "
        "number in a step, rounded up, and `steps_per_round` at most; absent without that setting.",
    ),
    Metric(
        "{role}/new_answers",
        "Right answers of the round that expert iteration with `reuse` keeps.",
    ),
    Metric(
        "{role}/owed_steps",
        "Postponed optimizer steps of kept answers: a remainder, or those beyond `steps_per_round`.",
    ),
    Metric("{role}/moves", "Mean number of moves of an episode, where answers are given in moves."),
    Metric(
        "{role}/dropped_rows",
        "Samples with credit that the role's micro-batches had no room for, over all processes: a seeded subset was "
        "trained on, weighted so that the policy term's gradient is that of all in expectation; entropy and KL are "
        "those of the subset. Above 0: raise the role's micro-batches; absent where all fitted.",
    ),
    Metric(
        "{role}/replay_samples",
        "Samples that are kept for training (`expert_iteration`, `rest`). Shrinks to 0: nothing new is solved.",
    ),
    Metric(
        "{role}/token_accuracy",
        "Share of the trained tokens that are the policy's likeliest ones (`expert_iteration`, `rest`; Multimodal LLM "
        "Self-Play). It rises. Near 1 with a falling `<role>/entropy`: the role imitates answers that it would write "
        "anyway.",
    ),
    Metric(
        "{role}/importance_weight",
        "Mean raw sequence weight between current and sampling policy; 1.000 when the trainer itself samples and a "
        "round is one step. Far from 1: sampler and trainer disagree, or `steps_per_round` is too large for the "
        "learning rate.",
    ),
    Metric(
        "{role}/importance_clamped",
        "Share of sequence weights (`cispo`: of trained tokens) outside the clamp; 0 when the trainer itself samples "
        "and a round is one step. High: most gradients are biased by the clamp.",
        healthy=(-inf, 0.05),
        cure="Lower `steps_per_round` or the learning rate.",
    ),
    Metric(
        "{role}/clipped_rate",
        "Share of trained tokens that GRPO's clip cuts (`grpo`, `dr_grpo`); 0 when the trainer itself samples and a "
        "round is one step. High: sampler and trainer disagree, or `steps_per_round` is too large for the learning "
        "rate.",
    ),
    Metric(
        "{role}/sampler_logp_difference",
        "Mean over the trained tokens of |log-prob of the trained model - log-prob of the sampler|, nats, before any "
        "correction; absent when the trainer itself samples, and for objectives that train on kept samples. Under "
        "1e-4 in float32 and under 0.05 in bf16. Grows from round to round: the sampler does not get the new weights.",
    ),
    Metric(
        "{role}/sampler_logp_difference_max",
        "The largest of these differences in the round; 1e-5 in float32. Large with a small mean: single tokens, most "
        "often where `top_p` or `top_k` cuts.",
    ),
    Metric(
        "{role}/sampler_weight",
        "Mean raw sequence weight between the trained model and the sampler, prod of pi / mu over the completion; "
        "1.00. Far from 1: the correction does much; see [Generation](generation.md).",
    ),
    Metric(
        "{role}/entropy_coef",
        "Entropy coefficient after the round (`use_adaptive_entropy`); small. At `entropy_coef_max`: the "
        "target is not reached.",
    ),
)
"""Optimisation, for each player."""

TEXTS = (
    Metric(
        "{role}/truncated_rate",
        "Share of texts cut at the token limit: as many tokens as `<role>_max_completion_length`, the last of them no "
        "end token, and no stop string in the text. Cut answers count as wrong.",
        healthy=(-inf, 0.01),
        cure="Raise `max_completion_length`, or start from a model that ends its texts.",
    ),
    Metric(
        "{role}/completion_length",
        "Mean number of tokens of a text, its end token included, the padding behind a stop string not.",
    ),
    Metric("{role}/completion_length_max", "The largest of these numbers."),
    Metric("round/generations", "Completions of all roles so far: the x-axis of a scaling curve."),
    Metric("round/tokens", "Completion tokens of all roles so far."),
    Metric(
        "round/cumulative_solve_rate",
        "Share of the data set's problems with at least one correct answer so far (SGS); absent for streamed "
        "data sets. Flat: the remaining problems are out of reach.",
    ),
)
"""What was sampled."""

FRAME_METRICS = (*ROLE, *TEXTS)
"""Known at the end of each round: the guard sees them."""

TIME = (
    Metric("time/round", "Seconds to play a round: both rollouts, verifier, solver, bookkeeping."),
    Metric("time/rollout_{role}", "Seconds of sampling (and reference log-probs) of one role."),
    Metric("time/push_{role}", "Seconds to hand the role's weights to vLLM, in rounds that did."),
    Metric("step_time", "Seconds of the whole optimizer step, the round included."),
)
"""Each is the mean over the rounds since the last training log."""

OTHERS = (
    Metric(
        "{role}/rewards/<function>", "Mean of one reward function over the samples that it scored; for the prover."
    ),
    Metric(
        "{role}/weights_pushed",
        "Share of the role's turns before which new weights went to vLLM: 1; 0 for the second role under `tied`, and "
        "for a role that does not move under `lora`. 0 for a role that learns: its samples are stale.",
    ),
    Metric(
        "eval_pass@<k>/rung_<rung>",
        "`eval_pass@<k>` of the held-out problems of one rung (Countdown: with so many numbers), for k = 1 and the "
        "greatest k; of domains whose problems are of several rungs.",
    ),
    Metric(
        "eval_pass@<k>/ladder",
        "The mean of `eval_pass@<k>/rung_<rung>` over rungs 4 to 10, or those of them that there are, each with "
        "equal weight.",
    ),
    Metric(
        "eval_pass@<k>",
        "The unbiased estimate 1 - C(n-c, k) / C(n, k), averaged over the held-out problems, with n = "
        "`num_generations_eval` answers per problem and c of them accepted by the verifier.",
    ),
    Metric("eval_several_answers_rate", "Share of these answers with more than one answer tag."),
    Metric("eval_truncated_rate", "Share of these answers cut at the token limit."),
    Metric("eval_problems", "Number of held-out problems."),
)
"""Of samplers, reward functions and evaluations."""

LOG_METRICS = (*TIME, *OTHERS)
"""Known only when a log is written: the guard does not see them."""
