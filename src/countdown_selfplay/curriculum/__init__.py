"""What a run remembers of its own problems, and the guard that watches over them. Plain JSON state, equal on all
processes."""

from .archive import CurriculumState
from .guard import CollapseGuard, Trip

__all__ = ["CollapseGuard", "CurriculumState", "Trip"]
