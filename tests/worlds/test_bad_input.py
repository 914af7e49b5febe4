# Tests: worlds/reasoning_gym.py, worlds/verifiers.py
"""An extra that is not installed is named. What else a user or a model gets wrong stands with each domain's tests."""

import importlib.metadata
import importlib.util

import pytest

from countdown_selfplay.domains import make_domain
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.worlds import verifiers


@pytest.mark.parametrize("old", [False, True], ids=["absent", "of the interface v0"])
def test_an_extra_that_is_not_installed_is_named_with_its_pip_line(old, monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    def find_spec(name):
        if not old:
            raise ModuleNotFoundError(name)

    verifiers._loaded.cache_clear()
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    for domain, extra in (("reasoning_gym", "gym"), ("verifiers", "verifiers")):
        with pytest.raises(ConfigError, match=rf"pip install 'countdown-selfplay\[{extra}\]'"):
            make_domain(domain, {"task": "chain_sum"} if extra == "gym" else {"taskset": "small_sums"})
