"""Policy gradient of pass@k (Walder & Karkhanis 2025, PKPO; Tang et al. 2025)."""

from math import comb

import torch

from ..registry import Count
from .rloo import RLOO, High, Low


class PassAtK(RLOO):
    """Variant of RLOO that maximises the probability that one of k samples is correct.

    With n samples, c of them correct, and rho(m, d, j) = 1 - C(m - d, j) / C(m, j) (pass@j of m samples, d correct):

        A_i = k * (E[pass@k of k samples with y_i among them] - E[pass@k of k of the other samples])
            = k * (1 - rho(n-1, c-1, k))               if y_i is correct
            = k * (rho(n-1, c, k-1) - rho(n-1, c, k))  if it is wrong.

    The first expectation is exact over the subsets of the group, the second is a baseline independent of y_i, so that
    the mean of A_i grad log pi(y_i) is an unbiased gradient of pass@k; k = 1 is RLOO on correctness. A frequently
    solved problem has advantages close to 0, which preserves the diversity of its answers. Only correctness counts; a
    role without a verifier cannot use it. Degenerate: all correct or none -> 0.

    k: from 1 to n - 1."""

    needs_correctness = True
    reads_rewards = False
    overlong_replaces = "credit"  # right answers are counted

    def __init__(self, k: Count = 4, low: Low = 0.5, high: High = 2.0) -> None:
        super().__init__(low, high)
        self.k = k
        self.needs_samples = k + 1

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None = None) -> torch.Tensor:
        if correct_PG is None:
            raise ValueError("pass_at_k needs the verifier's bit, which only the prover has; use rloo.")
        n = correct_PG.size(1)
        if self.k > n - 1:
            raise ValueError(f"`k` ({self.k}) must be below the {n} answers per problem; lower it or sample more.")
        table = torch.tensor([_credit(n, c, self.k) for c in range(n + 1)], dtype=rewards_PG.dtype)
        right_P1, wrong_P1 = table.to(rewards_PG.device)[correct_PG.sum(1).long()].T[:, :, None]
        return torch.where(correct_PG > 0, right_P1, wrong_P1)


def _credit(n: int, c: int, k: int) -> tuple[float, float]:
    """Return the advantages of a correct and of a wrong sample in a group of n with c correct."""

    def rho(d: int, j: int) -> float:
        return 1.0 - comb(n - 1 - d, j) / comb(n - 1, j)

    right = k * (1.0 - rho(c - 1, k)) if c else 0.0
    wrong = k * (rho(c, k - 1) - rho(c, k)) if c < n else 0.0
    return right, wrong
