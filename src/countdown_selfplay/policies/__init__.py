"""Sets of policies, by how roles share weights: `full` (one model each), `lora` (one base, one adapter each), `tied`
(the same weights)."""

from .base import PolicySet, inner_name
from .build import build_policies

__all__ = ["PolicySet", "build_policies", "inner_name"]
