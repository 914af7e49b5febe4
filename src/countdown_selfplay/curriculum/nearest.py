"""Exact distance to the nearest of many points, to which every round may add some."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import MissingExtraError

BLOCK = 2048
"""Fewer points than this are put into a tree of their own at every search: that takes a millisecond."""


class _Tree(NamedTuple):
    points: int
    tree: Any


class Nearest:
    """Trees of 1, 2, 4, ... blocks cover all but the last few points (Bentley and Saxe's logarithmic method): a point
    takes part in at most log2(n / BLOCK) builds, and no search waits for all to be built anew. Which tree holds which
    points depends on the number of points alone.

    Repeated points are held once: by the 7 features of solution trees a million problems are a few hundred points, and
    a tree cannot part equal points. MissingExtraError, at the first object, without SciPy.
    """

    def __init__(self, dimensions: int) -> None:
        self._build = _tree_class()
        self._held = np.zeros((0, dimensions))  # with room at its end
        self._count = 0
        self._trees: list[_Tree] = []
        self._rest: Any = None

    def __len__(self) -> int:
        return self._count

    @property
    def points_AF(self) -> np.ndarray:
        """(points, dimensions) in the order in which they were added."""
        return self._held[: self._count]

    def add(self, points_NF: np.ndarray) -> None:
        """(N, dimensions) more points."""
        need = self._count + len(points_NF)
        if need > len(self._held):
            room = np.zeros((max(need, 2 * len(self._held)), self._held.shape[1]))
            room[: self._count] = self.points_AF
            self._held = room
        self._held[self._count : need] = points_NF
        self._count, self._rest = need, None
        # The sizes of the trees are the binary digits of the number of whole blocks; those that stay are not rebuilt.
        sizes, kept = _sizes(need // BLOCK), 0
        while kept < min(len(self._trees), len(sizes)) and self._trees[kept].points == sizes[kept]:
            kept += 1
        start, self._trees = sum(sizes[:kept]), self._trees[:kept]
        for size in sizes[kept:]:
            self._trees.append(_Tree(size, self._tree(self.points_AF[start : start + size])))
            start += size

    def distance(self, points_NF: np.ndarray) -> np.ndarray:
        """(N,) Euclidean distances to the nearest point; infinite where there is none."""
        covered = sum(part.points for part in self._trees)
        if self._rest is None and covered < self._count:
            self._rest = self._tree(self.points_AF[covered:])
        trees = [part.tree for part in self._trees] + ([] if self._rest is None else [self._rest])
        distance_N = np.full(len(points_NF), np.inf)
        for tree in trees if len(points_NF) else []:
            distance_N = np.minimum(distance_N, tree.query(points_NF)[0])
        return distance_N

    def _tree(self, points_AF: np.ndarray) -> Any:
        """Not balanced: with 13 features of real problems that is three times as fast to build and to search."""
        return self._build(_distinct(points_AF), balanced_tree=False)


def _sizes(blocks: int) -> list[int]:
    """Points in each tree, the largest first: 5 blocks are trees of 4 and 1."""
    return [BLOCK << bit for bit in reversed(range(blocks.bit_length())) if blocks >> bit & 1]


def _distinct(points_AF: np.ndarray) -> np.ndarray:
    """The points without repeats: neighbours in the order of a projection are compared in full. (NumPy's `unique` of
    rows takes twenty times as long.)"""
    weights_F = np.sqrt(np.arange(2, 2 + points_AF.shape[1]))
    sorted_AF = points_AF[np.argsort(points_AF @ weights_F, kind="stable")]
    new_A = np.ones(len(sorted_AF), dtype=bool)
    new_A[1:] = (sorted_AF[1:] != sorted_AF[:-1]).any(axis=1)
    return sorted_AF[new_A]


def _tree_class() -> Any:
    try:
        from scipy.spatial import cKDTree
    except ImportError:
        raise MissingExtraError(
            "The archive of a symbolic proposer is searched with SciPy, which is not installed; "
            "pip install 'countdown-selfplay[symbolic]'."
        ) from None
    return cKDTree
