"""Archive of generated problems, and distances to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ConfigError

VERSION = 1
"""Version of the feature vectors; a checkpoint with another one is refused."""


class NoveltyArchive:
    """Problems by key, and their points in feature space; unbounded, as in the paper. The distance is the root mean
    square difference of two points' columns, which are in [0, 1]; the paper does not define it."""

    def __init__(self, feature_set: int) -> None:
        self.feature_set = feature_set
        self.keys: dict[str, None] = {}  # ordered, with fast membership tests
        self.listed: list[str] = []
        self.domain: dict[str, Any] | None = None
        self.index: Nearest = Nearest(0)  # its columns are those of the first points

    def __len__(self) -> int:
        return len(self.listed)

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def open(self, domain: dict[str, Any]) -> None:
        """Set the problems' domain (its `to_dict`). Raises ConfigError if archived problems have another."""
        domain = json.loads(json.dumps(domain))  # as a checkpoint holds it: no tuples
        if self.domain is None or not self.listed:
            self.domain = domain
        changed = [name for name in {**self.domain, **domain} if not _same(self.domain.get(name), domain.get(name))]
        changed = [name for name in changed if not name.endswith("_prompt")]
        if changed:
            name = changed[0]
            raise ConfigError(
                f"The archive of generated problems was made with {name} {self.domain.get(name)}, and this run has "
                f"{domain.get(name)}; its distances would mean something else. Start a new run, or set {name} back."
            )

    def distance(self, points_NF: np.ndarray) -> np.ndarray:
        """Return R_div, (N,) in [0, 1]; 1 for an empty archive."""
        if not len(self):
            return np.ones(len(points_NF))
        return _scaled(self.index, points_NF)

    def add(self, keys: Sequence[str], points_NF: np.ndarray) -> None:
        if not len(self):
            self.index = Nearest(points_NF.shape[1])
        self.keys.update(dict.fromkeys(keys))
        self.listed += keys
        self.index.add(points_NF)

    def state_dict(self) -> dict[str, Any]:
        facts = {"version": VERSION, "feature_set": self.feature_set, "domain": self.domain}
        return {**facts, "keys": list(self.listed), "points": self.index.points_AF.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, ours in (("version", VERSION), ("feature_set", self.feature_set)):
            if state[name] != ours:
                raise ConfigError(
                    f"The checkpoint's archive of generated problems has {name} {state[name]}, and this run {ours}; "
                    "distances in the one mean nothing in the other. Start a new run, or resume with the version and "
                    "`features` that it was made with."
                )
        self.keys, self.listed, self.domain = {}, [], state["domain"]
        self.index = Nearest(0)
        if state["keys"]:
            self.add(list(state["keys"]), np.asarray(state["points"]))


def _same(old: Any, new: Any) -> bool:
    """Return whether two domains are equal, except for None fields that an older version did not have."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(_same(old.get(name), new.get(name)) for name in {**old, **new})
    return bool(old == new)


class Nearest:
    """Exact distances to the nearest of many points. The tree holds repeated points once: by the 7 features of
    solution trees a million problems are a few hundred points, and a tree cannot split equal points."""

    def __init__(self, dimensions: int) -> None:
        self.points_AF = np.zeros((0, dimensions))
        self._tree: Any = None

    def __len__(self) -> int:
        return len(self.points_AF)

    def add(self, points_NF: np.ndarray) -> None:
        """Add points, (N, dimensions)."""
        self.points_AF, self._tree = np.concatenate([self.points_AF, points_NF]), None

    def distance(self, points_NF: np.ndarray) -> np.ndarray:
        """Return Euclidean distances to the nearest point, (N,); infinite without one."""
        from scipy.spatial import cKDTree  # plain commands, which read this module's metrics, load no SciPy

        if not len(self) or not len(points_NF):
            return np.full(len(points_NF), np.inf)
        if self._tree is None:  # not balanced: with 13 features of real problems three times as fast
            self._tree = cKDTree(np.unique(self.points_AF, axis=0), balanced_tree=False)
        return np.asarray(self._tree.query(points_NF)[0])


def distance_among(points_NF: np.ndarray, known_AF: np.ndarray) -> np.ndarray:
    """Return the distance to the nearest of the other points (at least one), (N,)."""
    index = Nearest(known_AF.shape[1])
    index.add(known_AF)
    return _scaled(index, points_NF)


def _scaled(index: Nearest, points_NF: np.ndarray) -> np.ndarray:
    return index.distance(points_NF) / np.sqrt(points_NF.shape[1])
