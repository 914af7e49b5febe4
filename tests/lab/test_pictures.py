# Tests: docs/pictures
"""The pictures of the pages are what the scripts of docs/pictures draw, and the gallery shows every chart."""

import re
from xml.etree import ElementTree

import pytest
from docs.pictures.__main__ import ASSETS, pictures
from docs.pictures.diagrams import DIAGRAMS, MOVES
from docs.pictures.playgrounds import COMMANDS, write

from countdown_selfplay.countdown.moves import play
from countdown_selfplay.countdown.rules import Rules
from countdown_selfplay.countdown.verifier import Verdict
from countdown_selfplay.lab.report.panels import MEASURED

DOCS = ASSETS.parent
PAGES = {"concepts": "round", "pools": "pools", "sgs": "sgs", "critic_game": "critic-game", "symbolic": "symbolic"}
PAGES |= {"ladder": "episode"}


@pytest.fixture(scope="module")
def drawn():
    return pictures()


def words(svg):
    """Texts of a picture; coordinates differ a little between versions of matplotlib."""
    return [node.text for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("text")]


def test_the_files_hold_the_words_that_the_scripts_draw_and_nothing_to_fetch(drawn):
    files = [*(f"{name}.svg" for name in DIAGRAMS), *(f"gallery/{path.name}" for path in ASSETS.glob("gallery/*"))]
    assert sorted(files) == sorted(f"{name}.svg" for name in drawn)
    for name, text in drawn.items():
        stands = (ASSETS / f"{name}.svg").read_text(encoding="utf-8")
        assert words(stands) == words(text), f"{name} is out of date; run: python -m docs.pictures"
    for name, text in drawn.items():
        assert words(text) and "prefers-color-scheme: dark" in text, name
        assert "@font-face" not in text and "<image" not in text and "<dc:date>" not in text, name
        assert len(text) < (40_000 if name in ("ladder", "headroom") else 20_000), name


def test_the_gallery_shows_each_chart_by_its_title(drawn):
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r"^!\[([^\]]+)\]\(assets/(.+?)\.svg\)\n\n\*\*(.+?)\.\*\* ", text, re.MULTILINE)
    assert sorted(name for _, name, _ in shown) == sorted({*drawn} - {*DIAGRAMS} | {"ladder"})
    assert [title for title, _, said in shown if title != said] == []
    counted = {"The targets solved last": "The 10", "Of the targets that the baseline": "Of the"}
    for title, name, _ in shown:
        known = [word for start, word in counted.items() if title.startswith(start)] or [title]
        assert (name == "ladder" and title == MEASURED) or any(
            line.startswith(known[0]) for line in words(drawn[name])
        ), title


def test_the_moves_of_the_episode_are_legal_and_the_last_one_is_right():
    rules = Rules(answer_format="bare")
    for i, (shown, move) in enumerate(MOVES):
        numbers, target = shown.split(" : ")
        found = play(move, [int(number) for number in numbers.split()], int(target), rules, 10_000)
        if i + 1 < len(MOVES):
            assert " ".join(map(str, found)) == MOVES[i + 1][0].split(" : ")[0]
        else:
            assert isinstance(found, Verdict) and found.score == 1.0


@pytest.mark.parametrize("name", COMMANDS)
def test_the_recorded_games_are_what_the_command_makes_of_their_samples(name, tmp_path):
    """The page of a run depends on nothing but its folder; the command stands on it and in the documentation."""
    write(name, tmp_path / "page.html")
    stands = (ASSETS / f"playground-{name}.html").read_bytes()
    assert stands == (tmp_path / "page.html").read_bytes(), "run: python -m docs.pictures.playgrounds"
    assert len(stands) < 150_000
    text = (DOCS / "playground.md").read_text(encoding="utf-8")
    assert f"\n{COMMANDS[name]}\n" in text and COMMANDS[name].encode() in stands
