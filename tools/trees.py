"""Source trees of this repository: the working tree, or any commit written to a folder."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def write_tree(commit: str, folder: Path) -> Path:
    """The files of `commit` in `folder`; git's list of worktrees and the index stay as they are."""
    archive = folder.with_name(f"{folder.name}.tar")
    command = ["git", "-C", str(ROOT), "archive", f"--output={archive}", commit]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{commit!r} must name a commit of this repository; git says: {done.stderr.strip()}")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()
    return folder
