"""Settings of the game: which problems exist, how proposals are admitted, rewarded and mixed with anchor problems."""

from dataclasses import dataclass, field
from typing import Literal

from .countdown_fields import CountdownFields


@dataclass
class CurriculumFields(CountdownFields):
    """Fields of the propose-and-solve round (Allen and Ståblein, section 3.2) and of the problems it plays with."""

    game_kwargs: dict | str | None = field(
        default=None,
        metadata={"help": "Arguments of a game without fields here, as JSON, such as '{\"eta\": 0.25}'."},
    )
    proposer: str | None = field(
        default=None,
        metadata={
            "help": "Where proposals come from: a name in PROPOSERS. None: the conjecturer's policies if there is a "
            "conjecturer, else the round is single-policy RL on the anchor problems."
        },
    )
    proposer_kwargs: dict | str | None = field(default=None, metadata={"help": "Arguments of the proposer as JSON."})
    guide: str | None = field(
        default=None,
        metadata={
            "help": "Scorer of proposals in addition to the provers, for the reward sgs: a name in GUIDES (rubric, "
            "judge, learned, none). judge is a separate role: add roles.guide."
        },
    )
    guide_kwargs: dict | str | None = field(default=None, metadata={"help": "Arguments of the guide as JSON."})
    conjecturer_reward: str = field(
        default="tent",
        metadata={
            "help": "Reward of a proposal given its solve rate: a name in CONJECTURER_REWARDS (docs/rewards.md), such "
            "as tent, sgs, adaptive_band, or sum, product and clip for composed ones."
        },
    )
    conjecturer_reward_kwargs: dict | str | None = field(
        default=None,
        metadata={"help": 'Arguments of the conjecturer reward as JSON, such as \'{"low": 0.05, "high": 0.85}\'.'},
    )
    length_penalty: float = field(
        default=0.0,
        metadata={
            "help": "alpha of the prover's length penalty, -alpha x length / max length (Allen and Ståblein: 0.1)."
        },
    )
    length_penalty_floor: float | None = field(
        default=None,
        metadata={
            "help": "Least sum of score and length penalty (Allen and Ståblein: 0). None: none, so that a long "
            "malformed answer is below 0."
        },
    )
    soft_overlong: float = field(
        default=0.0,
        metadata={
            "help": "Last share of the prover's completion length over which a charge grows from 0 to -1 (SGS: "
            "0.2). 0: none."
        },
    )
    overlong: Literal["add", "replace"] = field(
        default="add",
        metadata={
            "help": "Effect of soft_overlong. add: the charge is added to the prover's reward. replace: it replaces "
            "the reward of a charged sample, also of a correct one, for prover and conjecturer and under every "
            "objective (SGS): before the baseline if there is one, otherwise as the credit."
        },
    )
    anchor_fraction: float = field(
        default=0.5,
        metadata={
            "help": "Least share of the prover's problems that come from the data set ('mix' in Allen and Ståblein)."
        },
    )
    random_fraction: float = field(
        default=0.0,
        metadata={
            "help": "Without a conjecturer: share of the prover's problems that the exact solver generates each "
            "round, uniform over the ranges. The control of a self-play run: as many new problems, chosen at random."
        },
    )
    fill: Literal["anchor", "truncate", "keep_all", "none"] = field(
        default="anchor",
        metadata={
            "help": "What the provers attempt beside the admitted proposals. anchor: anchor problems in every slot "
            "that proposals leave open. truncate: Allen and Ståblein's bug as a legacy mode: proposals are cut down "
            "to a multiple of truncate_multiple, anchors have their share alone. keep_all: its fix: every proposal is "
            "played and the batch grows with them, up to prover_micro_batches. none: nothing else, open slots stay "
            "empty."
        },
    )
    truncate_multiple: int | None = field(
        default=None,
        metadata={
            "help": "The multiple that fill='truncate' cuts to and fill='keep_all' pads to. None: "
            "prover_micro_batches (Allen and Ståblein: 8)."
        },
    )
    duplicate_proposals: Literal["reject", "share", "keep"] = field(
        default="reject",
        metadata={
            "help": "A proposal that repeats an earlier one of the same round. reject: it earns invalid_reward. "
            "share: it earns what the first one earns. keep: it is a separate problem with its own slot, answers and "
            "solve rate (Allen and Ståblein, which did not look for duplicates)."
        },
    )
    novelty_window: int = field(
        default=0,
        metadata={
            "help": "Reject proposals whose problem was played in the last this many rounds. 0: do not look back."
        },
    )
    invalid_reward: float = field(
        default=0.0,
        metadata={
            "help": "Reward of a proposal that is not admitted (Allen and Ståblein: 0), unless the conjecturer reward "
            "says what refused proposals earn (solvability_aware)."
        },
    )
    unplayed_reward: float | None = field(
        default=None,
        metadata={
            "help": "Reward of a proposal that is admitted but gets no slot. None: it has no reward and is excluded "
            "from the baseline, because it was not attempted. 0: as in the code of Allen and Ståblein, where "
            "fill=truncate cuts it off."
        },
    )
    shuffled_rewards: bool = field(
        default=False,
        metadata={
            "help": "The placebo of a trained conjecturer: what a round's proposals earned is permuted among them "
            "before the conjecturers learn, so that archive, novelty and replay are there and nothing can be "
            "learned. Logged rewards are those that were earned."
        },
    )
    easy_above: float = field(
        default=0.8,
        metadata={"help": "A problem with at least this solve rate counts as too easy (tent's upper zero: 0.8)."},
    )
    hard_below: float = field(
        default=0.05,
        metadata={
            "help": "A problem with less than this solve rate counts as too hard (lower edge of the band: 0.05)."
        },
    )
    admit_unsolvable: bool = field(
        default=False,
        metadata={
            "help": "Play proposals that have no solution, with solve rate 0 (Multimodal LLM Self-Play has no "
            "such filter)."
        },
    )
    solve_rate_over: Literal["attempts", "provers"] = field(
        default="attempts",
        metadata={
            "help": "A problem's solve rate: the share of all provers' attempts that are right, or the share of the "
            "provers with a right one (the variant that Multimodal LLM Self-Play rejects)."
        },
    )
    frontier_low: float | None = field(
        default=None,
        metadata={
            "help": "Conjecturers are trained only on their played problems with at least this solve rate (Multimodal "
            "LLM Self-Play: 0.1). None: no bound."
        },
    )
    frontier_high: float | None = field(
        default=None,
        metadata={"help": "And with at most this solve rate (Multimodal LLM Self-Play: 0.7). None: no bound."},
    )
    prover_trains_on: Literal["all", "nontrivial", "frontier"] = field(
        default="all",
        metadata={
            "help": "Problems whose answers provers are trained on. nontrivial: some of all provers' answers are "
            "right and some wrong. frontier: the solve rate lies between frontier_low and frontier_high."
        },
    )
    demonstration_rungs: list[int] | None = field(
        default=None,
        metadata={
            "help": "Rungs (operand counts) of the demonstrations, each as often as it is listed (2 3 3). None: the "
            "domain's own choice."
        },
    )
    format_probe: int = field(
        default=32,
        metadata={
            "help": "First moves (answers: moves) that each prover writes before a fresh run, on problems of the "
            "lowest rung: if none of them is legal the run stops, because it could not learn. 0: no probe."
        },
    )
    samples_per_log: int = field(
        default=4,
        metadata={"help": "Proposals and answers written to samples.jsonl at each log, per role. 0: none."},
    )
