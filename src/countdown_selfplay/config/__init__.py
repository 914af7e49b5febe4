"""JointSelfPlayConfig: TRL's GRPOConfig plus the settings of two roles, their game and the collapse guard."""

from .joint import JointSelfPlayConfig, RoleSettings

__all__ = ["JointSelfPlayConfig", "RoleSettings"]
