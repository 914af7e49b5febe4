"""Iterated self-play: play, choose samples, retrain every role from its initial model (Wang et al.)."""

from .driver import IteratedSelfPlay
from .settings import IteratedSettings, RoleTraining

__all__ = ["IteratedSelfPlay", "IteratedSettings", "RoleTraining"]
