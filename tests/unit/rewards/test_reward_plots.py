# Tests: rewards/factory.py
"""The charts of docs/rewards.md are what docs/plot_rewards.py draws from the rewards as they are now."""

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from countdown_selfplay.rewards import CONJECTURER_REWARDS

DOCS = Path(__file__).resolve().parents[3] / "docs"


def drawn():
    spec = importlib.util.spec_from_file_location("plot_rewards", DOCS / "plot_rewards.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.charts(), module.FOLDER


def shapes(svg):
    """Words, and coordinates inside the axes; the rest differs a little between versions of matplotlib."""
    nodes = list(ElementTree.fromstring(svg).iter())
    paths = " ".join(node.get("d", "") for node in nodes if "clip-path" in node.attrib)
    words = [node.text for node in nodes if node.tag.endswith("text")]
    return words, [float(number) for number in re.findall(r"-?\d[\d.]*", paths)]


def test_the_charts_are_up_to_date_and_complete():
    charts, folder = drawn()
    assert {path.name for path in folder.glob("*.svg")} == set(charts)
    for name, text in charts.items():
        stands, wanted = shapes((folder / name).read_text(encoding="utf-8")), shapes(text)
        again = f"{name} is out of date; run: python docs/plot_rewards.py"
        assert stands[0] == wanted[0] and stands[1] == pytest.approx(wanted[1], abs=0.01), again


def test_the_page_shows_every_chart_and_names_every_reward():
    page = (DOCS / "rewards.md").read_text(encoding="utf-8")
    charts, _ = drawn()
    assert set(re.findall(r"\(assets/rewards/(.+?)\)", page)) == set(charts)
    assert [name for name in CONJECTURER_REWARDS if f"`{name}`" not in page] == []
