"""Somebody proposes, provers solve, both learn: the round of Allen and Ståblein, section 3.2. Multimodal LLM
Self-Play, SGS and Task Difficulty and Diversity are other settings, proposers and guides of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import torch

from ..contract.game import Guide, Outcome, Proposal, Proposer, solve_rates
from ..contract.round import Rollout, Round, RoundResult
from ..contract.stateful import Stateful
from ..curriculum.admission import Admission, admit, dealt, slots_filled
from ..curriculum.archive import Archive
from ..guides import checked_scores, make_guide
from ..proposers import make_proposer
from ..proposers.policies import Policies
from ..rewards import RewardContext, checked_rewards, make_conjecturer_reward, refused_reward
from .filters import frontier_of, frontier_share, in_frontier, is_starved, unsolvable_share, wanted_answers
from .health import examples, proposal_health, prover_health, solve_rate_health
from .metrics import METRICS
from .placebo import shuffled
from .rungs import rung_health


@dataclass(frozen=True)
class Settings:
    """How a round is filled and refused proposals are paid; the fields of JointSelfPlayConfig of the same names."""

    anchor_fraction: float = 0.5
    random_fraction: float = 0.0
    fill: str = "anchor"
    truncate_multiple: int = 1
    duplicate_proposals: str = "reject"
    novelty_window: int = 0
    invalid_reward: float = 0.0
    unplayed_reward: float | None = None
    easy_above: float = 0.8
    hard_below: float = 0.05
    samples_per_log: int = 4
    solve_rate_over: str = "attempts"
    frontier_low: float | None = None
    frontier_high: float | None = None
    prover_trains_on: str = "all"
    shuffled_rewards: bool = False


class ProposeAndSolve:
    """Propose, admit, fill, solve, reward, credit. Without a proposer it is plain RL on the anchor problems.

    Its state: the archive of what was played, and that of its proposer and guide.
    """

    roles: ClassVar = {
        "prover": "solves problems",
        "conjecturer": "writes problems; none: a symbolic proposer, or anchors alone",
        "guide": "reviews problems for the guide `judge`; none: another guide, or no guide",
    }
    optional_roles = ("conjecturer", "guide")
    metrics = METRICS

    def __init__(
        self,
        proposer: Proposer | None = None,
        reward: Callable[..., Any] | str = "tent",
        guide: Guide | None = None,
        settings: Settings | None = None,
    ) -> None:
        """proposer: None for the conjecturer's policies, if the run has a conjecturer. reward: `(solve_rate_P, ctx) ->
        reward_P`, or a name in CONJECTURER_REWARDS."""
        self.proposer: Proposer | None = proposer
        self.reward = make_conjecturer_reward(reward) if isinstance(reward, str) else reward
        self.guide, self.settings, self.archive = guide, settings or Settings(), Archive()

    def play(self, round: Round, anchors: Sequence[Any]) -> RoundResult:
        domain, rules, provers = round.domain, self.settings, round.players("prover")
        if self.proposer is None and round.players("conjecturer"):
            self.proposer = Policies()
        slots = min(round.room(prover) for prover in provers)
        metrics: dict[str, Any] = {}
        choose = getattr(self.proposer, "targets", None)
        targets = None if choose is None else list(choose(round, anchors))

        # Propose and admit: the processes examine their own proposals and decide together on all of them.
        proposals = self.proposer.propose(round, anchors) if self.proposer else []
        admission = admit(
            domain, proposals, self.archive, round.held_out, rules.novelty_window, rules.duplicate_proposals
        )
        if proposals:
            admission = dealt(admission, proposals, domain.asks, round.index)

        # Fill: fixed slots, anchors pad whatever the proposer left open, unless `fill` says otherwise.
        kept, fixed, admitted = 0, slots, len(admission.problems)
        if targets is not None:
            kept = min(admitted, max(slots - len(targets), 0))
            fixed = slots - kept
        elif self.proposer:
            kept, fixed = slots_filled(admitted, slots, rules.anchor_fraction, rules.fill, rules.truncate_multiple)
        # Anchors that the provers have mastered come last (a stable order; False is less than True).
        limit = round.solved_limit(provers[0])
        mastered = frozenset() if limit is None else self.archive.mastered(limit)
        anchors = sorted(anchors, key=lambda problem: domain.key(problem) in mastered) if mastered else anchors
        if targets is not None:  # there is nothing to pad: what was mastered is played no more
            anchors = [problem for problem in targets if domain.key(problem) not in mastered] or targets
        randoms = self._random_problems(round, slots)
        metrics |= {"round/random_slots": len(randoms)} if randoms else {}
        problems = [*admission.problems[:kept], *randoms, *anchors[: fixed - len(randoms)]]
        keys = [domain.key(problem) for problem in problems]

        # Solve: every prover attempts every problem; the solve rate comes from the verifier's bit, never a reward.
        own = round.share(problems)
        rows = [domain.prove_row(problem) for problem in own]
        answers = [round.sample(prover, rows, problems=own) for prover in provers]
        judged = [round.gather(_judged(found)) for found in answers]
        correct_MPG = np.asarray([[bits for bits, _ in one] for one in judged], dtype=float)
        correct_MPG = correct_MPG.reshape(len(provers), len(problems), answers[0].n)  # also without a problem
        solve_rate_P = solve_rates(correct_MPG, rules.solve_rate_over)

        # Reward: a played proposal earns by its solve rate, a refused one what the reward says of its reason, or else
        # the invalid reward; one that was admitted but found no slot was not measured: without an `unplayed_reward` it
        # has no reward and takes no part in a baseline.
        played = [index is not None and index < kept for index in admission.problem_of]
        problem_of = [index if got else None for index, got in zip(admission.problem_of, played, strict=True)]
        right = [[text for _, text in one if text is not None] for one in zip(*judged, strict=True)]
        solutions = [texts[0] if texts else None for texts in right]
        unknown_N = np.full(len(proposals), np.nan)
        over = rules.solve_rate_over
        outcome = Outcome(proposals, unknown_N, problems, problem_of, correct_MPG, solutions, over)
        reward_N, found_out = self._rewards(round, admission, outcome, kept)
        outcome, metrics = replace(outcome, rewards_N=reward_N), metrics | found_out
        if proposals:
            metrics |= proposal_health(round, proposals, admission.reasons, played, reward_N)
            metrics |= unsolvable_share(domain, proposals, played)

        # Credit: advantages per player, over whole groups of this process.
        frontier = frontier_of(rules.frontier_low, rules.frontier_high)
        wanted = wanted_answers(rules.prover_trains_on, frontier, solve_rate_P, correct_MPG)
        if mastered:
            wanted = [
                key not in mastered and good for key, good in zip(keys, wanted or [True] * len(keys), strict=True)
            ]
        kept_B = wanted and torch.tensor([good for good in round.share(wanted) for _ in range(answers[0].n)])
        turns = [round.credit(found, kept_B=kept_B) for found in answers]
        if self.proposer:
            inside = None if frontier is None else in_frontier(frontier, problem_of, solve_rate_P)
            metrics |= {} if inside is None else frontier_share(proposals, played, inside)
            outcome = replace(outcome, trainable_N=inside)
            placebo = rules.shuffled_rewards
            learned = shuffled(outcome, round.seed("shuffled rewards")) if placebo else outcome
            turns += self.proposer.learn(round, learned)
            if self.guide:
                turns += self.guide.learn(round, outcome)
            for part in (self.proposer, self.guide):
                logged = getattr(part, "logged", None)
                metrics |= logged() if logged is not None else {}

        count = correct_MPG.shape[0] * correct_MPG.shape[2]
        metrics |= solve_rate_health(solve_rate_P, kept, rules.easy_above, rules.hard_below, count)
        metrics |= rung_health(domain, proposals, problems, solve_rate_P)
        of_data = round.share([i >= kept for i in range(len(problems))])
        for found, turn in zip(answers, turns, strict=False):
            metrics |= prover_health(round, found, turn.advantages_B, of_data)
        solved = list(zip(keys, correct_MPG.sum((0, 2)).astype(int).tolist(), strict=True))
        if limit is not None:
            self.archive.record_solved(solved, limit)
            metrics["round/mastered_problems"] = len(self.archive.mastered(limit))
        # One that chooses its targets has nothing to propose once they are solved: that is no starvation.
        asked = bool(self.proposer) and (bool(proposals) or targets is None)
        starved = asked and is_starved(proposals, played)
        if asked:
            metrics |= {"round/starved": int(starved), "round/conjectured_slots": kept}
            self.archive.record_played(keys[:kept], solve_rate_P[:kept].tolist())
        self.archive.record_round(keys[:kept], rules.novelty_window, starved)

        samples = []
        for found in answers:
            mine = [p for p in own for _ in range(found.n)]
            reasons = [v.reason for v in found.verdicts or []]
            samples += examples(round, found, rules.samples_per_log, found.rewards_B.tolist(), reasons, mine)
        for turn in turns[len(answers) :]:
            samples += self._proposal_examples(round, turn.rollout, proposals, admission.reasons, reward_N)
        return RoundResult(turns, metrics, samples, [(key, correct, count) for key, correct in solved])

    def _random_problems(self, round: Round, slots: int) -> list[Any]:
        """New problems of the round, uniform over the domain's playable ones; the same on every process."""
        count = _share(self.settings.random_fraction, slots)
        return round.domain.random(count, round.seed("random problems"), round.held_out) if count else []

    def _rewards(
        self, round: Round, admission: Admission, outcome: Outcome, kept: int
    ) -> tuple[np.ndarray, dict[str, float]]:
        """(N) rewards of the proposals, of which the first `kept` problems are; and what is logged of their parts."""
        proposals, reward_N, metrics = outcome.proposals, outcome.rewards_N.copy(), dict[str, float]()
        if not proposals:
            return reward_N, metrics
        correct_MPG = outcome.correct_MPG[:, :kept]
        over = self.settings.solve_rate_over
        solve_rate_P = solve_rates(correct_MPG, over)
        guide_P = None
        if self.guide:
            first = {index: p for p, index in reversed(list(zip(proposals, outcome.problem_of, strict=True)))}
            guide_P = checked_scores(self.guide, round, [first[i] for i in range(kept)], outcome)
        ranges = {name: getattr(round.domain, name) for name in ("spec", "rules") if hasattr(round.domain, name)}
        known = RewardContext(
            attempts=correct_MPG.shape[0] * (correct_MPG.shape[2] if over == "attempts" else 1),
            round=round.index,
            problems=tuple(outcome.problems[:kept]),
            archive=tuple(self.archive.played),
            recent_rates=tuple(self.archive.recent_rates),
            prover_rates_MP=correct_MPG.mean(2) if len(correct_MPG) > 1 else None,
            guide_P=guide_P,
            **ranges,
        )
        reward_P = checked_rewards(self.reward, solve_rate_P, known)
        if kept and hasattr(self.reward, "parts"):
            parts = self.reward.parts(solve_rate_P, known)
            metrics = {f"round/reward_{name}": float(part_P.mean()) for name, part_P in parts.items()}
        for n, index in enumerate(admission.problem_of):
            if index is None:
                reward_N[n] = refused_reward(self.reward, admission.reasons[n], self.settings.invalid_reward)
            elif index < kept:
                reward_N[n] = reward_P[index]
            elif self.settings.unplayed_reward is not None:
                reward_N[n] = self.settings.unplayed_reward
        return reward_N, metrics

    def _proposal_examples(
        self, round: Round, rollout: Rollout, proposals: Sequence[Proposal], reasons: Sequence[str], reward_N: Any
    ) -> list[dict[str, Any]]:
        own = [i for i, proposal in enumerate(proposals) if proposal.by == rollout.role]
        mine = round.share(own)
        if len(mine) != len(rollout.texts):  # a guide's turn, or a proposer that samples more than it proposes
            return []
        rewards = [reward_N[i] for i in mine]
        problems = [proposals[i].problem for i in mine]
        return examples(round, rollout, self.settings.samples_per_log, rewards, [reasons[i] for i in mine], problems)

    def state_dict(self) -> dict[str, Any]:
        parts = self._parts()
        own = {name: part.state_dict() for name, part in parts.items()}
        return {**own, "classes": {name: type(part).__name__ for name, part in parts.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """A part that is of another class than the saved one starts anew (a resume may change proposer and guide)."""
        classes = state.get("classes", {})
        for name, part in self._parts().items():
            own = type(part).__name__
            if state.get(name) and classes.get(name, own) == own:
                part.load_state_dict(state[name])

    def _parts(self) -> dict[str, Stateful]:
        """What remembers something; a user's own proposer need not."""
        parts = {"archive": self.archive, "proposer": self.proposer, "guide": self.guide}
        return {name: part for name, part in parts.items() if isinstance(part, Stateful)}

    @classmethod
    def from_config(
        cls, args: Any, reward: Callable[..., Any] | str | None = None, proposer: Proposer | None = None
    ) -> ProposeAndSolve:
        """The game that a JointSelfPlayConfig describes. reward, proposer: objects instead of what it names."""
        if proposer is None and args.proposer is not None:
            proposer = make_proposer(args.proposer, args.proposer_arguments)
        guide = None if args.guide is None else make_guide(args.guide, args.guide_arguments)
        if reward is None:
            reward = make_conjecturer_reward(args.conjecturer_reward, args.reward_arguments)
        names = {f.name for f in fields(Settings)} - {"truncate_multiple"}
        settings = Settings(
            truncate_multiple=args.fill_multiple,
            **{name: getattr(args, name) for name in names},
        )
        return cls(proposer, reward, guide, settings)


def _share(fraction: float, slots: int) -> int:
    return round(fraction * slots)


def _judged(answers: Rollout) -> list[tuple[list[bool], str | None]]:
    """Of each problem: the verifier's bits, and the first right answer."""
    bits = [verdict.correct for verdict in answers.verdicts or []]
    groups = range(0, len(bits), answers.n)
    right = [text if good else None for text, good in zip(answers.texts, bits, strict=True)]
    first = [next((text for text in right[i : i + answers.n] if text is not None), None) for i in groups]
    return [(bits[i : i + answers.n], text) for i, text in zip(groups, first, strict=True)]
