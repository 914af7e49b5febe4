"""A learned place of a problem among others: an encoder that is trained to part arithmetic structures (the wish of
Task Difficulty and Diversity, section 6, which names no way to do it)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge

from ...contract.round import Round, from_main
from ...errors import ConfigError
from ...random_state import seed_from
from ...registry import Amount, Count, Share

VERSION = 1
"""Of what the encoder sees and is trained for; a checkpoint with another one holds another space."""

BATCH = 128
SMALL = 0.05
"""Errors of wanted distances under this weigh about alike."""


@dataclass
class Embedding:
    """A hidden layer of tanh and `dimensions` logistic outputs on what is known of a problem: the domain's `features`
    and the 13 columns of its `novelty`. It is trained once, at the first refresh, on `problems` random problems of the
    training side, whose structures the exact solver knows: no model's answer is in it. The root mean square difference
    of two outputs is fitted to

        sqrt((1 - within) x structure^2 + within x numbers^2),

    structure: the share of solutions that differ in structure (half the sum of the |differences| of the domain's
    `structures`); numbers: the distance by the 13 columns. So problems of one structure are near, and not one point,
    as they are by the 7 features of the solution trees. An error is squared and divided by the wanted distance
    (Sammon, 1969): small distances are what novelty looks at.

    Its state: the weights, and the means and deviations of what it sees. The weights are a function of the domain, of
    the round's held-out problems and of the settings; `seed` is of its own random numbers.
    """

    problems: Annotated[int, Ge(2)] = 2000
    dimensions: Count = 8
    hidden: Count = 64
    steps: Count = 300
    learning_rate: Amount = 0.01
    within: Share = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        self.weights: list[np.ndarray] = []

    def points(self, round: Round, problems: Sequence[Any], features_PF: np.ndarray) -> np.ndarray:
        """(P, dimensions) in [0, 1]; trains the encoder if it is not yet."""
        if not self.weights:
            self.fit(round.domain, round.held_out)
            flat = from_main(round, np.concatenate([part.ravel() for part in self.weights]))
            ends = np.cumsum([part.size for part in self.weights])[:-1]
            shapes = [part.shape for part in self.weights]
            self.weights = [p.reshape(shape) for p, shape in zip(np.split(flat, ends), shapes, strict=True)]
        own_PD = self.encode(seen(round.domain, problems, features_PF))
        return from_main(round, own_PD).reshape(len(problems), self.dimensions)

    def encode(self, seen_PI: np.ndarray) -> np.ndarray:
        """(P, dimensions) of what is known of problems."""
        mean_I, scale_I, *layers = self.weights
        if seen_PI.shape[1] != len(mean_I):
            raise ConfigError(
                f"The learned features of the archive were trained on {len(mean_I)} columns, and the domain now gives "
                f"{seen_PI.shape[1]}; start a new run, or resume with the version that it was made with."
            )
        with torch.no_grad():
            return np.asarray(_forward([torch.tensor(w) for w in layers], torch.tensor((seen_PI - mean_I) / scale_I)))

    def fit(self, domain: Any, held_out: frozenset[str] = frozenset()) -> None:
        """Train on problems of the domain's training side, none with a key in `held_out`."""
        if domain.mutations is None or domain.mutations.structures is None:
            raise ConfigError(
                f"`features: learned` needs the structures of a problem's solutions, and the domain "
                f"{type(domain).__name__} has no `mutations.structures` (contract/domain.py); give it one, or set "
                "features: 13."
            )
        problems = domain.random(self.problems, seed_from("embedding", self.seed), held_out)
        features_PF = domain.mutations.features(problems)
        seen_PI = seen(domain, problems, features_PF)
        mean_I, scale_I = seen_PI.mean(axis=0), np.maximum(seen_PI.std(axis=0), 1e-6)
        wanted = Wanted(
            domain.mutations.structures(problems), domain.mutations.novelty(problems, 13, features_PF), self.within
        )
        generator = torch.Generator().manual_seed(seed_from("embedding", self.seed, "weights"))
        shapes = [(self.hidden, seen_PI.shape[1]), (self.hidden,), (self.dimensions, self.hidden), (self.dimensions,)]
        layers = [
            torch.randn(shape, generator=generator, dtype=torch.float64) / shape[-1] ** 0.5 * (len(shape) == 2)
            for shape in shapes
        ]
        for layer in layers:
            layer.requires_grad_()
        input_PI = torch.tensor((seen_PI - mean_I) / scale_I)
        adam = torch.optim.Adam(layers, lr=self.learning_rate)
        for step in range(self.steps):
            adam.param_groups[0]["lr"] = self.learning_rate * (1 - step / self.steps)
            rows = torch.randint(len(problems), (BATCH,), generator=generator)
            out_BD = _forward(layers, input_PI[rows])
            squared_BB = (out_BD[:, None] - out_BD[None]).square().mean(dim=2)
            wanted_BB = torch.tensor(wanted.between(rows.numpy()))
            loss = (((squared_BB + 1e-9).sqrt() - wanted_BB).square() / (wanted_BB + SMALL)).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        self.weights = [mean_I, scale_I, *(layer.detach().numpy() for layer in layers)]

    def state_dict(self) -> dict[str, Any]:
        return {"version": VERSION, "weights": [weight.copy() for weight in self.weights]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["version"] != VERSION:
            raise ConfigError(
                f"The checkpoint's learned features have version {state['version']}, and this run {VERSION}; "
                "distances in the one mean nothing in the other. Start a new run, or resume with the version of the "
                "package that it was made with."
            )
        self.weights = [np.array(weight, dtype=float) for weight in state["weights"]]


@dataclass(frozen=True)
class Wanted:
    """How far apart problems are to be. structures_PS: shares of their solutions. columns_PF: the 13 columns."""

    structures_PS: np.ndarray
    columns_PF: np.ndarray
    within: float

    def between(self, rows: np.ndarray) -> np.ndarray:
        """(R, R) of all pairs of these rows."""
        share_RS, column_RF = self.structures_PS[rows], self.columns_PF[rows]
        differ_RR = np.abs(share_RS[:, None] - share_RS[None]).sum(axis=2) / 2
        square_RR = np.square(column_RF[:, None] - column_RF[None]).mean(axis=2)
        return np.asarray(np.sqrt((1 - self.within) * differ_RR**2 + self.within * square_RR))


def seen(domain: Any, problems: Sequence[Any], features_PF: np.ndarray) -> np.ndarray:
    """(P, inputs) what the encoder sees; what does not exist of a problem is 0."""
    return np.concatenate([np.nan_to_num(features_PF), domain.mutations.novelty(problems, 13, features_PF)], axis=1)


def _forward(layers: Sequence[torch.Tensor], input_PI: torch.Tensor) -> torch.Tensor:
    first, bias, second, shift = layers
    return torch.sigmoid(torch.tanh(input_PI @ first.T + bias) @ second.T + shift)
