"""What a run remembers of its own problems, and the guard that watches over them. Plain JSON state, equal on all
processes."""

from .guard import CollapseGuard, Trip
from .state import CurriculumState

__all__ = ["CollapseGuard", "CurriculumState", "Trip"]
