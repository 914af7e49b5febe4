# Tests: worlds/verifiers.py
"""`domain: verifiers` without its package; tests/worlds/test_verifiers.py has the rest."""

import importlib.util

import pytest

from countdown_selfplay.domains import make_domain
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.worlds import verifiers


@pytest.mark.parametrize("old", [False, True], ids=["absent", "of the interface v0"])
def test_an_absent_package_is_refused_with_the_line_that_installs_it(monkeypatch, old):
    def find_spec(name):
        assert name == "verifiers.v1"
        if not old:
            raise ModuleNotFoundError(name)

    verifiers._loaded.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(ConfigError, match=r"needs verifiers 0\.4.*`pip install 'countdown-selfplay\[verifiers\]'`"):
        make_domain("verifiers", {"taskset": "small_sums"})
