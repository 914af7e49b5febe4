"""What of the library is here: a package beside the core may be left out of an installation (packages.py)."""

from collections.abc import Iterable

from countdown_selfplay.cli.commands import COMMANDS
from countdown_selfplay.cli.eval import TASKS
from countdown_selfplay.cli.recipes import played_by
from countdown_selfplay.packages import BESIDE, CALLED, MODELS, PARTS, absent_names, absent_package

MISSING = {package for package in BESIDE if absent_package(package)}
PLACES = [{name: how.module for name, how in COMMANDS.items()}, *PARTS.values()]
PLACES += [{f"--{name}": place for name, place in CALLED.items()}]
PLACES += [{name: model.folder.replace("/", ".") for name, model in MODELS.items()}]
PLACES += [dict.fromkeys((*TASKS[1:], "--items", "--step_set", "--revisions"), "lab")]  # of `eval`
ABSENT = set().union(*map(absent_names, PLACES))
"""Commands, options, models and parts of packages that are not installed."""
PAGE = set() if "lab" in MISSING else {"report.html"}
"""What a run leaves beside its own files."""


def playable(names: Iterable[str], command: str = "joint") -> list[str]:
    """Those recipes of a command of which nothing needs a package that is not installed."""
    return [name for name in names if "(needs " not in played_by(command, name)]


def here(names: Iterable[str]) -> list[str]:
    """Those names, or command lines, that need no package that is not installed."""
    return [name for name in names if not ABSENT & set(name.split())]
