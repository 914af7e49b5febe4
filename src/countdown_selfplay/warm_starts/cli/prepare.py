"""`--prepare` of `cdg`, `pool` and `sgs`: make, once, the starts of their recipes for the embedded model."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from ...cli.commands import TRAINERS
from ...cli.plain import OneLineParser
from ...config.recipes import chain, recipes
from ...errors import ConfigError, RunFolderError
from .. import starts


@dataclass(frozen=True)
class Start:
    """Warm start of a recipe. folder: named by recipes. holds: required files. make: fills the folder."""

    folder: Path
    what: str
    holds: tuple[str, ...]
    make: Callable[[], None]

    @property
    def ready(self) -> bool:
        """Whether all required files exist."""
        return all((self.folder / name).exists() for name in self.holds)


def start_of(command: str, recipe: str) -> Start:
    """Return the warm start of the recipe. Raises ConfigError for a recipe that begins from another one."""
    text = written(recipe)
    if command == "cdg":
        start = Start(starts.CDG, "weights that know the game", ("config.json",), starts.cdg_start)
    elif command == "pool":
        models = ("prover_a/config.json", "conjecturer/config.json")
        start = Start(starts.POOL, "a prover and a conjecturer of two to four numbers", models, starts.pool_start)
    else:
        named = re.findall(rf"model: {starts.SGS}/(\w+)", text)  # conjecturer_model, or of a guide
        roles = tuple(dict.fromkeys([*starts.SGS_ROLES, *named]))
        holds = (*(f"{role}/config.json" for role in roles), "targets.jsonl")
        what, make = f"{', '.join(roles)} and hard targets", partial(starts.sgs_start, roles=roles)
        start = Start(starts.SGS, what, holds, make)
    if str(start.folder) not in text:
        raise ConfigError(
            f"`--prepare` fills '{start.folder}', and recipe '{recipe}' does not start from there; leave --recipe "
            f"out, or name one of the embedded model, such as {TRAINERS[command].recipe}."
        )
    return start


def written(recipe: str) -> str:
    """Return the texts of a recipe and of the recipes that it extends. Raises UnknownNameError, and ConfigError for a
    circle."""
    known = recipes("cdg") if recipe in recipes("cdg") else recipes()
    return "\n".join(path.read_text(encoding="utf-8") for path, _ in chain(recipe, known))


def prepare(command: str, argv: list[str]) -> int:
    """Fill the folder of the recipe's warm start, or report that it is ready; return 0."""
    parser = OneLineParser(prog=f"countdown-selfplay {command}", add_help=False, allow_abbrev=False)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--recipe", default=TRAINERS[command].recipe)
    options, more = parser.parse_known_args(argv)
    if more:
        raise ConfigError(f"`--prepare` takes no option but --recipe, and not '{more[0]}'; run the two one by one.")
    start = start_of(command, options.recipe)
    named = "" if options.recipe == TRAINERS[command].recipe else f" --recipe {options.recipe}"
    then = f"Now: countdown-selfplay {command}{named}"
    with alone(start.folder):
        if start.ready:
            print(f"{start.folder} is there: {start.what}. {then}")
            return 0
        print(f"Making {start.folder}: {start.what}. Once, a few minutes on two CPU cores.", flush=True)
        began = time.perf_counter()
        start.make()
    print(f"Made in {time.perf_counter() - began:.0f} s: {start.folder}. {then}")
    return 0


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock the folder inside the block. Raises RunFolderError if another process fills it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.with_name(f".{folder.name}.lock")
    try:
        lock = FileLock(path, timeout=0).acquire()
    except Timeout:
        raise RunFolderError(f"'{folder}' is being made by another `--prepare`; wait for it.") from None
    with lock:
        yield
        path.unlink(missing_ok=True)
