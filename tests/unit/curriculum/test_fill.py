"""The starvation bug of seed 001, section 5.2, and its fix, as arithmetic."""

import pytest

from countdown_selfplay.curriculum.admission import kept_proposals


@pytest.mark.parametrize("admitted", range(1, 8))
def test_with_one_to_seven_valid_problems_truncation_keeps_none_and_fill_keeps_every_one(admitted):
    # accumulation 8, 16 slots of which 8 are anchors (anchored_shaped)
    assert kept_proposals(admitted, 16, 8, "truncate", 8) == 0
    assert kept_proposals(admitted, 16, 8, "anchor", 8) == admitted


def test_truncation_only_ever_keeps_0_or_8_of_16():
    assert {kept_proposals(n, 16, 8, "truncate", 8) for n in range(17)} == {0, 8}


def test_anchor_slots_are_never_given_away():
    assert kept_proposals(16, 16, 8, "anchor", 8) == 8
    assert kept_proposals(16, 16, 16, "anchor", 8) == 0
