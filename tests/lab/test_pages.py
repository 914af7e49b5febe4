# Tests: docs/plot_rewards.py, docs/metrics_page.py, docs/commands_page.py, docs/pictures
"""What scripts of docs/ write is up to date: charts, tables of metrics, commands and pictures."""

import re
from math import inf
from pathlib import Path
from xml.etree import ElementTree

import pytest
from docs.pictures.__main__ import ASSETS, pictures
from docs.pictures.diagrams import DIAGRAMS
from docs.pictures.playgrounds import COMMANDS, write
from tests.test_docs import script_of_docs, shipped

from countdown_selfplay.contract.metric import Metric
from countdown_selfplay.contract.trainer_metrics import LOG_METRICS, TRAINER_METRICS
from countdown_selfplay.games import GAMES
from countdown_selfplay.guides import GUIDES
from countdown_selfplay.proposers import PROPOSERS
from countdown_selfplay.rewards import CONJECTURER_REWARDS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def words(svg):
    """Texts of a picture; coordinates differ a little between versions of matplotlib."""
    return [node.text for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("text")]


def coordinates(svg):
    """Those inside the axes."""
    paths = " ".join(node.get("d", "") for node in ElementTree.fromstring(svg).iter() if "clip-path" in node.attrib)
    return [float(number) for number in re.findall(r"-?\d[\d.]*", paths)]


def test_the_charts_are_up_to_date_and_the_page_shows_every_one_and_names_every_reward():
    module = script_of_docs("plot_rewards")
    charts, folder = module.charts(), module.FOLDER
    assert {path.name for path in folder.glob("*.svg")} == set(charts)
    for name, text in charts.items():
        stands = (folder / name).read_text(encoding="utf-8")
        again = f"{name} is out of date; run: python docs/plot_rewards.py"
        assert words(stands) == words(text), again
        assert coordinates(stands) == pytest.approx(coordinates(text), abs=0.01), again
    page = (DOCS / "rewards.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(assets/rewards/(.+?)\)", page)) == set(charts)
    assert [name for name in CONJECTURER_REWARDS if f"`{name}`" not in page] == []


def test_the_pages_of_metrics_and_commands_are_what_declarations_and_parsers_say():
    script = script_of_docs("metrics_page")
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.page(text) == text, "run: python docs/metrics_page.py"
    listed = [metric for _, metrics in script.SECTIONS.values() for metric in metrics]
    parts = [registry.load(name) for registry in (GAMES, PROPOSERS, GUIDES) for name in shipped(registry)]
    own = {metric for part in parts for metric in getattr(part, "metrics", ())}
    assert sorted(listed, key=repr) == sorted({*own, *TRAINER_METRICS, *LOG_METRICS}, key=repr)
    assert [metric.name for metric in listed if f"| `{script.shown(metric.name)}` |" not in text] == []
    half = Metric("{prover}/x", "a | b.", healthy=(-inf, 0.5), trip=(0.1, inf), in_a_row=3, finite=True)
    rules = "mean outside at least 0.1, above 0 in 3 rounds in a row, not finite"
    assert script.row(half) == f"| `prover/x` | a \\| b. | at most 0.5 | {rules} | |"
    # Else: python docs/commands_page.py
    module = script_of_docs("commands_page")
    assert module.PAGE.read_text() == module.page()
    assert module.FILE.read_text() == module.options_file()


def test_the_files_hold_the_words_that_the_scripts_draw_and_nothing_to_fetch():
    drawn = pictures()
    files = [*(f"{name}.svg" for name in DIAGRAMS), *(f"gallery/{path.name}" for path in ASSETS.glob("gallery/*"))]
    assert sorted(files) == sorted(f"{name}.svg" for name in drawn)
    for name, text in drawn.items():
        stands = (ASSETS / f"{name}.svg").read_text(encoding="utf-8")
        assert words(stands) == words(text), f"{name} is out of date; run: python -m docs.pictures"
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
