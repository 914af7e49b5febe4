"""The arena: every curriculum on the same frozen tracks, at equal answers of the prover and equal updates.

A track (`tracks.py`) is a start, a training source, a budget and problems that nobody trains on; a contestant
(`contestants.py`) is a set of changes to the track's settings; a job (`job.py`) is one contestant on one track with
one seed, and leaves one JSON file. `board.py` compares the files, `schedule.py` plays those that are missing."""

from .board import as_text, standings
from .contestants import entrant
from .schedule import Asked, Place, Schedule
from .tracks import load_track

__all__ = ["Asked", "Place", "Schedule", "as_text", "entrant", "load_track", "standings"]
