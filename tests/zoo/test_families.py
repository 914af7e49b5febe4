# Tests: policies/reading.py, policies/decode.py, policies/forward.py
"""Every family of the zoo is trained, sampled and scored as Transformers alone does, or refused in one sentence."""

import pytest

from tests.zoo.families import FAMILIES
from tests.zoo.play import outcome


def test_the_zoo_has_sixty_families():
    assert len(FAMILIES) >= 60


@pytest.mark.nightly
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_right_or_refused(name, tmp_path):
    kind, seen = outcome(name, tmp_path)
    assert kind in ("right", "refused", "absent"), seen
