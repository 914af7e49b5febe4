# Tests: docs/domains_matrix.md, proposers/symbolic/refresh.py, proposers/targets.py, proposers/tiers.py
"""Two rounds of every proposer and every game on every domain, or the sentence that refuses it: as the page says."""

import math

import pytest

from tests.test_docs import shipped
from tests.worlds import matrix
from tests.worlds.matrix import GAMES, PAGE, PROPOSERS, ROWS, WORLDS, YES

WRITTEN = matrix.read_page(PAGE.read_text(encoding="utf-8"))
PLAYED = [cell for cell, said in WRITTEN.items() if said == YES]
REFUSED = [cell for cell, said in WRITTEN.items() if said != YES]

# What the table of docs/domains.md and the domains' own pages say of each, and what each row asks for.
HAS = {
    "countdown": {"proposals", "help", "variant", "repair", "mutations", "rungs", "sizes", "texts", "critique"},
    "detachment": {"proposals", "help", "rungs"}, "gym": {"proposals", "rungs", "levels"}, "verifiers": {"rungs"},
    "math": {"critique"}, "package": set(),
}  # fmt: skip
HAS["moves"] = HAS["countdown"] | {"derivations"}
RUNG_PROPOSERS = ["uniform_rungs", "bandit_rungs", "ucb_rungs", "thompson_rungs", "oracle_rungs"]
SYMBOLIC = ["mutation", "ucb", "thompson", "factorized"]
NEEDS = {
    "policies": {"proposals"}, "repair": {"repair"}, "targets": set(), "helped_targets": {"help"}, "stp": {"variant"},
    "oracle_targets": {"derivations"}, "tiers": {"rungs"}, "asked_tiers": {"sizes"},
    "uniform_texts": {"texts"}, "propose_and_solve": set(), "critic_discernment": {"critique"},
    **{name: {"rungs"} for name in RUNG_PROPOSERS}, **{name: {"mutations"} for name in SYMBOLIC},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def workers():
    yield
    matrix.close_shared()


def needs(package):
    pytest.importorskip(package, reason=f"{package} is not installed: make test-worlds plays the matrix")


def test_the_page_has_every_cell_of_every_part_as_the_domains_have_what_the_rows_need():
    assert set(WRITTEN) == {(row, world) for row in ROWS for world in WORLDS}
    assert matrix.page(WRITTEN) == PAGE.read_text(encoding="utf-8")
    from countdown_selfplay.games import GAMES as GAME_NAMES
    from countdown_selfplay.proposers import PROPOSERS as PROPOSER_NAMES

    assert {row.settings["proposer"] for row in PROPOSERS.values()} == set(shipped(PROPOSER_NAMES))
    assert {row.settings["game"] for row in GAMES.values()} == set(shipped(GAME_NAMES))
    assert set(PLAYED) == {(row, world) for row in ROWS for world in WORLDS if NEEDS[row] <= HAS[world]}


@pytest.mark.parametrize(("row", "world"), PLAYED)
def test_two_rounds_are_played(row, world, tmp_path):
    needs(WORLDS[world].package or "reasoning_gym")  # a minute, which belongs to make test-worlds
    found = matrix.play(row, world, tmp_path)
    assert [line["step"] for line in found.lines] == [1, 2] and found.problems
    for line in found.lines:
        assert math.isfinite(line["loss"])
        if row in RUNG_PROPOSERS:
            assert line["round/conjectured_slots"] == 8  # every slot
        elif row in SYMBOLIC:
            assert line["proposer/raw"] == 8 and line["proposer/buffer_size"] > 0  # its candidates
        elif row.endswith("targets") or row == "stp":
            assert line["targets/attempted"] > 0
        elif row.endswith("tiers"):
            assert "tier_0_rung" in line
        elif row == "critic_discernment":
            assert "helpful/read_rate" in line or "misleading/read_rate" in line


@pytest.mark.parametrize(("row", "world"), REFUSED)
def test_a_cell_that_is_not_played_is_refused_before_a_round(row, world, tmp_path):
    if WORLDS[world].package:
        needs(WORLDS[world].package)
    said = matrix.outcome(row, world, tmp_path)
    assert said == WRITTEN[row, world] and "\n" not in said
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
