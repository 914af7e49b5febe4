"""Sets of policies: `full` (one model per role), `lora` (one adapter per role), `tied` (shared weights)."""

from .base import PolicySet, inner_name
from .build import build_policies

__all__ = ["PolicySet", "build_policies", "inner_name"]
