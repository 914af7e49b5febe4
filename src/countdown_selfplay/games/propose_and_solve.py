"""Game of Allen and Ståblein, section 3.2: propose, solve, learn. Multimodal LLM Self-Play, SGS and Task Difficulty
and Diversity use it with other settings, proposers and guides."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch

from ..contract.game import BaseGame, Guide, Outcome, Proposal, Proposer
from ..contract.round import Rollout, Round, RoundResult, Turn
from ..contract.stateful import Stateful
from ..curriculum.admission import Admission, Archive, admit, dealt, slots_filled
from ..guides import GUIDES, checked_scores
from ..proposers import make_proposer
from ..proposers.policies import Policies
from ..rewards import RewardContext, checked_rewards, make_conjecturer_reward, refused_reward
from ..rewards.learning_progress import needs_progress
from . import health
from .metrics import METRICS
from .settings import Settings


@dataclass(frozen=True)
class Slots:
    """Problems of a round: proposals with a slot, then random problems, then targets or anchors."""

    proposals: Sequence[Proposal]
    admission: Admission
    targets: list[Any] | None
    """Targets chosen by the proposer; None if it chooses no targets, and the data set supplies anchors."""
    problems: list[Any]
    keys: list[str]
    kept: int
    """Number of played proposals, which come first in `problems`."""
    randoms: int
    mastered: frozenset[str]
    """Keys of the problems on which the first prover's objective no longer trains."""

    @property
    def problem_of(self) -> list[int | None]:
        """Index in `problems` of each proposal; None: not played."""
        return [None if index is None or index >= self.kept else index for index in self.admission.problem_of]

    @property
    def sources(self) -> list[str]:
        """Source of each problem: proposal, random, target or data."""
        beside = len(self.problems) - self.kept - self.randoms
        given = "data" if self.targets is None else "target"
        return ["proposal"] * self.kept + ["random"] * self.randoms + [given] * beside

    @property
    def played(self) -> list[bool]:
        return [index is not None for index in self.problem_of]


class ProposeAndSolve(BaseGame):
    """Game of proposing and solving: propose, admit, fill, solve, reward, credit. Without a proposer it is plain RL on
    the anchor problems. State: the archive of played problems, and the states of proposer and guide."""

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
        """Build the game. proposer: default is the conjecturer's policies, if the run has a conjecturer. reward:
        function (solve_rate_P, ctx) -> reward_P, or a name in CONJECTURER_REWARDS."""
        self.proposer: Proposer | None = proposer
        self.reward = make_conjecturer_reward(reward) if isinstance(reward, str) else reward
        self.pays = needs_progress(self.reward)
        self.guide, self.settings, self.archive = guide, settings or Settings(), Archive()

    def play(self, round: Round, anchors: Sequence[Any]) -> RoundResult:
        proposals, targets = self._propose(round, anchors)
        slots = self._fill(round, anchors, proposals, targets)
        answers, outcome = self._solve(round, slots)
        outcome, rewarded = self._reward(round, slots, answers, outcome)
        turns, credited = self._credit(round, slots, answers, outcome)
        metrics = {**rewarded, **credited, **self._told(round, slots, answers, turns, outcome)}
        samples = self._samples(round, slots, answers, turns, outcome)
        correct_P = outcome.correct_MPG.sum((0, 2)).astype(int).tolist()
        count = outcome.correct_MPG.shape[0] * outcome.correct_MPG.shape[2]
        solved = [(key, correct, count) for key, correct in zip(slots.keys, correct_P, strict=True)]
        return RoundResult(turns, metrics, samples, solved)

    def _propose(self, round: Round, anchors: Sequence[Any]) -> tuple[list[Proposal], list[Any] | None]:
        if self.proposer is None and round.players("conjecturer"):
            self.proposer = Policies()
        if self.proposer is None:
            return [], None
        targets = list(self.proposer.targets(round, anchors)) if self.proposer.chooses_targets else None
        return self.proposer.propose(round, anchors), targets

    def _fill(
        self, round: Round, anchors: Sequence[Any], proposals: Sequence[Proposal], targets: list[Any] | None
    ) -> Slots:
        """Fill the round's slots with admitted proposals, random problems, and targets or anchors, by `Settings`."""
        domain, rules, provers = round.domain, self.settings, round.players("prover")
        admission = admit(
            domain, proposals, self.archive, round.held_out, rules.novelty_window, rules.duplicate_proposals
        )
        if proposals:
            admission = dealt(admission, proposals, domain.asks, round.index)
        slots, admitted = round.slots("prover"), len(admission.problems)
        kept, fixed = 0, slots
        if targets is not None:
            kept = min(admitted, max(slots - len(targets), 0))
            fixed = slots - kept
            if self.proposer and len(targets) < fixed:
                targets = [*targets, *self.proposer.more_targets(round, fixed - len(targets))]
        elif self.proposer:
            multiple = rules.truncate_multiple or 1
            kept, fixed = slots_filled(admitted, slots, rules.anchor_fraction, rules.fill, multiple)
        limit = round.solved_limit(provers[0])
        mastered = frozenset() if limit is None else self.archive.mastered(limit)
        beside = list(anchors if targets is None else targets)
        if mastered and targets is None:  # mastered anchors are last; the sort is stable, and False is less than True
            beside = sorted(beside, key=lambda problem: domain.key(problem) in mastered)
        elif mastered:  # there is nothing to fill: mastered targets are not played
            beside = [problem for problem in beside if domain.key(problem) not in mastered] or beside
        count = int(np.rint(rules.random_fraction * slots))
        randoms = domain.random(count, round.seed("random problems"), round.held_out) if count else []
        problems = [*admission.problems[:kept], *randoms, *beside[: fixed - len(randoms)]]
        keys = [domain.key(problem) for problem in problems]
        return Slots(proposals, admission, targets, problems, keys, kept, len(randoms), mastered)

    def _solve(self, round: Round, slots: Slots) -> tuple[list[Rollout], Outcome]:
        """Sample answers of every prover to every problem; return the rollouts and the outcome without rewards."""
        provers, problems = round.players("prover"), round.share(slots.problems)
        rows = [round.domain.prove_row(problem) for problem in problems]
        answers = [round.sample(prover, rows, problems=problems) for prover in provers]
        judged = [round.gather(_judged(answer)) for answer in answers]
        correct_MPG = np.asarray([[bits for bits, _ in one] for one in judged], dtype=float)
        correct_MPG = correct_MPG.reshape(len(provers), len(slots.problems), answers[0].n)  # also for no problem
        right = [[text for _, text in one if text is not None] for one in zip(*judged, strict=True)]
        solutions = [texts[0] if texts else None for texts in right]
        unknown_N, over = np.full(len(slots.proposals), np.nan), self.settings.solve_rate_over
        return answers, Outcome(
            slots.proposals, unknown_N, slots.problems, slots.problem_of, correct_MPG, solutions, over
        )

    def _reward(
        self, round: Round, slots: Slots, answers: Sequence[Rollout], outcome: Outcome
    ) -> tuple[Outcome, dict[str, Any]]:
        """Return the outcome with the proposals' rewards, and metrics. The reward of a played proposal depends on its
        solve rate, that of a refused one is the reward's `invalid_reward` or the setting of that name. An admitted
        proposal without a slot has `unplayed_reward`; None: no reward, and no part in a baseline."""
        metrics: dict[str, Any] = {"round/random_slots": slots.randoms} if slots.randoms else {}
        if not slots.proposals:
            return outcome, metrics
        known, reward_N = self._context(round, slots, answers, outcome), outcome.rewards_N.copy()
        solve_rate_P = outcome.solve_rate_P[: slots.kept]
        reward_P = checked_rewards(self.reward, solve_rate_P, known)
        if slots.kept and hasattr(self.reward, "parts"):
            parts = self.reward.parts(solve_rate_P, known)
            metrics |= {f"round/reward_{name}": float(part_P.mean()) for name, part_P in parts.items()}
        reasons = slots.admission.reasons
        for n, index in enumerate(slots.admission.problem_of):
            if index is None:
                reward_N[n] = refused_reward(self.reward, reasons[n], self.settings.invalid_reward)
            elif index < slots.kept:
                reward_N[n] = reward_P[index]
            elif self.settings.unplayed_reward is not None:
                reward_N[n] = self.settings.unplayed_reward
        metrics |= health.proposal_health(round, slots.proposals, reasons, slots.played, reward_N)
        metrics |= health.unsolvable_share(round.domain, slots.proposals, slots.played)
        return replace(outcome, rewards_N=reward_N), metrics

    def _context(self, round: Round, slots: Slots, answers: Sequence[Rollout], outcome: Outcome) -> RewardContext:
        domain, correct_MPG = round.domain, outcome.correct_MPG[:, : slots.kept]
        guide_P = None
        if self.guide:
            pairs = reversed(list(zip(slots.proposals, outcome.problem_of, strict=True)))
            first = {index: proposal for proposal, index in pairs}
            guide_P = checked_scores(self.guide, round, [first[i] for i in range(slots.kept)], outcome)
        paid = bool(round.players("conjecturer"))
        ranges = {"spec": domain.spec, "rules": domain.rules}
        return RewardContext(
            attempts=correct_MPG.shape[0] * (correct_MPG.shape[2] if outcome.solve_rate_over == "attempts" else 1),
            round=round.index,
            problems=tuple(outcome.problems[: slots.kept]),
            archive=tuple(self.archive.played),
            recent_rates=tuple(self.archive.recent_rates),
            prover_rates_MP=correct_MPG.mean(2) if len(correct_MPG) > 1 else None,
            guide_P=guide_P,
            progress_P=progress_of(round, answers, slots.kept, self.pays) if paid and self.pays else None,
            **{name: value for name, value in ranges.items() if value is not None},
        )

    def _credit(
        self, round: Round, slots: Slots, answers: Sequence[Rollout], outcome: Outcome
    ) -> tuple[list[Turn], dict[str, Any]]:
        rules, solve_rate_P = self.settings, outcome.solve_rate_P
        frontier = health.frontier_of(rules.frontier_low, rules.frontier_high)
        wanted = health.wanted_answers(rules.prover_trains_on, frontier, solve_rate_P, outcome.correct_MPG)
        if slots.mastered:
            both = zip(slots.keys, wanted or [True] * len(slots.keys), strict=True)
            wanted = [key not in slots.mastered and good for key, good in both]
        kept_B = wanted and torch.tensor([good for good in round.share(wanted) for _ in range(answers[0].n)])
        turns, metrics = [round.credit(answer, kept_B=kept_B) for answer in answers], dict[str, Any]()
        if self.proposer is None:
            return turns, metrics
        inside = None if frontier is None else health.in_frontier(frontier, slots.problem_of, solve_rate_P)
        if inside is not None:
            metrics |= health.frontier_share(slots.proposals, slots.played, inside)
        outcome = replace(outcome, trainable_N=inside)
        placebo = rules.shuffled_rewards
        turns += self.proposer.learn(
            round, health.shuffled(outcome, round.seed("shuffled rewards")) if placebo else outcome
        )
        if self.guide:
            turns += self.guide.learn(round, outcome)
        return turns, metrics | self.proposer.logged() | (self.guide.logged() if self.guide else {})

    def _told(
        self, round: Round, slots: Slots, answers: Sequence[Rollout], turns: Sequence[Turn], outcome: Outcome
    ) -> dict[str, Any]:
        """Return the health metrics of the round, and record the round in the archive."""
        rules, solve_rate_P, kept = self.settings, outcome.solve_rate_P, slots.kept
        count = outcome.correct_MPG.shape[0] * outcome.correct_MPG.shape[2]
        metrics = health.solve_rate_health(solve_rate_P, kept, rules.easy_above, count)
        metrics |= health.axes_health(round.domain, slots.proposals, slots.problems, solve_rate_P)
        of_data = round.share([i >= kept for i in range(len(slots.problems))])
        for answer, turn in zip(answers, turns, strict=False):
            metrics |= health.prover_health(round, answer, turn.advantages_B, of_data)
        limit = round.solved_limit(answers[0].role)
        if limit is not None:
            correct_P = outcome.correct_MPG.sum((0, 2)).astype(int).tolist()
            self.archive.record_solved(zip(slots.keys, correct_P, strict=True), limit)
            metrics["round/mastered_problems"] = len(self.archive.mastered(limit))
        # A proposer of targets has nothing to propose once all are solved; this is not starvation.
        proposing = self.proposer is not None and (bool(slots.proposals) or slots.targets is None)
        starved = proposing and health.is_starved(slots.proposals, slots.played)
        if proposing:
            metrics |= {"round/starved": int(starved), "round/conjectured_slots": kept}
            self.archive.record_played(slots.keys[:kept], solve_rate_P[:kept].tolist())
        self.archive.record_round(slots.keys[:kept], rules.novelty_window, starved)
        return metrics

    def _samples(
        self, round: Round, slots: Slots, answers: Sequence[Rollout], turns: Sequence[Turn], outcome: Outcome
    ) -> list[dict[str, Any]]:
        """Return rows for samples.jsonl: answers with the problem's source, proposals with solve rates."""
        samples, limit, problems_here = [], self.settings.samples_per_log, round.share(slots.problems)
        sources = round.share(slots.sources)
        for rollout, turn in zip(answers, turns, strict=False):
            mine = [problem for problem in problems_here for _ in range(rollout.n)]
            reasons = [verdict.reason for verdict in rollout.verdicts or []]
            more = [{"source": source} for source in sources for _ in range(rollout.n)]
            samples += health.examples(round, turn, limit, rollout.rewards_B.tolist(), reasons, mine, more)
        for turn in turns[len(answers) :]:
            written = round.share([i for i, p in enumerate(slots.proposals) if p.by == turn.rollout.role])
            if len(written) == len(turn.rollout.texts):  # else turns of a guide, or of a proposer that samples more
                rewards = [outcome.rewards_N[i] for i in written]
                reasons = [slots.admission.reasons[i] for i in written]
                problems = [slots.proposals[i].problem for i in written]
                places, rates = slots.problem_of, outcome.solve_rate_P
                played = [places[i] for i in written]
                paid = [{} if k is None else {"solve_rate": float(f"{rates[k]:.6f}")} for k in played]
                samples += health.examples(round, turn, limit, rewards, reasons, problems, paid)
        return samples

    def state_dict(self) -> dict[str, Any]:
        parts = self._parts()
        states = {name: part.state_dict() for name, part in parts.items()}
        return {**states, "classes": {name: type(part).__name__ for name, part in parts.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the states; a part whose class differs from the saved one starts without state."""
        classes = state.get("classes", {})
        for name, part in self._parts().items():
            class_name = type(part).__name__
            if state.get(name) and classes.get(name, class_name) == class_name:
                part.load_state_dict(state[name])

    def _parts(self) -> dict[str, Stateful]:
        parts: dict[str, Any] = {"archive": self.archive, "proposer": self.proposer, "guide": self.guide}
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def from_config(
        cls, args: Any, reward: Callable[..., Any] | str | None = None, proposer: Proposer | None = None
    ) -> Self:
        """Build the game of a JointSelfPlayConfig. reward, proposer: objects in place of the configured ones."""
        if proposer is None and args.proposer is not None:
            proposer = make_proposer(args.proposer, args.proposer_arguments)
        guide = None if args.guide is None else GUIDES.make(args.guide, args.guide_arguments)
        if reward is None:
            reward = make_conjecturer_reward(args.conjecturer_reward, args.reward_arguments)
        return cls(proposer, reward, guide, args.game_settings)


def _judged(answers: Rollout) -> list[tuple[list[bool], str | None]]:
    """Return for each problem the correctness of every answer, and the first right answer or None."""
    bits = [verdict.correct for verdict in answers.verdicts or []]
    groups = range(0, len(bits), answers.n)
    right = [text if good else None for text, good in zip(answers.texts, bits, strict=True)]
    first = [next((text for text in right[i : i + answers.n] if text is not None), None) for i in groups]
    return [(bits[i : i + answers.n], text) for i, text in zip(groups, first, strict=True)]


def progress_of(round: Round, answers: Sequence[Rollout], kept: int, of: str = "answers") -> np.ndarray:
    """Return the learning progress (`Round.progress`) of the first `kept` problems, in nats: the mean over right
    answers, or for of="objective" over all answers weighted by their advantages, then over provers; 0 if unmeasured.
    answers: one rollout per prover, of this process's problems."""
    known_MP = []
    for rollout in answers:
        weights_B = round.credit(rollout).advantages_B if of == "objective" else None
        moved_B = round.progress(rollout, weights_B)
        mean = [math.nan] * len(rollout.rows) if moved_B is None else moved_B.view(-1, rollout.n).nanmean(1).tolist()
        known_MP.append(round.gather(mean)[:kept])
    known = np.asarray(known_MP, dtype=float)
    return np.asarray(np.nansum(known, 0) / np.maximum(np.isfinite(known).sum(0), 1))
