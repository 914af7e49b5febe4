"""Algorithm 1 of Task Difficulty and Diversity as a proposer: generate, filter, estimate, score, select, replay,
relabel. Subclasses generate the candidates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge

from ...contract.game import BaseProposer, Outcome, Proposal
from ...contract.round import Round, Turn, from_main
from ...errors import ConfigError, GameError
from ...registry import Count, Registry, Share
from .. import unsupported
from ..metrics import SYMBOLIC
from .difficulty import DIFFICULTIES, Difficulty, brier, calibration_error, measured_rates
from .selection import Nearest, NoveltyArchive, ProblemReplay, Reservoir, Rule, Selection

_PARTS: Registry[Any] = Registry("symbolic setting", {"selection_kwargs": Selection, "replay": ProblemReplay})


class Choice(NamedTuple):
    """Actions on N seed problems, and the names under which metrics count the candidates."""

    number_actions: Sequence[str]
    expression_actions: Sequence[str]
    arms: Sequence[str]


class Scored(NamedTuple):
    """Valid candidates of a refresh: indices among all candidates, arms that made them, and scores R_gen."""

    rows: np.ndarray
    arms: list[str]
    score: np.ndarray


@dataclass
class Symbolic(BaseProposer):
    """Base class of symbolic proposers. Every `refresh` rounds, beginning with round 0, `candidates` seed problems are
    edited, each from the archive with probability `archive_seeds`, else from the round's anchors. Valid candidates
    get an estimated solve rate, a distance to the archive (to the anchors while it is empty) and the score R_gen;
    `selection` moves at most `keep` of them into the archive and the buffer, from which `generated_fraction` of the
    prover's slots are drawn. Set the game's `anchor_fraction` to 1 - generated_fraction.

    difficulty, difficulty_kwargs: estimator of solve rates. features: number of features of the distance, 7 or 13.
    selection, selection_kwargs: rule and its low, high, diversity, least_diversity, ... replay: capacity, half_life,
    softness of the buffer. relabel_every: refreshes between two updates of the estimator by `relabel` candidates of
    the reservoir, with `relabel_samples` answers each of the current solver; 0: never. played_labels: also learn from
    all problems played since the last refresh, whose solve rates are known without further answers."""

    candidates: Count = 256
    refresh: Count = 10
    keep: Count = 64
    generated_fraction: Share = 0.25
    archive_seeds: Share = 0.5
    difficulty: str = "rollout"
    difficulty_kwargs: dict[str, Any] | None = None
    features: Literal[7, 13] = 13
    selection: Rule = "top_k"
    selection_kwargs: dict[str, Any] | None = None
    replay: dict[str, Any] | None = None
    reservoir: Count = 10_000
    relabel_every: Annotated[int, Ge(0)] = 5
    relabel: Count = 96
    relabel_samples: Count = 8
    played_labels: bool = False
    logged_now: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    needs = ("prover",)
    metrics = SYMBOLIC

    def __post_init__(self) -> None:
        rule = {**(self.selection_kwargs or {}), "rule": self.selection}
        self.select: Selection = _PARTS.make("selection_kwargs", rule)
        self.estimator: Difficulty = DIFFICULTIES.make(self.difficulty, self.difficulty_kwargs)
        if self.played_labels and not self.estimator.wants_labels:
            raise ConfigError(f"`played_labels` (true) needs difficulty: predictor, and it is {self.difficulty}.")
        self.archive = NoveltyArchive(self.features)
        self.buffer: ProblemReplay = _PARTS.make("replay", self.replay)
        self.pool = Reservoir(self.reservoir)
        self.played: dict[str, tuple[float, int]] = {}  # problem -> solve rate and answers, since the last refresh
        self.refreshes = 0
        self.accepted = 0.0  # share of the last refresh's candidates that were eligible
        self.selected_p = 0.5  # their mean estimated solve rate

    # Hooks of a subclass

    def choose(self, round: Round, seeds: Sequence[Any]) -> Choice:
        """Return the actions on each seed."""
        raise NotImplementedError

    def learn_scores(self, round: Round, scored: Scored) -> dict[str, Any]:
        """Learn from the scores of the valid candidates; return metrics."""
        return {}

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """Raise ConfigError for a domain without `mutations`."""
        if domain.mutations is None:
            raise unsupported(f"`proposer` ({type(self).__name__})", domain, "`mutations`", "play Countdown")

    # The round

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.logged_now = {}
        self.check({}, round.domain)
        self.archive.open(round.domain.to_dict())
        if round.index % self.refresh == 0:
            self._refresh(round, anchors)
        slots = round.slots("prover")
        count = max(1, int(self.generated_fraction * slots + 0.5)) if self.generated_fraction else 0
        drawn = self.buffer.draw(count, round.index, self.select, round.seed("buffer"))
        problems = self._shown(round, [entry.key for entry in drawn])
        return [Proposal(problem, request=entry.arm) for problem, entry in zip(problems, drawn, strict=True)]

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        """Set p of played buffer problems to the measured rate; with `played_labels`, keep all rates as labels."""
        rate_P, errors = outcome.solve_rate_P, []
        for proposal, index in zip(outcome.proposals, outcome.problem_of, strict=True):
            key = round.domain.key(proposal.problem)
            entry = self.buffer.entries.get(key)
            if index is None or entry is None:
                continue
            if not entry.measured:
                errors.append(abs(entry.p - rate_P[index]))
            entry.p, entry.measured = float(rate_P[index]), True
        if self.played_labels:
            answers = outcome.correct_MPG.shape[0] * outcome.correct_MPG.shape[2]
            for problem, rate in zip(outcome.problems, outcome.correct_MPG.mean((0, 2)).tolist(), strict=True):
                self.played[round.domain.key(problem)] = (rate, answers)
        if errors:
            self.logged_now["proposer/estimate_error"] = float(np.mean(errors))
        return []

    def logged(self) -> dict[str, Any]:
        sizes = {"proposer/archive_size": len(self.archive), "proposer/buffer_size": len(self.buffer)}
        return {**sizes, **self.logged_now}

    def _refresh(self, round: Round, anchors: Sequence[Any]) -> None:
        """Run lines 5 to 18 of Algorithm 1 of Task Difficulty and Diversity."""
        domain = round.domain
        seeds = self._seeds(round, anchors)
        choice = self.choose(round, seeds)
        mutants = domain.mutations.mutate(
            seeds, choice.number_actions, choice.expression_actions, round.seed("mutate")
        )
        reasons = self._filtered(round, mutants)
        learned, self.played = self._learned(round, self.played), {}
        rows = np.array([i for i, reason in enumerate(reasons) if reason == "ok"], dtype=int)
        problems, keys = [mutants.problems[i] for i in rows], [domain.key(mutants.problems[i]) for i in rows]
        p_V = from_main(round, self.estimator.estimate(round, problems, mutants.features[rows]))
        points_VF = self._points(round, problems, mutants.features[rows])
        diversity_V = from_main(round, self._diversity(round, points_VF, anchors))
        scored = Scored(rows, [choice.arms[i] for i in rows], self.select.reward(p_V, diversity_V))
        self.pool.add(keys, p_V)
        chosen, verdicts = self.select.select(p_V, diversity_V, self.keep, round.seed("select"))
        chosen_keys, arms = [keys[i] for i in chosen], [scored.arms[i] for i in chosen]
        self.buffer.add(chosen_keys, p_V[chosen], arms, round.index, self.select)
        self.archive.add(chosen_keys, points_VF[chosen])
        self.accepted = verdicts.count("admitted") / len(seeds)
        self.selected_p = float(p_V[chosen].mean()) if len(chosen) else self.selected_p
        self.logged_now = learned | _cascade(reasons, verdicts, choice.arms) | {"proposer/selected": len(chosen)}
        if len(rows):
            self.logged_now["proposer/score"] = float(scored.score.mean())
        if len(chosen):
            self.logged_now |= {
                "proposer/diversity": float(diversity_V[chosen].mean()),
                "proposer/selected_p": self.selected_p,
                "proposer/least_p": float(p_V[chosen].min()),
                "proposer/selected_score": float(scored.score[chosen].mean()),
            }
        self.logged_now |= self.learn_scores(round, scored)
        self.refreshes += 1
        if self.estimator.wants_labels and self.relabel_every and self.refreshes % self.relabel_every == 0:
            self.logged_now |= self._relabel(round)

    def _points(self, round: Round, problems: Sequence[Any], features_PF: np.ndarray) -> np.ndarray:
        """Return coordinates in [0, 1], (P, columns): structure and operators of the solution trees (7), and numbers
        and target (13: Task Difficulty and Diversity, section 4). With 7 many problems share a point, and the archive
        collapses (section 5)."""
        return np.asarray(round.domain.mutations.novelty(problems, self.features, features_PF))

    def _diversity(self, round: Round, points_VF: np.ndarray, anchors: Sequence[Any]) -> np.ndarray:
        """Return the diversity R_div, (V,). While the archive is empty, distances are to the anchors: a constant 1
        would make the first R_gen, which baseline and arms remember, incomparable with later values."""
        if len(self.archive) or not anchors:
            return self.archive.distance(points_VF)
        known_AF = self._points(round, anchors, round.domain.mutations.features(anchors))
        index = Nearest(known_AF.shape[1])
        index.add(known_AF)
        return index.scaled(points_VF)

    def _shown(self, round: Round, keys: Sequence[str]) -> list[Any]:
        """Return the problems with these keys, their numbers in random order: a key holds them ascending."""
        make = round.domain.mutations
        return [make.reordered(make.problem_of_key(key), round.seed("shown", i)) for i, key in enumerate(keys)]

    def _seeds(self, round: Round, anchors: Sequence[Any]) -> list[Any]:
        if not anchors and not len(self.archive):
            raise GameError("A symbolic proposer has no seed task; give the trainer a train_dataset with rows.")
        generator = np.random.default_rng(round.seed("seeds"))
        share = 0.0 if not len(self.archive) else self.archive_seeds if anchors else 1.0
        archived_N = generator.random(self.candidates) < share
        places_N = generator.random(self.candidates)
        return [
            round.domain.mutations.problem_of_key(self.archive.listed[int(place * len(self.archive))])
            if archived
            else anchors[int(place * len(anchors))]
            for archived, place in zip(archived_N, places_N, strict=True)
        ]

    def _filtered(self, round: Round, mutants: Any) -> list[str]:
        """Return for each candidate "ok" or the reason for refusal: the domain's, held_out, duplicate or archived."""
        reasons, seen = list(mutants.reasons), set()
        for i, problem in enumerate(mutants.problems):
            if reasons[i] != "ok":
                continue
            key = round.domain.key(problem)
            if key in round.held_out or round.domain.is_held_out(problem):
                reasons[i] = "held_out"
            elif key in seen:
                reasons[i] = "duplicate"
            elif key in self.archive:
                reasons[i] = "archived"
            seen.add(key)
        return reasons

    def _relabel(self, round: Round) -> dict[str, Any]:
        keys = self.pool.draw(self.relabel, self.select.low, self.select.high, round.seed("relabel"))
        rates = measured_rates(round, self._shown(round, keys), self.relabel_samples)
        return self._learned(round, {k: (r, self.relabel_samples) for k, r in zip(keys, rates.tolist(), strict=True)})

    def _learned(self, round: Round, rates: dict[str, tuple[float, int]]) -> dict[str, Any]:
        """Train the estimator on `rates` (key -> solve rate, answers); return its error metrics before and after."""
        if not rates:
            return {}
        problems = [round.domain.mutations.problem_of_key(key) for key in rates]
        rate_L, attempts_L = (np.array(column) for column in zip(*rates.values(), strict=True))
        features_LF = round.domain.mutations.features(problems)
        before_L = from_main(round, self.estimator.estimate(round, problems, features_LF))
        found_out = self.estimator.learn(features_LF, rate_L, attempts_L)
        names = {"brier": "brier_after", "calibration_error": "calibration_after", "auc": "predictor_auc"}
        logged = {
            "proposer/brier_before": brier(before_L, rate_L),
            "proposer/calibration_before": calibration_error(before_L, rate_L),
            "proposer/bias_before": float(before_L.mean() - rate_L.mean()),
            **{f"proposer/{names[name]}": value for name, value in found_out.items()},
            "proposer/labels": len(getattr(self.estimator, "rate_L", rate_L)),
        }
        bins = getattr(self.estimator, "reliability", ())
        return logged | {f"proposer/rate_at_{min(int(10 * p), 9)}": rate for _, p, rate in bins}

    def state_dict(self) -> dict[str, Any]:
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        counts = {"refreshes": self.refreshes, "accepted": self.accepted, "selected_p": self.selected_p}
        return {**parts, "counts": counts, "played": {key: list(known) for key, known in self.played.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.played = {key: (rate, answers) for key, (rate, answers) in state["played"].items()}
        for name, value in state["counts"].items():
            setattr(self, name, value)

    def _parts(self) -> dict[str, Any]:
        return {"archive": self.archive, "buffer": self.buffer, "reservoir": self.pool, "difficulty": self.estimator}


def _cascade(reasons: Sequence[str], verdicts: Sequence[str], arms: Sequence[str]) -> dict[str, Any]:
    """Return the metrics of candidates: number, valid and eligible share, refusals by reason, shares by arm."""
    counts, gate = Counter(reasons), Counter(verdicts)
    made = Counter(name for arm in arms for name in arm.split("+"))
    raw, valid = len(reasons), counts.pop("ok", 0)
    metrics: dict[str, Any] = {"proposer/raw": raw, "proposer/valid_rate": valid / raw}
    metrics |= {f"proposer/rejected_{reason}": count / raw for reason, count in sorted(counts.items())}
    metrics |= {f"proposer/arm_{arm}": count / raw for arm, count in sorted(made.items())}
    if valid:
        metrics["proposer/eligible_rate"] = gate.pop("admitted", 0) / valid
        metrics |= {f"proposer/refused_{verdict}": count / valid for verdict, count in sorted(gate.items())}
    return metrics


def pairs(number_actions: Sequence[str], expression_actions: Sequence[str]) -> list[str]:
    """Return an arm such as "small+divide" for each pair of actions; metrics count its two actions separately."""
    return [f"{number}+{kind}" for number, kind in zip(number_actions, expression_actions, strict=True)]


@dataclass
class Mutation(Symbolic):
    """Symbolic proposer by uniform random pairs of number and expression actions: the control for the learning
    proposers and, with a predictor, the P-Solver of Task Difficulty and Diversity (sections 3.3, 4)."""

    def choose(self, round: Round, seeds: Sequence[Any]) -> Choice:
        generator = np.random.default_rng(round.seed("actions"))
        numbers = generator.choice(list(round.domain.mutations.number_actions), len(seeds)).tolist()
        kinds = generator.choice(list(round.domain.mutations.expression_actions), len(seeds)).tolist()
        return Choice(numbers, kinds, pairs(numbers, kinds))
