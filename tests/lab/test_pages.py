# Tests: docs/plot_rewards.py, docs/metrics_page.py, docs/commands_page.py
"""What scripts of docs/ write is up to date: the charts of docs/rewards.md, the tables of metrics, the commands."""

import re
from math import inf
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.test_docs import script_of_docs, shipped

from countdown_selfplay.contract.metric import Metric
from countdown_selfplay.contract.trainer_metrics import LOG_METRICS, TRAINER_METRICS
from countdown_selfplay.games import GAMES
from countdown_selfplay.guides import GUIDES
from countdown_selfplay.proposers import PROPOSERS
from countdown_selfplay.rewards import CONJECTURER_REWARDS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def drawn():
    module = script_of_docs("plot_rewards")
    return module.charts(), module.FOLDER


def shapes(svg):
    """Words, and coordinates inside the axes; the rest differs a little between versions of matplotlib."""
    nodes = list(ElementTree.fromstring(svg).iter())
    paths = " ".join(node.get("d", "") for node in nodes if "clip-path" in node.attrib)
    words = [node.text for node in nodes if node.tag.endswith("text")]
    return words, [float(number) for number in re.findall(r"-?\d[\d.]*", paths)]


def test_the_charts_are_up_to_date_and_the_page_shows_every_one_and_names_every_reward():
    charts, folder = drawn()
    assert {path.name for path in folder.glob("*.svg")} == set(charts)
    for name, text in charts.items():
        stands, wanted = shapes((folder / name).read_text(encoding="utf-8")), shapes(text)
        again = f"{name} is out of date; run: python docs/plot_rewards.py"
        assert stands[0] == wanted[0] and stands[1] == pytest.approx(wanted[1], abs=0.01), again
    page = (DOCS / "rewards.md").read_text(encoding="utf-8")
    charts, _ = drawn()
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
