"""Evaluation of models: unbiased pass@k, bootstrap intervals, sampling, evaluation of each role, reports. The
statistics need only NumPy; modules that sample load torch on first use."""

import importlib
from typing import TYPE_CHECKING, Any

from ..packages import CALLED, absent_names, attribute_of
from ..statistics.bootstrap import (
    Estimate,
    Interval,
    bootstrap_mean,
    holm,
    paired_bootstrap,
    t_interval,
    two_level_bootstrap,
    wilson_interval,
)
from ..statistics.pass_at_k import majority_at_k, pass_at_k, pass_at_k_array
from ..statistics.solved import CumulativeSolveRate

_LAZY = {
    **dict.fromkeys(("evaluate_prover", "evaluate_conjecturer", "ProverEvaluation", "ConjecturerEvaluation"), "roles"),
    "sample_texts": "sampling",
    "load_model": "model",
}

__all__ = [
    "ConjecturerEvaluation", "CumulativeSolveRate", "Estimate", "Interval", "ProverEvaluation", "ScalingFit",
    "bootstrap_mean", "evaluate_conjecturer", "evaluate_prover", "fit_scaling_curve", "holm", "load_model",
    "majority_at_k", "paired_bootstrap", "pass_at_k", "pass_at_k_array", "sample_texts", "t_interval",
    "two_level_bootstrap", "wilson_interval", "write_report",
]  # fmt: skip
__all__[:] = [name for name in __all__ if name not in absent_names(CALLED)]

if TYPE_CHECKING:
    from .model import load_model
    from .roles import ConjecturerEvaluation, ProverEvaluation, evaluate_conjecturer, evaluate_prover
    from .sampling import sample_texts


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    if name in ("ScalingFit", "fit_scaling_curve", "write_report"):
        return attribute_of(CALLED[name], f"countdown_selfplay.evaluation.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
