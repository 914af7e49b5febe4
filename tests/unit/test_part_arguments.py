# Tests: registry.py, options.py, cli/help.py
"""registry.py, cli/help.py: arguments of parts are checked by their annotations, and printed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import MinLen

from countdown_selfplay.cli.help import KINDS, print_parts
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.registry import Count, Registry, Share, annotations_of, fits
from tests.installed import here


class Part:
    """Plays. It does more.

    count: how often; and this.
    """

    def __init__(self, count: Count, share: Share = 0.5, kind: Literal["a", "b"] = "a", free=None) -> None:
        self.given = (count, share, kind, free)


PARTS: Registry[Any] = Registry("part", {"mine": Part})


VALUES = [
    (True, int, False), (3.0, int, False), ("3", int, False), (np.int64(3), Count, True), (0, Count, False),
    (3, float, True), (True, float, False), (float("nan"), float, False), (10**400, float, False),
    (np.float32(0.5), Share, True), (None, Share | None, True), (1.5, Share | None, False),
    ([1, 2], tuple[int, ...], True), ("ab", Sequence[str], False), ("ab", list[Any], False), ((1, 2), list[Any], True),
    ([1, True], Sequence[int], False), ([], Annotated[Sequence[int], MinLen(1)], False), ("a/b", Path, True),
    ({1: {2: 0.5}}, Mapping[int, Mapping[int, float]], True), (len, Callable[..., Any] | str, True),
    (3, Callable[..., Any] | str, False), (object(), Registry, True),  # a class that pydantic does not know
]  # fmt: skip


@pytest.mark.parametrize(("value", "hint", "good"), VALUES)
def test_a_value_fits_an_annotation_strictly(value, hint, good):
    assert fits(value, hint) is good


def test_values_that_fit_are_handed_on_as_they_are():
    assert PARTS.make("mine", {"count": 2, "share": 1, "free": "any"}).given == (2, 1, "a", "any")
    assert PARTS.make("mine", {"count": 2}, share=0.25, other=3).given == (2, 0.25, "a", None)


@pytest.mark.parametrize("entry", [3, type])  # inspect.signature raises TypeError and ValueError
def test_an_entry_without_a_signature_is_refused(entry):
    with pytest.raises(ConfigError, match=f"The part 'mine' is {entry!r}, which cannot be built; name a class or"):
        PARTS.parameters("mine", entry)


@pytest.mark.parametrize("kind", KINDS)
def test_each_argument_of_each_part_is_annotated(kind):
    registry = KINDS.load(kind)
    for name in here(registry):
        entry = registry.load(name)
        assert set(registry.parameters(name, entry)) <= set(annotations_of(entry)), name


def test_parts_are_printed_with_type_range_default_and_help(capsys):
    print_parts("proposer", "targets")
    said = capsys.readouterr().out
    assert said.startswith("targets\n    Policies whose requests are for steps")
    assert "  batch: a whole number of at least 1 or null (default null)\n      targets per round, every" in said
    print_parts("domain", "countdown")  # strings under fields
    assert "  value_high: a whole number (default 99)\n      Largest result of a move.\n" in capsys.readouterr().out
    for kind in KINDS:
        print_parts(kind)
    assert "\nuniform_rungs\n" in capsys.readouterr().out
