"""Admission of proposals, the archive of played problems, and the collapse guard."""

from .admission import Archive
from .guard import CollapseGuard, ConjecturerGuard, Trip

__all__ = ["Archive", "CollapseGuard", "ConjecturerGuard", "Trip"]
