"""Data sets as problems, and the files of a run folder."""
