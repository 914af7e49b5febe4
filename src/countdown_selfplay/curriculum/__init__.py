"""State and health of the curriculum, and which proposals may be played."""

from .admission import Archive
from .guard import CollapseGuard, ConjecturerGuard, Trip

__all__ = ["Archive", "CollapseGuard", "ConjecturerGuard", "Trip"]
