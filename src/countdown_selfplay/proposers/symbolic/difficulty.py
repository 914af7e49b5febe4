"""Estimates of the current solver's solve rate, by rollouts or by gradient-boosted trees on a problem's features (Task
Difficulty and Diversity, sections 3.3 and 3.4).

The authors use XGBoost. LightGBM had the best Brier score of three libraries (.0565 against .0567), the shortest fit
and the smallest installation (benchmarks/difficulty_libraries.py)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge

from ...contract.round import Round
from ...contract.stateful import Stateless
from ...data.jsonl import json_lines
from ...errors import ConfigError, DataError, MissingExtraError
from ...registry import Amount, Count, Registry

logger = logging.getLogger(__name__)

FOLDS = 5
PRIOR = 0.5
Labels = Annotated[int, Ge(2 * FOLDS)]


class Difficulty(Stateless):
    """Base class of estimators of solve rates. All processes call it with equal arguments and get equal results."""

    wants_labels: ClassVar[bool] = False
    """Whether `learn` improves the estimates; labels cost samples of the solver."""

    def estimate(self, round: Round, problems: Sequence[Any], features_NF: np.ndarray) -> np.ndarray:
        """Return the probabilities that one answer of the current solver is right, (N,) in [0, 1]."""
        raise NotImplementedError

    def learn(self, features_LF: np.ndarray, rate_L: np.ndarray, attempts: int | np.ndarray) -> dict[str, float]:
        """Train on L measured solve rates, each with its number of answers; return metrics."""
        return {}


DIFFICULTIES: Registry[Any] = Registry(
    "difficulty",
    {
        "rollout": "countdown_selfplay.proposers.symbolic.difficulty:Rollout",
        "predictor": "countdown_selfplay.proposers.symbolic.difficulty:Predictor",
    },
)


class Rollout(Difficulty):
    """Estimator by rollouts: the share of `samples` answers that the verifier accepts (K = 8 in section 3.3), averaged
    over several provers. Cost: candidates x samples of the solver in each refresh."""

    def __init__(self, samples: Count = 8) -> None:
        self.samples = samples

    def estimate(self, round: Round, problems: Sequence[Any], features_NF: np.ndarray) -> np.ndarray:
        return measured_rates(round, problems, self.samples)


def measured_rates(round: Round, problems: Sequence[Any], samples: int) -> np.ndarray:
    """Return each problem's share of right answers, (N,), among `samples` answers of each prover; equal on all
    processes. At most a round's number of answers is sampled at once."""
    problems_here = round.share(problems)
    longest = -(-len(problems) // round.world)
    provers = round.players("prover")
    right_N = np.zeros(len(problems))
    for prover in provers:
        size = max(1, round.slots("prover") * round.group(prover) // round.world // samples)
        rates: list[float] = []
        for start in range(0, longest, size):  # same number of turns on all processes
            part = problems_here[start : start + size]
            rollout = round.sample(prover, [round.domain.prove_row(p) for p in part], samples, part)
            bits = np.array([verdict.correct for verdict in rollout.verdicts or []], dtype=float)
            rates += bits.reshape(-1, samples).mean(axis=1).tolist()
        right_N += np.array(round.gather(rates))
    return right_N / len(provers)


@dataclass
class Predictor(Difficulty):
    """Predictor f(features) -> p of solve rates, fitted with a cross-entropy loss to measured solve rates, and
    calibrated: a scale and a shift of the logits (Platt) are fitted to out-of-fold predictions. State: the labels,
    the trees and the calibration. One thread and fixed seeds, so that equal labels give equal trees.

    labels: a file of solve rates for the first training (`countdown-selfplay solve-rates`); None: no labels.
    least: number of labels below which it predicts PRIOR for every problem, and warns once. capacity: number of latest
    labels that are kept.
    """

    labels: str | None = None
    trees: Count = 100
    leaves: Annotated[int, Ge(2)] = 15
    learning_rate: Amount = 0.08
    least: Labels = 50
    capacity: Labels = 20_000

    wants_labels = True

    def __post_init__(self) -> None:
        library()
        if self.labels is not None and not Path(self.labels).is_file():
            raise ConfigError(f"`labels` ({self.labels}) is not a file; make it by `countdown-selfplay solve-rates`.")
        self.options = {"num_leaves": self.leaves, "learning_rate": self.learning_rate, "min_data_in_leaf": 20}
        self.features_LF = np.zeros((0, 0))
        self.rate_L, self.attempts_L = np.zeros(0), np.zeros(0)
        self.text = ""
        self.model: Any = None
        self.stretch, self.shift = 1.0, 0.0
        self.reliability: list[tuple[int, float, float]] = []
        self.warned = False

    def estimate(self, round: Round, problems: Sequence[Any], features_NF: np.ndarray) -> np.ndarray:
        if self.labels is not None and not len(self.rate_L):
            self.learn(*read_labels(self.labels, round.domain))
        self._check(features_NF)
        if self.model is None:
            if not self.warned:
                message = "The difficulty predictor has %d labels and needs %d; until then each solve rate is %g."
                logger.warning(message, len(self.rate_L), self.least, PRIOR)
                self.warned = True
            return np.full(len(problems), PRIOR)
        return self.predict(features_NF)

    def predict(self, features_NF: np.ndarray) -> np.ndarray:
        """Return the calibrated probabilities, (N,)."""
        return _sigmoid(_raw(self.model, features_NF) * self.stretch + self.shift) if len(features_NF) else np.zeros(0)

    def learn(self, features_LF: np.ndarray, rate_L: np.ndarray, attempts: int | np.ndarray) -> dict[str, float]:
        """Add labels and refit; return Brier score, AUC and calibration error of out-of-fold predictions of the added
        labels (trees and calibration cross-validated in five folds of problems), or {} below `least` labels."""
        self._check(features_LF)
        many_L = np.broadcast_to(np.asarray(attempts, dtype=float), rate_L.shape)
        kept_LF = self.features_LF if len(self.rate_L) else features_LF[:0]
        self.features_LF = np.concatenate([kept_LF, features_LF])[-self.capacity :]
        self.rate_L = np.concatenate([self.rate_L, rate_L])[-self.capacity :]
        self.attempts_L = np.concatenate([self.attempts_L, many_L])[-self.capacity :]
        return self._fit(len(rate_L)) if len(self.rate_L) >= self.least else {}

    def _check(self, features_NF: np.ndarray) -> None:
        if len(self.rate_L) and features_NF.shape[1] != self.features_LF.shape[1]:
            seen, given = self.features_LF.shape[1], features_NF.shape[1]
            raise ConfigError(
                f"The predictor's labels have {seen} features and the domain gives {given}; start a new run."
            )

    def _fit(self, added: int) -> dict[str, float]:
        # Repeated problems are in one fold: else one of their labels would be among the trees' data.
        problem_L = np.unique(self.features_LF, axis=0, return_inverse=True)[1].reshape(-1)
        fold_L = np.random.default_rng(0).permutation(problem_L.max() + 1)[problem_L] % FOLDS
        unseen_L, p_L = np.zeros(len(self.rate_L)), np.zeros(len(self.rate_L))
        for fold in range(FOLDS):
            out_L = fold_L == fold
            unseen_L[out_L] = _raw(_booster(self._trained(np.flatnonzero(~out_L))), self.features_LF[out_L])
        for fold in range(FOLDS):
            out_L = fold_L == fold
            stretch, shift = platt(unseen_L[~out_L], self.rate_L[~out_L], self.attempts_L[~out_L])
            p_L[out_L] = _sigmoid(unseen_L[out_L] * stretch + shift)
        self.stretch, self.shift = platt(unseen_L, self.rate_L, self.attempts_L)
        self.text = self._trained(np.arange(len(self.rate_L)))
        self.model = _booster(self.text)
        self.reliability = reliability(p_L, self.rate_L)
        fresh = slice(-min(added, len(p_L)), None)
        p_N, rate_N = p_L[fresh], self.rate_L[fresh]
        metrics = {"brier": brier(p_N, rate_N), "calibration_error": calibration_error(p_N, rate_N)}
        if (area := auc(p_N, rate_N)) is not None:
            metrics["auc"] = area
        return metrics

    def _trained(self, rows: np.ndarray) -> str:
        """Train trees on the labels `rows`; return LightGBM's text form, from which predictions are computed."""
        fixed = {"objective": "cross_entropy", "num_threads": 1, "deterministic": True, "force_row_wise": True}
        weight_L = self.attempts_L[rows] / self.attempts_L[rows].mean()
        data = library().Dataset(self.features_LF[rows], self.rate_L[rows], weight=weight_L, free_raw_data=True)
        booster = library().train({**fixed, **self.options, "verbosity": -1}, data, self.trees)
        return str(booster.model_to_string())

    def state_dict(self) -> dict[str, Any]:
        return {
            "features": self.features_LF.copy(),
            "rates": self.rate_L.copy(),
            "attempts": self.attempts_L.copy(),
            "trees": self.text,
            "platt": [self.stretch, self.shift],
            "reliability": [list(entry) for entry in self.reliability],
            "warned": self.warned,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.features_LF = np.array(state["features"], dtype=float)
        self.rate_L, self.attempts_L = np.array(state["rates"]), np.array(state["attempts"])
        self.text = state["trees"]
        self.model = _booster(self.text) if self.text else None
        self.stretch, self.shift = state["platt"]
        self.reliability = [(int(n), p, rate) for n, p, rate in state["reliability"]]
        self.warned = state["warned"]


def library() -> Any:
    """Import and return LightGBM. Raises MissingExtraError if it is not installed."""
    try:
        import lightgbm
    except ImportError:
        cure = "pip install 'countdown-selfplay[symbolic]', or set difficulty: rollout"
        raise MissingExtraError(f"The difficulty predictor needs LightGBM; {cure}.") from None
    return lightgbm


def read_labels(path: str, domain: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, solve rates and attempts of a file's lines, for `learn`. Raises DataError for a bad line."""
    problems, rates, attempts = [], [], []
    for number, row in json_lines(Path(path)):
        problems.append(domain.problem(row, number))
        right, tried = row.get("correct"), row.get("attempts")
        if type(right) is not int or type(tried) is not int or not 0 <= right <= tried or tried == 0:
            said = f"`correct` ({right!r}) of `attempts` ({tried!r}) must be counts, of at least one attempt"
            raise DataError(f"'{path}', line {number}: {said}.")
        rates.append(right / tried)
        attempts.append(float(tried))
    if not problems:
        raise DataError(f"'{path}' holds no line; it must have the solve rate of one problem a line.")
    return domain.mutations.features(problems), np.array(rates), np.array(attempts)


def platt(logit_L: np.ndarray, rate_L: np.ndarray, weight_L: np.ndarray) -> tuple[float, float]:
    """Return a, b that minimise the cross-entropy of sigmoid(a x logit + b) to the rates, by Newton's method from a =
    1, b = 0. The penalty ((a - 1)^2 + b^2) / 2 keeps a and b finite."""
    x_L2 = np.stack([logit_L, np.ones_like(logit_L)], axis=1)
    start = ab = np.array([1.0, 0.0])
    for _ in range(25):
        p_L = _sigmoid(x_L2 @ ab)
        gradient = x_L2.T @ (weight_L * (p_L - rate_L)) + (ab - start)
        curvature = (x_L2 * (weight_L * p_L * (1 - p_L))[:, None]).T @ x_L2 + np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        ab = ab - step
        if np.abs(step).max() < 1e-10:
            break
    return float(ab[0]), float(ab[1])


def _booster(text: str) -> Any:
    return library().Booster(model_str=text)


def _raw(model: Any, features_NF: np.ndarray) -> np.ndarray:
    return np.asarray(model.predict(features_NF, raw_score=True, num_threads=1), dtype=float)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -50, 50)))


BINS = 10


def brier(p_N: np.ndarray, rate_N: np.ndarray) -> float:
    """Return the mean squared error against the single answers of N problems, of which a share `rate` was right (equal
    weights): (p - rate)^2 + rate (1 - rate). 0 is perfect; 0.25 is p = 1/2 everywhere."""
    return float(np.mean((p_N - rate_N) ** 2 + rate_N * (1 - rate_N)))


def auc(p_N: np.ndarray, rate_N: np.ndarray) -> float | None:
    """Return the probability that a right answer belongs to a problem with a higher p than that of a wrong answer;
    ties count a half. None unless there are both right and wrong answers."""
    _, place_N = np.unique(p_N, return_inverse=True)
    right, wrong = np.bincount(place_N, rate_N), np.bincount(place_N, 1 - rate_N)
    if not right.sum() or not wrong.sum():
        return None
    below = np.concatenate([[0.0], np.cumsum(wrong)[:-1]])
    return float((right * (below + wrong / 2)).sum() / (right.sum() * wrong.sum()))


def reliability(p_N: np.ndarray, rate_N: np.ndarray) -> list[tuple[int, float, float]]:
    """Return (problems, mean p, mean rate) for each tenth of p that contains problems."""
    place_N = np.minimum((p_N * BINS).astype(int), BINS - 1)
    found = [place_N == b for b in range(BINS)]
    return [(int(own.sum()), float(p_N[own].mean()), float(rate_N[own].mean())) for own in found if own.any()]


def calibration_error(p_N: np.ndarray, rate_N: np.ndarray) -> float:
    """Return the expected calibration error: the mean of |mean p - mean rate| over the intervals of `reliability`,
    each weighted by its number of problems. 0 is best."""
    return sum(n * abs(p - rate) for n, p, rate in reliability(p_N, rate_N)) / max(len(p_N), 1)
