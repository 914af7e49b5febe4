"""Rewards by name: the conjecturer's (of solve rates) and the prover's (TRL callables). Imports no torch."""

from __future__ import annotations

from ..countdown import problem_of_key
from .base import ConjecturerReward, RewardContext, checked_rewards, refused_reward
from .composition import Clip, Composable, Product, Sum
from .factory import CONJECTURER_REWARDS, make_conjecturer_reward

__all__ = [
    "CONJECTURER_REWARDS",
    "Clip",
    "Composable",
    "ConjecturerReward",
    "Product",
    "RewardContext",
    "Sum",
    "checked_rewards",
    "make_conjecturer_reward",
    "problem_of_key",
    "refused_reward",
]
