# Tests: domains/__init__.py
"""A domain in a package outside the repository (tests/worlds/package), built and installed by pip, offline."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from countdown_selfplay.domains import make_domain
from countdown_selfplay.errors import ConfigError, UnknownNameError

NAME = "largest_first:LargestFirst"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package in a folder of its own, first on the path."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(Path(__file__).parent / "package", folder / "source")
    flags = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *flags, "--target", str(folder / "lib"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sys.modules.pop("largest_first", None)  # the matrix takes it from its sources
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / "lib"))
        yield folder / "lib"
        sys.modules.pop("largest_first", None)


def test_an_installed_package_is_found_by_its_name(installed):
    assert importlib.metadata.version("largest-first") == "0.1.0"
    domain = make_domain(NAME, {"high": 20})
    assert domain.to_dict() == {"domain": "largest_first", "high": 20}
    assert Path(sys.modules["largest_first"].__file__).is_relative_to(installed)


@pytest.mark.parametrize(("name", "arguments", "error", "said"), [
    ("largest_first:LargestLast", {}, UnknownNameError, "has no 'LargestLast'.* Did you mean 'LargestFirst'"),
    ("largest_frist:LargestFirst", {}, ConfigError, "must lie in the current folder or be installed"),
    (NAME, {"high": 2}, ConfigError, r"`high` \(2\) of domain .* must be a whole number .*3.*99.*leave it out for 12"),
], ids=["class", "package", "argument"])  # fmt: skip
def test_a_wrong_name_or_argument_is_refused(installed, name, arguments, error, said):
    with pytest.raises(error, match=said):
        make_domain(name, arguments)
