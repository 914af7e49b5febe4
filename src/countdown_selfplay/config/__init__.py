"""JointSelfPlayConfig: TRL's GRPOConfig plus the settings of its roles, their game and the collapse guard."""

from .joint import JointSelfPlayConfig
from .players import RoleSettings
from .roles import RoleConfig

__all__ = ["JointSelfPlayConfig", "RoleConfig", "RoleSettings"]
