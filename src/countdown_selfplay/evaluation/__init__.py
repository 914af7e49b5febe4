"""Evaluation that settles arguments: unbiased pass@k, paired bootstrap, roles on held-out problems. No torch until
it is needed."""

from .bootstrap import Estimate, Interval, bootstrap_mean, paired_bootstrap
from .pass_at_k import pass_at_k, pass_at_k_array

__all__ = ["Estimate", "Interval", "bootstrap_mean", "paired_bootstrap", "pass_at_k", "pass_at_k_array"]
