"""One round of self-play, read top to bottom. A game sees a RoundContext, never the Trainer."""

from .base import RoleBatch, Rollout, RoundContext, RoundResult
from .propose_and_solve import ProposeAndSolve

__all__ = ["ProposeAndSolve", "RoleBatch", "Rollout", "RoundContext", "RoundResult"]
