"""Write what docs/results/ computes from docs/benchmarks/: `python -m tools.results`.

From the comparisons of `STUDIES` it makes docs/results/forest.json, the forest plot docs/assets/results_forest.svg,
and the parts of the pages between the marks `<!-- computed: NAME -->` and `<!-- computed: end -->`; from the arena's
standings its tables and plots, and from the rows of submissions docs/leaderboard.md. A test compares the committed
files with what this makes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from countdown_selfplay.lab.arena import leaderboard
from countdown_selfplay.lab.arena.tracks import load_track

from . import arena, arena_plots
from .plane_plot import plane
from .plot import svg
from .readers import DATA, DOCS, Row
from .rows import VERDICTS, rows_of, training_runs
from .studies import STUDIES

FOLDER, FOREST = DOCS / "results", DOCS / "assets" / "results_forest.svg"


def cells(row: Row) -> str:
    shown = f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
    p = "as printed" if row["p_holm"] is None else f"{row['p_holm']:.4f}"
    seeds = "/".join(map(str, dict.fromkeys(row["seeds"])))
    return f"{row['arm']} | {row['control']} | {row['metric']} | {seeds} | {shown} | {p} | {row['verdict']} |"


HEAD = "arm | control | metric | seeds | arm less control [95%] | p (Holm) | |"


def folded(title: str, lines: Sequence[str]) -> str:
    """A table that GitHub and the site show when it is opened."""
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n' + "\n".join(lines) + "\n\n</details>"


def rule(head: str) -> str:
    return "|---" * (head.count("|") - 1) + "|"


def of_page(page: str, rows: Sequence[Row]) -> str:
    names = {study.name for study in STUDIES if study.page == page}
    own = [row for row in rows if row["study"] in names]
    head = f"| study | {HEAD}"
    lines = [head, rule(head), *(f"| {row['study']} | {cells(row)}" for row in own)]
    return folded(f"Each arm less its control, as computed from the files ({len(own)} comparisons)", lines)


def summary(rows: Sequence[Row], runs: Mapping[str, int]) -> str:
    """A line a study: runs, and how many of its comparisons show what."""
    lines = ["| study | runs | ahead | behind | inconclusive |", "|---|---|---|---|---|"]
    for study in STUDIES:
        own = [row["verdict"] for row in rows if row["study"] == study.name]
        tally = " | ".join(str(own.count(verdict)) if own else "" for verdict in VERDICTS)
        if runs[study.name] or own:
            lines.append(f"| [{study.name}]({study.page}) | {runs[study.name] or 'the same'} | {tally} |")
    return "\n".join(lines)


def gates() -> str:
    """What `countdown-selfplay headroom` found, from its files under docs/benchmarks/ladder/headroom/."""
    lines = []
    for path in sorted((DATA / "ladder" / "headroom").rglob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or "gates" not in found:
            continue
        link = path.relative_to(DOCS).as_posix()
        lines.append(f"- [{path.relative_to(DATA / 'ladder' / 'headroom').as_posix()}](../{link}): {found['verdict']}")
        for gate in found["gates"]:
            lines.append(f"    - Gate {gate['number']} {gate['word']}: {gate['found']}.")
    return "\n".join(lines) or "The file of this measurement has not been written yet, so gate 4 has no figure here."


def between(text: str, name: str, content: str) -> str:
    """`text` with `content` between the marks `name`; unchanged if it has no such marks."""
    pattern = rf"(<!-- computed: {name} -->\n).*?(<!-- computed: end -->)"
    return re.sub(pattern, lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text, flags=re.DOTALL)


def pages(rows: Sequence[Row], runs: Mapping[str, int]) -> Iterator[tuple[Path, str]]:
    """Each page of docs/results/, and the leaderboard, as it has to be."""
    for path in sorted(FOLDER.glob("*.md")):
        text = between(path.read_text(encoding="utf-8"), "comparisons", of_page(path.name, rows))
        text = between(between(text, "studies", summary(rows, runs)), "gates", gates())
        for name, content in arena.parts(arena.standings()).items():
            text = between(text, name, content)
        if path.name == "index.md":
            text = re.sub(r"^# .*", f"# Does self-play pay? What {sum(runs.values())} runs say", text, count=1)
        yield path, text
    path = DOCS / "leaderboard.md"
    submitted = leaderboard.read_rows(DATA / "arena" / "leaderboard")
    yield path, between(path.read_text(encoding="utf-8"), "leaderboard", leaderboard.markdown(submitted))


def written(rows: Sequence[Row], runs: Mapping[str, int]) -> dict[Path, str]:
    """Path -> text of everything that this writes."""
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
    forest = f'{{\n "runs": {json.dumps(runs, ensure_ascii=False)},\n "rows": [\n{lines}\n ]\n}}\n'
    drawn = {FOREST.parent / name: one for name, one in arena_plots.drawn(arena.standings()).items()}
    if (picture := plane(DATA / "arena" / "plane", load_track("plane").rows("held_out"))) is not None:
        drawn[FOREST.parent / "arena_plane.svg"] = picture
    return {FOLDER / "forest.json": forest, FOREST: svg(rows), **drawn, **dict(pages(rows, runs))}


def main() -> None:
    runs = training_runs()
    for path, text in written([row for study in STUDIES for row in rows_of(study)], runs).items():
        path.write_text(text, encoding="utf-8")
    print(f"wrote {FOLDER.relative_to(DOCS.parent)} and {FOREST.name}: {sum(runs.values())} runs")


if __name__ == "__main__":
    main()
