"""Make the problem sets of the arena's tracks again: `python -m tools.arena_tracks [TRACK ...]`.

Held-out and tuning problems come from their seeds alone. Targets are those candidates that the start of the track
never solves in ATTEMPTS attempts, so they also depend on its weights and on the machine that sampled, and are made
once.
"""

from __future__ import annotations

import argparse
import re
from hashlib import sha256
from typing import Any

from countdown_selfplay.evaluation.roles import evaluate_prover
from countdown_selfplay.lab.arena.sets import candidates, domain_of, lines, text_of
from countdown_selfplay.lab.arena.tracks import FOLDER, Track, load_track, tracks
from countdown_selfplay.tiny import load_tiny_model, resolve_model

ATTEMPTS = 128
EACH = 64
"""Targets of each rung."""


def unsolved(track: Track, start: str) -> str:
    """The first EACH candidates of each rung that the start never solves."""
    domain = domain_of(track)
    rows: list[dict[str, Any]] = candidates(track, domain)
    problems = [domain.problem(row) for row in rows]
    found = evaluate_prover(*load_tiny_model(resolve_model(start)), problems, domain, ATTEMPTS, (1,), max_new_tokens=6)
    kept: list[dict[str, Any]] = []
    for rung in track.rungs:
        own = [
            row for row, p, c in zip(rows, problems, found.correct, strict=True) if c == 0 and domain.rung(p) == rung
        ]
        if len(own) < EACH:
            raise SystemExit(f"{track.name}: {len(own)} of {EACH} targets of rung {rung}; raise `each`")
        kept += own[:EACH]
    return lines(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tracks", nargs="*", default=[*tracks()])
    parser.add_argument("--targets", action="store_true", help="choose the targets again too")
    asked = parser.parse_args()
    for name in asked.tracks:
        track, path = load_track(name), FOLDER / f"{name}.yaml"
        text = path.read_text(encoding="utf-8")
        made = {one.file: text_of(track, key) for key, one in track.sets.items()}
        if track.targets is not None and asked.targets:
            made[track.targets.file] = unsolved(track, "tiny-ladder")
        for file, content in made.items():
            (FOLDER / file).write_text(content, encoding="utf-8")
            sum_ = sha256(content.encode()).hexdigest()
            text = re.sub(rf'(file: {re.escape(file)},[^}}]*sha256: )"?[0-9a-f]*"?', rf"\g<1>{sum_}", text)
            print(f"{file}: {content.count(chr(10))} problems, sha256 {sum_[:12]}")
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
