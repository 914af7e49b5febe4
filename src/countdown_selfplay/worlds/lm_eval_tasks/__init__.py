"""Tasks of lm-eval (EleutherAI, 0.4.13): `lm_eval --include_path FOLDER`, where FOLDER is `TASKS`."""

from pathlib import Path

TASKS: Path = Path(__file__).parent
"""Folder of the task files."""
