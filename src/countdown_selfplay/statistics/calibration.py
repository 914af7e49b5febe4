"""Calibration of estimated probabilities: Brier score, AUC, and the reliability of each bin. Needs only NumPy."""

from __future__ import annotations

import numpy as np

BINS = 10


def brier(p_N: np.ndarray, rate_N: np.ndarray) -> float:
    """Return the mean squared error against the single answers of N problems, of which a share `rate` was right (equal
    weights): (p - rate)^2 + rate (1 - rate). 0 is perfect; 0.25 is p = 1/2 everywhere."""
    return float(np.mean((p_N - rate_N) ** 2 + rate_N * (1 - rate_N)))


def auc(p_N: np.ndarray, rate_N: np.ndarray) -> float | None:
    """Return the probability that a right answer belongs to a problem with a higher p than a wrong answer; ties count
    a half. None without right or wrong answers."""
    _, place_N = np.unique(p_N, return_inverse=True)
    right, wrong = np.bincount(place_N, rate_N), np.bincount(place_N, 1 - rate_N)
    if not right.sum() or not wrong.sum():
        return None
    below = np.concatenate([[0.0], np.cumsum(wrong)[:-1]])
    return float((right * (below + wrong / 2)).sum() / (right.sum() * wrong.sum()))


def reliability(p_N: np.ndarray, rate_N: np.ndarray, bins: int = BINS) -> list[tuple[int, float, float]]:
    """Return (problems, mean p, mean rate) of each tenth of p with problems."""
    place_N = np.minimum((p_N * bins).astype(int), bins - 1)
    bins_N = [place_N == b for b in range(bins)]
    return [(int(at.sum()), float(p_N[at].mean()), float(rate_N[at].mean())) for at in bins_N if at.any()]


def calibration_error(p_N: np.ndarray, rate_N: np.ndarray, bins: int = BINS) -> float:
    """Return the mean |mean p - mean rate| over the bins, weighted by their problems. 0 is calibrated."""
    return sum(n * abs(p - rate) for n, p, rate in reliability(p_N, rate_N, bins)) / max(len(p_N), 1)
