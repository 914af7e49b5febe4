"""The modules of benchmarks/, which import each other by their bare names."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def bench():
    """Imports one of them."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield import_module
    finally:
        sys.path.remove(str(BENCHMARKS))
        for path in BENCHMARKS.glob("*.py"):
            sys.modules.pop(path.stem, None)
