"""Settings of propose_and_solve: filling of slots, rewards of proposals, selection of training data."""

from dataclasses import dataclass
from typing import Literal

from ..contract.game import LARGEST_REWARD
from ..errors import ConfigError
from ..options import Range, option

_SHARE = Range(0, 1, "a share")
_REWARD = Range(-LARGEST_REWARD, LARGEST_REWARD, "Allen and Ståblein use 0")


@dataclass
class Settings:
    """Arguments of the game propose_and_solve, which are fields of the configuration."""

    anchor_fraction: float = option(
        0.5, "Least share of the prover's problems that come from the data set ('mix' in Allen and Ståblein).", _SHARE
    )
    random_fraction: float = option(
        0.0,
        "Without a conjecturer: share of the prover's problems that the exact solver generates each round, uniform "
        "over the ranges. The control of a self-play run: as many new problems, chosen at random.",
        _SHARE,
    )
    fill: Literal["anchor", "truncate", "keep_all", "none"] = option(
        "anchor",
        "What the provers attempt beside the admitted proposals. anchor: anchor problems in every slot that proposals "
        "leave open. truncate: Allen and Ståblein's bug as a legacy mode: proposals are cut down to a multiple of "
        "truncate_multiple, anchors have their share alone. keep_all: its fix: every proposal is played and the batch "
        "grows with them, up to problems_per_round. none: nothing else, open slots stay empty.",
    )
    truncate_multiple: int | None = option(
        None,
        "The multiple that fill='truncate' cuts to and fill='keep_all' pads to; they need it (Allen and Ståblein: 8).",
        Range(1, why="admitted proposals are cut down to a multiple of it"),
    )
    duplicate_proposals: Literal["reject", "share", "keep"] = option(
        "reject",
        "A proposal that repeats an earlier one of the same round. reject: it earns invalid_reward. share: it earns "
        "what the first one earns. keep: it is a separate problem with its own slot, answers and solve rate (Allen "
        "and Ståblein, which did not look for duplicates).",
    )
    novelty_window: int = option(
        0,
        "Reject proposals whose problem was played in the last this many rounds. 0: do not look back.",
        Range(0, why="rounds to look back"),
    )
    invalid_reward: float = option(
        0.0,
        "Reward of a proposal that is not admitted (Allen and Ståblein: 0), unless the conjecturer reward says what "
        "refused proposals earn (solvability_aware).",
        _REWARD,
    )
    unplayed_reward: float | None = option(
        None,
        "Reward of a proposal that is admitted but gets no slot. None: it has no reward and is excluded from the "
        "baseline, because it was not attempted. 0: as in the code of Allen and Ståblein, where fill=truncate cuts "
        "it off.",
        _REWARD,
    )
    shuffled_rewards: bool = option(
        False,
        "The placebo of a trained conjecturer: what a round's proposals earned is permuted among them before the "
        "conjecturers learn, so that archive, novelty and replay are there and nothing can be learned. Logged rewards "
        "are those that were earned.",
    )
    easy_above: float = option(
        0.8, "A problem with at least this solve rate counts as too easy (tent's upper zero: 0.8).", _SHARE
    )
    solve_rate_over: Literal["attempts", "provers"] = option(
        "attempts",
        "A problem's solve rate: the share of all provers' attempts that are right, or the share of the provers with "
        "a right one (the variant that Multimodal LLM Self-Play rejects).",
    )
    frontier_low: float | None = option(
        None,
        "Conjecturers are trained only on their played problems with at least this solve rate (Multimodal LLM "
        "Self-Play: 0.1). None: no bound.",
        _SHARE,
    )
    frontier_high: float | None = option(
        None, "And with at most this solve rate (Multimodal LLM Self-Play: 0.7). None: no bound.", _SHARE
    )
    prover_trains_on: Literal["all", "nontrivial", "frontier"] = option(
        "all",
        "Problems whose answers provers are trained on. nontrivial: some of all provers' answers are right and some "
        "wrong. frontier: the solve rate lies between frontier_low and frontier_high.",
    )
    samples_per_log: int = option(
        4,
        "Proposals and answers written to samples.jsonl at each log, per role. 0: none.",
        Range(0, why="0 writes none"),
        free=True,
    )

    def __post_init__(self) -> None:
        if self.fill in ("truncate", "keep_all") and self.truncate_multiple is None:
            raise ConfigError(
                f"`fill` ({self.fill}) needs `truncate_multiple`, which divides the round; Allen and Ståblein use 8."
            )
        low, high = self.frontier_low, self.frontier_high
        if low is not None and high is not None and low > high:
            raise ConfigError(f"`frontier_low` ({low}) and `frontier_high` ({high}) must satisfy low <= high.")
        if self.prover_trains_on == "frontier" and low is None and high is None:
            raise ConfigError(
                "`prover_trains_on` (frontier) needs `frontier_low` or `frontier_high`, such as 0.1 and 0.7."
            )
