# Tests: tools/results, lab/arena/board.py
"""docs/results/arena.md says what the files of the jobs under docs/benchmarks/arena say."""

import json
from xml.etree import ElementTree

from tools.results import __main__ as pages
from tools.results import arena, arena_plots
from tools.results.readers import DATA

AGAIN = "out of date; run: countdown-selfplay arena --table --output docs/benchmarks/arena; python -m tools.results"
PAGE = pages.FOLDER / "arena.md"


def jobs(track):
    own = [p for p in (DATA / "arena" / track).glob("*.json") if not p.name.endswith(".failed.json")]
    return [json.loads(path.read_text(encoding="utf-8")) for path in own]


def test_the_committed_page_and_plots_are_those_of_the_standings():
    found = arena.standings()
    text = PAGE.read_text(encoding="utf-8")
    made = text
    for name, content in arena.parts(found).items():
        made = pages.between(made, name, content)
    assert made == text, AGAIN
    for name, one in arena_plots.drawn(found).items():
        assert (pages.DOCS / "assets" / name).read_text(encoding="utf-8") == one, AGAIN
        assert ElementTree.fromstring(one).tag.endswith("svg") and f"assets/{name}" in text
        assert "nan" not in one
    text = PAGE.read_text(encoding="utf-8").partition("<!-- computed")[0]
    scores = {row["contestant"]: row["score"]["pass@1"]["value"] for row in arena.standings()["ladder"]["rows"]}
    assert [name for name, value in scores.items() if f"{value:.3f}"[1:] not in text] == []
