"""Models that the tests of this folder share."""

import pytest


@pytest.fixture(scope="session")
def character_model(tmp_path_factory):
    """The folder of a model and its tokenizer, whose tokens are characters (models.py)."""
    from tests.worlds.models import character_model as written

    return written(tmp_path_factory.mktemp("characters"))
