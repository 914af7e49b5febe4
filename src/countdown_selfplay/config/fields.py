"""Fields that JointSelfPlayConfig adds to GRPOConfig: those of the domain and of evaluations, which warm starts and
single-policy runs have too, then those of joint training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..contract.metric import Range as Bounds
from ..contract.metric import read_range
from ..errors import ConfigError
from ..games.settings import Settings
from ..options import Range, json_object, option

_SHARE = Range(0, 1, "a share")


def _mapping(name: str, example: str) -> Any:
    """Return a property that parses the field `name`, a mapping or JSON text, to a dict. `example`: for errors."""
    return property(lambda config: json_object(name, getattr(config, name), example))


@dataclass
class DomainFields:
    """Settings that select the domain and the form of its answers."""

    domain: str = option("countdown", "Domain of the problems: a name in DOMAINS, or my_package.my_module:MyDomain.")
    domain_kwargs: dict | str | None = option(
        None, "Arguments of the domain as JSON. A recipe and the command line take those of Countdown by name."
    )
    answers: Literal["whole", "moves"] = option(
        "whole",
        "How an answer is given: whole, in one completion; moves: one move a completion, after each of which the game "
        "restates the remaining numbers (Countdown: prover_prompt compact_moves or moves).",
    )


@dataclass
class EvaluationFields(DomainFields):
    """Settings of the domain, and the sampling preset of evaluations."""

    eval_preset: Literal["training", "joint_rloo", "cdg"] = option(
        "training",
        "How answers are sampled in every evaluation of the run, and in `eval` of its models. training: as in "
        "training. joint_rloo: temperature 0.6, top-p 0.95, top-k 20, 2048 tokens (Allen and Ståblein). cdg: "
        "temperature 0.95, top-k 10, 8192 tokens (Wang et al.). Answers are judged by the run's rules: leading_minus "
        "is a separate setting.",
    )


@dataclass
class CountdownProblems:
    """Ranges, prompts and rules of Countdown's problems."""

    prover_prompt: str = option("countdown_3to4", "How a problem is put to the prover: a name in PROVER_PROMPTS.")
    conjecturer_prompt: str = option("completion", "Prompt and parser of proposals: a name in CONJECTURER_PROMPTS.")
    operands: list[int] = option(
        factory=lambda: [3, 4], help="Operand counts that are requested and admitted, each as often as it is listed."
    )
    number_low: int = option(1, "Least operand.")
    number_high: int = option(99, "Greatest operand.")
    target_low: int = option(10, "Least target.")
    target_high: int = option(100, "Greatest target.")
    value_high: int = option(99, "Greatest result of a move (answers: moves).")
    answer_rule: Literal["last", "first", "any"] = option(
        "last", "Which answer tag counts, in training and in evaluation."
    )
    use_all: bool = option(
        True, "Every number must be used exactly once. False: at most once (Task Difficulty and Diversity)."
    )
    leading_minus: bool = option(
        False, "Accept one minus sign before a number or a parenthesis (the checker of Allen and Ståblein)."
    )
    score_tagged: float | None = option(
        None,
        "Score of a malformed or empty answer within answer tags, and of tags inside the thinking (the program of "
        "Allen and Ståblein: 0.1). None: 0, as for an answer without tags (Allen and Ståblein's text).",
    )


@dataclass
class CountdownArguments(CountdownProblems):
    """Arguments of the domain `countdown` (`domain_kwargs`); parse them beside JointSelfPlayConfig."""

    admit_unsolvable: bool = option(
        False, "Play proposals that have no solution, with solve rate 0 (Multimodal LLM Self-Play has no such filter)."
    )


@dataclass
class CountdownFields(CountdownProblems, EvaluationFields):
    """Settings of the domain, of Countdown and of evaluations that warm starts and iterated self-play share."""

    @property
    def countdown(self) -> CountdownProblems:
        """Settings of Countdown, which are fields of this class. Raises ConfigError if `domain_kwargs` is set."""
        if self.domain_kwargs:
            raise ConfigError(
                f"`domain_kwargs` ({self.domain_kwargs}) is not read by the domain '{self.domain}', which has "
                "separate fields, such as operands and prover_prompt; set those."
            )
        return self


@dataclass
class RoleFields:
    """Game, sizes of a round, and optimization settings of all roles."""

    game: str | None = option(
        "propose_and_solve",
        "What a round is: a name in GAMES. None: the object that the trainer is given as its game.",
    )
    roles: dict | str | None = option(
        None,
        "Settings of roles, as a mapping in YAML and Python and as JSON here, such as "
        '\'{"prover": {"players": 4}}\': of roles without fields (a guide, a critic), and the rarer ones of prover '
        "and conjecturer. A field (prover_learning_rate) of the same source wins over it.",
    )
    problems_per_round: int = option(
        8,
        "Problems that each prover attempts in a round, num_generations times each, over all processes.",
        Range(1, why="a round needs a problem"),
    )
    proposals_per_round: int = option(
        8,
        "Problems that each conjecturer writes in a round, over all processes: whole groups of its num_generations.",
        Range(0, why="it is not read without a conjecturer (conjecturer_players 0)"),
    )
    steps_per_round: int = option(
        1,
        "Optimizer steps into which the samples of a round are cut; with sequences_per_step the most that a round may "
        "take.",
        Range(1, why="optimizer steps"),
    )
    sequences_per_step: int = option(
        0,
        "Sequences with credit in an optimizer step of each role, over all processes (SGS, appendix C.1: 32), so that "
        "the number of steps in a round follows the data. 0: steps_per_round steps of equally many samples, with and "
        "without credit.",
    )
    max_tokens_per_micro_batch: int = option(
        0,
        "Most tokens, padding among them, that the rows of a micro-batch have beside the bound on their number, "
        "per_device_train_batch_size; where players share a pass (mixed_adapters), of each. 0: no bound.",
        Range(0, why="tokens; 0 is no bound"),
    )
    reset_optimizer: Literal["never", "round"] = option(
        "never",
        "Set moments to 0. round: before the first step of each round, as the program of SGS does.",
    )
    policy_sharing: Literal["full", "lora", "tied"] = option(
        "full",
        "full: one model per role (the papers' setting). lora: one frozen base, one adapter per role. tied: both "
        "roles are the same weights under different prompts.",
    )
    padding_free: bool = option(
        False,
        "Score packed rows without their padding. Needs flash attention (model_init_kwargs: attn_implementation), "
        "which keeps packed rows apart.",
    )
    shared_prefix: Literal["auto", "on", "off"] = option(
        "auto",
        "Read a prompt once for all of its answers, and once a pack a beginning of 32 tokens or more that all prompts "
        "share, in scoring and training passes. auto: on a CPU, where packs are estimated to be cheaper than rows. "
        "on: wherever two rows share either. Needs sdpa or eager attention to all tokens, no dropout, and weights "
        "that a process holds whole.",
        free=True,
    )
    mixed_adapters: Literal["auto", "on", "off"] = option(
        "auto",
        "Under policy_sharing=lora, run micro-batches of several players as one pass, each row through its own "
        "adapter. A pass then holds per_device_train_batch_size rows of each player. auto: on a CPU, over bases of at "
        "most 20 million weights. on: wherever it can be: one process or DDP, plain LoRA without dropout.",
        free=True,
    )
    kl_in: Literal["loss", "reward"] = option(
        "loss",
        "Where the KL to the weights that were passed in enters. loss: a loss term (k3 estimate per token). reward: "
        "subtracted from each sample's reward (sum of log-ratios, as in TRL's RLOO trainer).",
    )
    kl_estimator: Literal["k3", "k1"] = option(
        "k3",
        "Per-token KL of the loss term. k3: exp(d) - d - 1 with d = log ref - log pi. k1: -d (the code of Allen and "
        "Ståblein), whose gradient has mean 0 on-policy: as a loss term it anchors nothing.",
    )
    kl_reduction: Literal["sum", "mean"] = option(
        "sum",
        "sum: as the objective reduces its own loss (rloo: a sum over a completion's tokens). mean: over all trained "
        "tokens of the round (Allen and Ståblein), weaker by the number of tokens of a completion.",
    )
    importance_clip_low: float = option(
        0.5, "Lower clamp of the sequence-level importance weight (Allen and Ståblein: 0.5)."
    )
    importance_clip_high: float = option(
        2.0, "Upper clamp of the sequence-level importance weight (Allen and Ståblein: 2)."
    )
    drop_signalless_gradients: bool = option(
        True,
        "Drop a role's gradients in a round in which all its advantages are 0, so that Adam's momentum, weight decay "
        "and the KL do not move it without a reward signal.",
    )


@dataclass
class CurriculumFields(EvaluationFields, Settings):
    """Settings of the propose-and-solve round (Allen and Ståblein, section 3.2) and of its problems."""

    game_kwargs: dict | str | None = option(
        None,
        "Arguments of a game other than propose_and_solve as JSON, such as '{\"eta\": 0.25}'.",
    )
    proposer: str | None = option(
        None,
        "Where proposals come from: a name in PROPOSERS. None: the conjecturer's policies if there is a conjecturer, "
        "else the round is single-policy RL on the anchor problems.",
    )
    proposer_kwargs: dict | str | None = option(None, "Arguments of the proposer as JSON.")
    guide: str | None = option(
        None,
        "Scorer of proposals in addition to the provers, for the reward sgs: a name in GUIDES (rubric, judge, "
        "none). judge is a separate role: add roles.guide.",
    )
    guide_kwargs: dict | str | None = option(None, "Arguments of the guide as JSON.")
    conjecturer_reward: str = option(
        "tent",
        "Reward of a proposal given its solve rate: a name in CONJECTURER_REWARDS (docs/rewards.md), such as tent, "
        "sgs, adaptive_band, or sum, product and clip for composed ones.",
    )
    conjecturer_reward_kwargs: dict | str | None = option(
        None, 'Arguments of the conjecturer reward as JSON, such as \'{"low": 0.05, "high": 0.85}\'.'
    )
    game_arguments = _mapping("game_kwargs", '{"eta": 0.25}')
    proposer_arguments = _mapping("proposer_kwargs", '{"low": 0.2}')
    guide_arguments = _mapping("guide_kwargs", '{"scale": 8}')
    reward_arguments = _mapping("conjecturer_reward_kwargs", '{"low": 0.05, "high": 0.85}')
    length_penalty: float = option(
        0.0,
        "alpha of the prover's length penalty, -alpha x length / max length (Allen and Ståblein: 0.1).",
        Range(0, why="it is subtracted from the reward"),
    )
    length_penalty_floor: float | None = option(
        None,
        "Least sum of score and length penalty (Allen and Ståblein: 0). None: none, so that a long malformed answer "
        "is below 0.",
    )
    soft_overlong: float = option(
        0.0,
        "Last share of the prover's completion length over which a charge grows from 0 to -1 (SGS: 0.2). 0: none.",
        _SHARE,
    )
    overlong: Literal["add", "replace"] = option(
        "add",
        "Effect of soft_overlong. add: the charge is added to the prover's reward. replace: it replaces the reward of "
        "a charged sample, also of a correct one, for prover and conjecturer and under every objective (SGS): before "
        "the baseline if there is one, otherwise as the credit.",
    )
    overlong_on: Literal["all", "correct"] = option(
        "all",
        "Samples charged. correct: right answers and, of a role without the verifier's bit, "
        "samples with a reward above 0, as the program of SGS does.",
    )
    demonstration_rungs: list[int] | None = option(
        None,
        "Rungs (operand counts) of the demonstrations, each as often as it is listed (2 3 3). None: the domain's own "
        "choice.",
    )
    format_probe: int = option(
        32,
        "First moves (answers: moves) that each prover writes before a fresh run, on problems of the lowest rung: if "
        "none of them is legal the run stops, because it could not learn. 0: no probe.",
        Range(0, why="0 plays no probe"),
        free=True,
    )


@dataclass
class GuardFields:
    """Settings of the collapse guard, whose thresholds are compared with means over the last guard_window rounds."""

    guard: bool = option(True, "Watch the curriculum and roll back to the last healthy checkpoint when it collapses.")
    guard_scope: Literal["run", "conjecturer"] = option(
        "run",
        "Scope of a rollback. run: the whole run, by all rules of the guard. conjecturer: a conjecturer whose "
        "parseable rate in the current round is under 0.5 (or the bound of guard_trips) gets the weights and the "
        "optimizer state of its last healthy checkpoint, everything else continues, any number of times (Allen and "
        "Ståblein); only values that are not finite and what guard_trips names roll the run back.",
    )
    guard_window: int = option(10, "Rounds that are averaged before a threshold is compared.", Range(1, why="rounds"))
    guard_trips: dict | str | None = option(
        None,
        "Ranges in place of those that metrics of a round declare (docs/metrics.md): the guard trips when the mean "
        "leaves one. JSON, such as '{\"prover/entropy\": [0.1, null]}'; null: no bound, [null, null]: not watched.",
    )
    guard_max_rollbacks: int = option(
        3,
        "Rollbacks of the whole run before it stops with an error that names the last trip; those of a conjecturer "
        "alone (guard_scope) are not counted.",
        Range(0, why="0 stops at the first trip"),
        free=True,
    )

    @property
    def trips(self) -> dict[str, Bounds]:
        """Ranges of `guard_trips` by metric. Raises ConfigError if an entry is not a range. The names of the metrics
        are checked later, when the game is known."""
        trips = {}
        for name, bounds in json_object("guard_trips", self.guard_trips, '{"prover/entropy": [0.1, null]}').items():
            try:
                trips[str(name)] = read_range(bounds)
            except ValueError as error:
                raise ConfigError(
                    f"`guard_trips` of '{name}' ({bounds!r}) must be a range [low, high] with low <= high and null "
                    f"for no bound, such as [0.1, null]: {error}."
                ) from None
        return trips


@dataclass
class GenerationFields:
    """Settings of the generation backend; docs/generation.md lists the `vllm_*` fields of TRL that it also reads."""

    generation_backend: Literal["generate", "vllm", "vllm_server"] = option(
        "generate",
        "What samples completions. generate: the trained model itself. vllm: one vLLM engine for all roles in the "
        "training process. vllm_server: one vLLM server for all roles, or one per role.",
    )
    generation_rows: int = option(
        1024,
        "Most rows that one call of generate samples, whole groups of a prompt's as far as they fit; a larger turn "
        "takes several, one cache of keys and values after the other. The samples depend on it.",
        Range(1, why="rows of a call of generate"),
    )
    vllm_engine_kwargs: dict | str | None = option(
        None,
        "Further arguments of vLLM's LLM under generation_backend=vllm, as JSON, such as "
        "'{\"enforce_eager\": true}'. dtype defaults to the precision of the loss: bfloat16 with bf16, else float32.",
    )
    vllm_adapter_dir: str | None = option(
        None,
        "Folder through which adapters reach the vLLM servers, which must see it under the same path. None: "
        "vllm_adapters in output_dir.",
        free=True,
    )
    vllm_request_timeout: float = option(
        600.0, "Seconds that one request to a vLLM server may take.", Range(0, why="seconds", above=True), free=True
    )
    vllm_request_retries: int = option(
        5,
        "How often a request that a vLLM server did not answer, or refused as busy, is sent again.",
        Range(0, why="0 sends it once"),
        free=True,
    )

    @property
    def vllm_patience(self) -> float:
        """Upper bound in seconds on the duration of all attempts at one request to a vLLM server."""
        pauses = 2.0**self.vllm_request_retries * 2 - 2  # 2 s, then twice the one before (generation/server.py)
        return self.vllm_request_timeout * (self.vllm_request_retries + 1) + pauses


@dataclass
class RunFields:
    """Settings of the run folder and of resumption."""

    allow_changed: str | None = option(
        None,
        "Settings that a resume may change, with commas between them (learning_rate,beta); train_dataset, "
        "eval_dataset and reward_funcs are names too. Cadence, trackers, paths and a larger max_steps always may.",
        free=True,
    )
    export_every: int | None = option(
        None,
        "Write each player to <player>/round_<r>/model every this many rounds (Multimodal LLM Self-Play: 1). None: "
        "every save_steps rounds with the proposer tiers, and never without it. 0: never.",
        Range(0, why="rounds; 0 exports none"),
        free=True,
    )
