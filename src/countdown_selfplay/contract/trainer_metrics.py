"""Metrics that every game logs. The module imports no torch, because reports read it."""

from __future__ import annotations

from math import inf

from .metric import HIDDEN, SHARE, Metric, Panel


def _optimisation(title: str, view: tuple[float, ...] = (0,)) -> Panel:
    return Panel(title, view, "Optimisation")


_KEPT = _optimisation("Kept samples")
_STEPS = _optimisation("Optimizer steps in a round")
_SECONDS = Panel("Seconds per round", (0,), "Texts and time")

# Tables: name, help, and what else is declared.
# fmt: off
ROLE = (
    Metric("{role}/loss", "The role's part of the loss; the logged `loss` is the sum. No trend is expected.",
           finite=True, panel=_optimisation("Loss", ())),
    Metric("grad_norm/{role}",
           "The role's gradient norm before its own clip; it should be steady. The logged `grad_norm` is over all "
           "roles together; the clip does not use it.",
           finite=True, panel=_optimisation("Gradient norm before the clip")),
    Metric("lr/{role}", "Learning rate used in the round. The logged `learning_rate` is the first group's.",
           panel=_optimisation("Learning rate")),
    Metric("{role}/entropy",
           "Mean entropy of the policy over the tokens that are trained on, nats per token; absent in a round "
           "without any. It falls slowly. Near 0: the policy is deterministic and explores no more. `guard_trips` "
           "makes the guard watch it.",
           healthy=(0.05, inf), cure="Raise `entropy_coef`, or lower the learning rate.",
           panel=_optimisation("Entropy (nats per token)"), subject="entropy of {role} (nats per token)"),
    Metric("{role}/kl",
           "Mean k3 estimate of KL(policy to reference) per token, nats; absent with beta 0. Grows fast: learning "
           "rate too high or beta too low.",
           panel=_optimisation("KL to the start (nats per token)")),
    Metric("{role}/sft_loss",
           "Mean -log-prob per token of the samples in the supervised term (`sft_coef`), at the role's temperature; "
           "absent at 0. It falls.",
           panel=_optimisation("Supervised loss (nats per token)")),
    Metric("{role}/signal",
           "Share of the round's optimizer steps in which any of the role's advantages differs from 0. In the others "
           "its gradients were dropped (`drop_signalless_gradients`).",
           panel=HIDDEN, subject="share of optimizer steps with a signal for {role}"),
    Metric("{role}/trained_samples",
           "Samples that the objective selected, over all processes: the role's samples of a round, fewer for "
           "`reinforce_half`, `expert_iteration` and `rest`. 0: the role has nothing to learn from in this round.",
           panel=_optimisation("Samples trained on")),
    Metric("{role}/steps",
           "Optimizer steps that the role took in the round under `sequences_per_step`: trained sequences over their "
           "number in a step, rounded up, and `steps_per_round` at most; absent without that setting.",
           panel=_STEPS.of("taken by {role}")),
    Metric("{role}/new_answers",
           "Answers of the round that wait for optimizer steps: right ones that expert iteration with `reuse` keeps, "
           "and those with credit under `carry` of `reinforce_half`.",
           panel=_KEPT.of("new answers of {role}")),
    Metric("{role}/owed_steps",
           "Postponed optimizer steps of kept answers: a remainder, or those beyond `steps_per_round`.",
           panel=_STEPS.of("postponed, {role}")),
    Metric("{role}/moves", "Mean number of moves of an episode, where answers are given in moves.",
           panel=Panel("Moves of an episode", (0,), "Texts and time")),
    Metric("{role}/dropped_answers",
           "Under `carry` of `reinforce_half`: the oldest answers beyond 8,192 that wait, which are in no step; "
           "raise steps_per_round. Absent where none was dropped.",
           panel=_optimisation("Answers that were in no step")),
    Metric("{role}/replay_samples",
           "Samples that are kept for training (`expert_iteration`, `rest`). Shrinks to 0: nothing new is solved.",
           panel=_KEPT.of("samples of {role}")),
    Metric("{role}/token_accuracy",
           "Share of the trained tokens that are the policy's likeliest ones (`expert_iteration`, `rest`; Multimodal "
           "LLM Self-Play). It rises. Near 1 with a falling `<role>/entropy`: the role imitates answers that it "
           "would write anyway.",
           panel=_optimisation("Trained tokens that are the likeliest", SHARE)),
    Metric("{role}/importance_weight",
           "Mean raw sequence weight between current and sampling policy; 1.000 when the trainer itself samples and "
           "a round is one step. Far from 1: sampler and trainer disagree, or `steps_per_round` is too large for the "
           "learning rate.",
           panel=HIDDEN),
    Metric("{role}/importance_clamped",
           "Share of sequence weights (`cispo`: of trained tokens) outside the clamp; 0 when the trainer itself "
           "samples and a round is one step. High: most gradients are biased by the clamp.",
           healthy=(-inf, 0.05),
           cure="Where a round is one step this is numerics, not staleness: leave `vllm_importance_sampling_mode` "
                "unset, or give the engine the trainer's precision. Else lower `steps_per_round` or the learning "
                "rate.",
           panel=_optimisation("Importance weights outside the clamp", (0, 0.1)),
           subject="share of importance weights of {role} outside the clamp"),
    Metric("{role}/clipped_rate",
           "Share of trained tokens that GRPO's clip cuts (`grpo`, `dr_grpo`); 0 when the trainer itself samples and "
           "a round is one step. High: sampler and trainer disagree, or `steps_per_round` is too large for the "
           "learning rate.",
           panel=_optimisation("Trained tokens that the clip cuts", (0, 0.1))),
    Metric("{role}/sampler_logp_difference",
           "Mean over the trained tokens of |log-prob of the trained model - log-prob of the sampler|, nats, before "
           "any correction; absent when the trainer itself samples, and for objectives that train on kept samples. "
           "Under 1e-4 in float32 and under 0.05 in bf16. Grows from round to round: the sampler does not get the "
           "new weights.",
           panel=_optimisation("Log-prob difference to the sampler (nats)")),
    Metric("{role}/sampler_logp_difference_max",
           "The largest of these differences in the round; 1e-5 in float32. Large with a small mean: single tokens, "
           "most often where `top_p` or `top_k` cuts.",
           panel=HIDDEN),
    Metric("{role}/sampler_unscored",
           "Share of the trained tokens that the sampler gave no log-prob (NaN); 0. Such a token gets ratio 1, as if "
           "sampler and trainer agreed on it.",
           healthy=(-inf, 0.0), cure="Mend the engine: see its log for the precision or the kernel that overflows.",
           panel=HIDDEN, subject="share of the tokens of {role} that the sampler did not score"),
    Metric("{role}/sampler_weight",
           "Mean raw sequence weight between the trained model and the sampler, prod of pi / mu over the completion; "
           "1.00. Far from 1: the correction does much; see [Generation](generation.md)."),
    Metric("{role}/entropy_coef",
           "Entropy coefficient after the round (`use_adaptive_entropy`); small. At `entropy_coef_max`: the target "
           "is not reached.",
           panel=_optimisation("Entropy coefficient")),
)

TEXTS = (
    Metric("{role}/truncated_rate",
           "Share of texts cut at the token limit: as many tokens as `<role>_max_completion_length`, the last of "
           "them no end token, and no stop string in the text. Cut answers count as wrong.",
           healthy=(-inf, 0.01), cure="Raise `max_completion_length`, or start from a model that ends its texts.",
           panel=Panel("Texts cut at the token limit", (0, 0.1), "Texts and time"),
           subject="share of {role}'s texts cut at the token limit"),
    Metric("{role}/completion_length",
           "Mean number of tokens of a text, its end token included, the padding behind a stop string not.",
           panel=Panel("Tokens per text", (0,), "Texts and time")),
    Metric("{role}/completion_length_max", "The largest of these numbers.",
           panel=HIDDEN),
    Metric("round/generations", "Completions of all roles so far: the x-axis of a scaling curve.",
           panel=HIDDEN),
    Metric("round/tokens", "Completion tokens of all roles so far.",
           panel=HIDDEN),
    Metric("round/cumulative_solve_rate",
           "Share of the data set's problems with at least one correct answer so far (SGS). Flat: the remaining "
           "problems are out of reach.",
           panel=Panel("Problems of the data set solved so far", (0,), "Prover", "share")),
)

TRAINER_METRICS = (*ROLE, *TEXTS)
"""Metrics that are known at the end of each round, so that the guard sees them."""

TIME = (
    Metric("time/round", "Seconds to play a round: both rollouts, verifier, solver, bookkeeping.",
           panel=_SECONDS.of("playing it")),
    Metric("time/rollout_{role}", "Seconds of sampling (and reference log-probs) of one role.",
           panel=_SECONDS.of("sampling, {role}")),
    Metric("time/push_{role}", "Seconds to hand the role's weights to vLLM, in rounds that did.",
           panel=_SECONDS.of("weights to vLLM, {role}")),
    Metric("step_time", "Seconds of the whole step of the Trainer: a round and its optimizer steps.",
           panel=Panel("Seconds per Trainer step", (0,), "Texts and time", "whole step")),
)
"""Metrics of durations, each the mean over the rounds since the last training log."""

OTHERS = (
    Metric("{role}/rewards/<function>", "Mean of one reward function over the samples that it scored; for the prover.",
           panel=Panel("Reward functions", (), "Prover", "<function>, {role}")),
    Metric("{role}/weights_pushed",
           "Share of the role's turns before which new weights went to vLLM: 1; 0 for the second role under `tied`, "
           "and for a role that does not move under `lora`. 0 for a role that learns: its samples are stale.",
           panel=Panel("Turns with new weights in vLLM", SHARE, "Texts and time")),
    Metric("eval_pass@<k>/<axis>_<value>",
           "`eval_pass@<k>` of the held-out problems of one value of an axis (Countdown: `rung_4`, four numbers; "
           "`target_13-25`, a target in this band), for k = 1 and the greatest k; of axes with several values.",
           panel=HIDDEN),
    Metric("eval_pass@<k>/ladder",
           "The mean of `eval_pass@<k>/rung_<value>` over rungs 4 to 10, or those of them that there are, each with "
           "equal weight.",
           panel=Panel("pass@k in training, mean over the ladder", SHARE, "Prover", "pass@<k>")),
    Metric("eval_pass@<k>",
           "The unbiased estimate 1 - C(n-c, k) / C(n, k), averaged over the held-out problems, with n = "
           "`num_generations_eval` answers per problem and c of them accepted by the verifier.",
           panel=Panel("pass@k in training", SHARE, "Prover", "pass@<k>")),
    Metric("eval_several_answers_rate", "Share of these answers with more than one answer tag.",
           panel=HIDDEN),
    Metric("eval_truncated_rate", "Share of these answers cut at the token limit.",
           panel=HIDDEN),
    Metric("eval_problems", "Number of held-out problems.",
           panel=HIDDEN),
)
# fmt: on

LOG_METRICS = (*TIME, *OTHERS)
"""Metrics that are known when a log is written; the guard does not see them."""
