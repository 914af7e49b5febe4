"""A guide that learns which synthetic problems lead to a solved target: the wish of SGS 2026, section 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract.game import BaseGuide, Outcome, Proposal
from ..contract.metric import SHARE, Metric, Panel
from ..contract.round import Round, Turn
from ..errors import ConfigError
from ..registry import Count
from . import targets_of

CAPACITY = 4096
"""Most labelled problems that are kept, the newest."""

RIDGE = 1.0
"""Weight of the squared coefficients against the log-likelihood: a standard normal prior."""


class Learned(BaseGuide):
    """score = 8 x P(the target is solved within `rounds` rounds | features of target and problem), by a logistic
    regression that is fitted anew each round. Beyond the paper.

    A synthetic problem that was solved at least once waits. When its target is solved in a later round it is labelled
    1; after `rounds` rounds without that 0. One of the very round that solves its target gets no label: the target was
    attempted before anything was learned from it. Both labels weigh the same in the fit. Until there are examples of
    both, every score is NaN, and the reward leaves the guide out. The features are the domain's
    `help_features(target, problem)`.

    Its state: the labelled examples, and those that wait.
    """

    scale = (0.0, 8.0)
    metrics = (
        Metric(
            "guide/labelled",
            "Synthetic problems with a label, of both kinds, that the learned guide is fitted to.",
            panel=Panel("Problems that the learned guide is fitted to", (0,), "Targets", "problems"),
        ),
        Metric(
            "guide/led_to_solved",
            "Share of them whose target was solved in time.",
            panel=Panel("Labels whose target was solved in time", SHARE, "Targets", "share"),
        ),
    )

    def __init__(self, rounds: Count = 10) -> None:
        self.rounds = rounds
        self.features: list[list[float]] = []
        self.labels: list[float] = []
        self.waiting: list[list[Any]] = []  # [key of the target, round, features]

    def score(self, round: Round, proposals: Sequence[Proposal], outcome: Outcome) -> np.ndarray:
        if round.domain.helping is None or round.domain.helping.help_features is None:
            raise ConfigError(
                "The guide learned needs a domain whose `helping` has `help_features`, and "
                f"{type(round.domain).__name__} has none; use guide=judge, or a guide of your own."
            )
        targets, weights = targets_of(proposals), self._fitted()
        if weights is None or not proposals:
            return np.full(len(proposals), np.nan)
        x = _with_one(
            [round.domain.helping.help_features(t, p.problem) for t, p in zip(targets, proposals, strict=True)]
        )
        return self.scale[1] / (1 + np.exp(-x @ weights))

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        domain, rate_P = round.domain, outcome.solve_rate_P
        solved = {domain.key(problem) for problem, rate in zip(outcome.problems, rate_P, strict=True) if rate > 0}
        new: list[list[Any]] = []
        for proposal, index in zip(outcome.proposals, outcome.problem_of, strict=True):
            target = proposal.asked.get("target") if isinstance(proposal.asked, Mapping) else None
            if target is not None and index is not None and rate_P[index] > 0 and domain.key(target) not in solved:
                found = domain.helping.help_features(target, proposal.problem)
                new.append([domain.key(target), round.index, [float(value) for value in found]])
        still: list[list[Any]] = []
        for key, since, features in self.waiting:
            if key in solved or round.index - since >= self.rounds:
                self.features.append(features)
                self.labels.append(float(key in solved))
            else:
                still.append([key, since, features])
        self.waiting = [*still, *new]
        self.features, self.labels = self.features[-CAPACITY:], self.labels[-CAPACITY:]
        return []

    def logged(self) -> dict[str, float]:
        share = {"guide/led_to_solved": sum(self.labels) / len(self.labels)} if self.labels else {}
        return {"guide/labelled": len(self.labels), **share}

    def state_dict(self) -> dict[str, Any]:
        width = len(self.features[0]) if self.features else 0
        table = np.array(self.features, dtype=float).reshape(len(self.features), width)
        return {"features": table, "labels": np.array(self.labels, dtype=float), "waiting": self.waiting}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.features, self.labels = state["features"].tolist(), state["labels"].tolist()
        self.waiting = [list(one) for one in state["waiting"]]

    def _fitted(self) -> np.ndarray | None:
        """Coefficients, the constant last, by Newton's method; None without examples of both labels."""
        y = np.array(self.labels)
        if not y.size or y.min() == y.max():
            return None
        x = _with_one(self.features)
        weight = np.where(y == 1, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
        prior = RIDGE * np.eye(x.shape[1])
        prior[-1, -1] = 1e-6  # the constant is free
        w = np.zeros(x.shape[1])
        for _ in range(25):
            p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
            gradient = x.T @ (weight * (p - y)) + prior @ w
            w = w - np.linalg.solve((x * (weight * p * (1 - p))[:, None]).T @ x + prior, gradient)
        return w


def _with_one(features: Sequence[Sequence[float]]) -> np.ndarray:
    x = np.array(features, dtype=float)
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)
