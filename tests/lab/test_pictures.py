# Tests: docs/pictures
"""The pictures of the pages are what the scripts of docs/pictures draw, and the gallery shows every chart."""

from xml.etree import ElementTree

import pytest
from docs.pictures.__main__ import ASSETS, pictures
from docs.pictures.diagrams import DIAGRAMS
from docs.pictures.playgrounds import COMMANDS, write

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


@pytest.mark.parametrize("name", COMMANDS)
def test_the_recorded_games_are_what_the_command_makes_of_their_samples(name, tmp_path):
    """The page of a run depends on nothing but its folder; the command stands on it and in the documentation."""
    write(name, tmp_path / "page.html")
    stands = (ASSETS / f"playground-{name}.html").read_bytes()
    assert stands == (tmp_path / "page.html").read_bytes(), "run: python -m docs.pictures.playgrounds"
    assert len(stands) < 150_000
    text = (DOCS / "playground.md").read_text(encoding="utf-8")
    assert f"\n{COMMANDS[name]}\n" in text and COMMANDS[name].encode() in stands
