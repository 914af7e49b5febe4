"""Settings of papers' evaluations, by name: one flag gives all compared models the same."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "joint_rloo": {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_new_tokens": 2048},
    "cdg": {"temperature": 0.95, "top_p": 1.0, "top_k": 10, "max_new_tokens": 8192},
}
"""joint_rloo: Allen and Ståblein, section 4, for all directly compared models. cdg: Wang et al. 2025, appendix C.1,
majority voting (its pass@1 is greedy, and `eval --eval_preset cdg` answers greedily too)."""

RULES: dict[str, dict[str, Any]] = {"joint_rloo": {"leading_minus": True}}
"""Countdown's Rules of the paper's comparison, where they are not the default: those of its recipes."""

SAMPLES = {"cdg": 32}
"""Answers per problem where the paper has another number than 16: majority@8 and @32."""

ATTEMPTS, MOST = 8, 2
"""Of SGS's target set (appendix D, step 2): problems solved more than 2 of 8 times are left out."""

TRAINING = "training"
"""The setting in which a role samples in training."""


def preset(name: str, own: dict[str, Any]) -> dict[str, Any]:
    """temperature, top_p, top_k and max_new_tokens of the preset; `own` for the training setting."""
    return dict(own if name == TRAINING else PRESETS[name])
