"""`countdown-selfplay arena`: every curriculum on the same frozen problems, at equal samples."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cli.plain import parser_of, positive, seed_number
from ...cli.sources import check_early
from ...errors import ConfigError

if TYPE_CHECKING:
    from ..arena.contestants import Contestant
    from ..arena.tracks import Track

EPILOG = """\
A contestant is a name of --list, or one of your own: NAME=FILE.yaml, settings over those of the track as --config has
them, or NAME=RECIPE. Every finished job is a file, OUTPUT/TRACK/CONTESTANT-SEED.json, and is not played again; a job
that was interrupted goes on from its last checkpoint. Several calls, on several machines, may share OUTPUT.

examples: countdown-selfplay arena
          countdown-selfplay arena --contestants trained plain mine=mine.yaml --seeds 1 2 3
          countdown-selfplay arena --tracks ladder targets --full --workers 2
          countdown-selfplay arena --print trained > mine.yaml
          countdown-selfplay arena --table
          countdown-selfplay arena --submit mine=mine.yaml
exit codes: 0 done, 1 a job failed or is not finished, or a replay differs, 2 wrong input"""
SEEDS = [1, 2, 3, 4, 5]


def main(argv: list[str]) -> int:
    """Play the jobs without a file, then print the table of all."""
    options = parse(argv)
    if options.job is not None:
        return play_job(options)
    from ..arena.contestants import DEFAULT, contestants
    from ..arena.tracks import load_track, tracks

    if options.submit or options.verify:
        return on_the_leaderboard(options, argv)
    if options.list:
        return print_list([load_track(name) for name in tracks()])
    options.tracks = once(options.tracks, lambda word: Path(word).stem)
    asked = [load_track(name) for name in options.tracks]
    if options.print:
        return print_settings(options.print, asked[0])
    words = once(options.contestants or (contestants() if options.full else DEFAULT), lambda word: word.split("=")[0])
    entrants = [named(word) for word in words]
    if options.table and not options.output.is_dir():
        raise ConfigError(f"`--output` ({options.output}) is no folder; `arena` without --table makes and fills it.")
    code = 0 if options.table else play(options, asked, words, entrants)
    return code if options.tuning else max(code, show(options, asked))


def once(words: Iterable[str], name: Callable[[str], str]) -> list[str]:
    """Each word once. ConfigError for two of one name, whose jobs would have the same files."""
    by_name: dict[str, str] = {}
    for word in words:
        if by_name.setdefault(name(word), word) != word:
            raise ConfigError(
                f"'{by_name[name(word)]}' and '{word}' are both called {name(word)}, and so are their files; give "
                "one of them another name."
            )
    return list(by_name.values())


def named(word: str) -> Contestant:
    """A contestant. ConfigError for a file with a setting that there is not."""
    from ..arena.contestants import entrant

    one = entrant(word)
    if one.source.endswith((".yaml", ".yml")):
        check_early("joint", ["--config", one.source])
    return one


def play(
    options: argparse.Namespace, asked: Sequence[Track], words: Sequence[str], entrants: Sequence[Contestant]
) -> int:
    """The jobs that are not finished; 1 if one of those that were asked for is still not."""
    from ..arena import board
    from ..arena.schedule import Asked, Place, Schedule

    for one in entrants:  # before anything is played
        playing = [track for track in asked if one.plays(track)]
        for track in playing or (asked[:1] if options.contestants else ()):
            one.settings(track)
    jobs = [
        Asked(name, word, seed)
        for seed in dict.fromkeys(options.seeds)
        for name, track in zip(options.tracks, asked, strict=True)
        for word, one in zip(words, entrants, strict=True)
        if one.plays(track)
    ]
    if not jobs:
        raise ConfigError(
            f"None of the contestants plays on {', '.join(options.tracks)}; `arena --list` says who plays where. A "
            "track of your own names the one whose contestants play on it, as in `contestants: ladder`."
        )
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"`--output` ({options.output}) cannot be made: {error.strerror}; name a folder.") from None
    for track in () if options.tuning else asked:  # files that no table could hold beside the jobs
        board.read(options.output / track.name, track, entrants=entrants)
    place = Place(options.output, "tuning" if options.tuning else "")
    Schedule(place, jobs, options.workers, options.again).play()
    return int(not all(place.file(*job.names).exists() for job in jobs))


def show(options: argparse.Namespace, asked: Sequence[Track]) -> int:
    """Print the tables, and write OUTPUT/standings.json: of every track that has a finished job."""
    from ...data.run_files import write_atomically
    from ..arena import board
    from ..arena.tracks import load_track, tracks

    shown = {track.name: track for track in asked}
    known = [*shown.values(), *(load_track(name) for name in tracks() if name not in shown)]
    found = {
        track.name: board.standings(options.output / track.name, track)
        for track in known
        if any((options.output / track.name).glob("*.json"))
    }
    for name in shown:
        print(board.as_text(found[name]) if name in found else f"{name}: no job is finished.")
    write_atomically(options.output / "standings.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(f"Written: {options.output / 'standings.json'}")
    return 0


def on_the_leaderboard(options: argparse.Namespace, argv: Sequence[str]) -> int:
    """Submit a contestant or replay one, and print the leaderboard."""
    from ...evaluation.terminal import aligned
    from ..arena.leaderboard import FOLDER, Submissions, read_rows, table
    from ..arena.tracks import load_track

    if options.contestants or options.full or options.seeds != SEEDS or len(options.tracks) > 1:
        raise ConfigError(
            "`--submit` and `--verify` play one contestant on one track with seeds that are drawn; leave out "
            "--contestants, --full, --seeds and further tracks."
        )
    word = options.tracks[0]
    named(options.submit or "plain")
    play = Submissions(options.output, load_track(word), word, options.workers, options.again)
    if options.submit:
        code = 0 if play.submit(options.submit, shlex.join(["countdown-selfplay", "arena", *argv])) else 1
    else:
        said = play.verify(options.verify)
        code = 1 if said != "" else 0
        if said is not None:
            print(said or f"The replay of {options.verify} agrees with its row.")
    print(aligned([tuple(row) for row in table(read_rows(options.output / FOLDER))]))
    return code


def print_list(known: Sequence[Track]) -> int:
    """Print the tracks, who plays where, and the reasons of those who do not."""
    from ...evaluation.terminal import aligned
    from ..arena.contestants import contestants, table

    asks = [(t.name, str(t.rounds), f"{t.answers:,}", t.question) for t in known]
    print(aligned([("track", "rounds", "answers", "asks"), *asks]), end="\n\n")
    rows = table([*contestants()], known)
    reasons = [*dict.fromkeys(cell for row in rows for cell in row if cell.startswith("no: "))]
    print(aligned([tuple(f"no ({reasons.index(c) + 1})" if c in reasons else c for c in row) for row in rows]))
    print("\n".join(["", *(f"({i}) {reason[4:]}" for i, reason in enumerate(reasons, 1))]))
    return 0


def print_settings(word: str, track: Track) -> int:
    """All settings of a contestant on a track, as a file for `joint --config`, or for a contestant of one's own."""
    import yaml

    one = named(word)
    settings = one.settings(track) | {"max_steps": track.rounds}
    print(f"# {one.title} on the track {track.name}: {one.says}")
    print(yaml.safe_dump(settings, sort_keys=False), end="")
    return 0


def play_job(options: argparse.Namespace) -> int:
    """One job in this process."""
    if options.attached:
        threading.Thread(target=end_with_stdin, daemon=True).start()
    from ...data.run_files import write_atomically
    from ..arena import job
    from ..arena.contestants import entrant
    from ..arena.schedule import Asked, Part, Place
    from ..arena.tracks import load_track

    track, contestant, seed = options.job
    try:
        seed = seed_number(seed)
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"`--job`: {error}.") from None
    part: Part = "tuning" if options.tuning else "leaderboard" if options.leaderboard else ""
    place, names = Place(options.output, part), Asked(track, contestant, seed).names
    folder, file = place.run(*names), place.file(*names)
    found = job.play(load_track(track), entrant(contestant), seed, folder, settings_from, part)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps(found, separators=(",", ":")) + "\n")
    shutil.rmtree(folder)  # not before the file is there
    return 0


def end_with_stdin() -> None:
    """Ends this process with the one that holds the other end of its stdin."""
    os.read(0, 1)
    os._exit(128 + signal.SIGTERM)


def settings_from(file: Path) -> tuple[Any, Any, dict[str, Any]]:
    """A config file as `joint` reads it."""
    from ...cli.joint import build_arguments
    from ...cli.joint import parse as parse_joint

    script, config, model = parse_joint(["--config", str(file)])
    return script, config, build_arguments(script, config, model)


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line, parsed."""
    parser = parser_of("arena", EPILOG)
    add, tracks = parser.add_argument, "names of --list, or YAML files (ladder)"
    add("--tracks", nargs="+", default=["ladder"], metavar="TRACK", help=tracks)
    add("--contestants", nargs="+", metavar="NAME", help="see below (seven of --list)")
    add("--full", action="store_true", help="all contestants of --list that play on the tracks")
    add("--seeds", nargs="+", type=seed_number, default=SEEDS, metavar="N", help="of training (1 2 3 4 5)")
    add("--workers", type=positive, default=os.cpu_count() or 1, help="jobs at a time (the cores)")
    add("--output", type=Path, default=Path("runs/arena"), metavar="FOLDER", help="(runs/arena)")
    add("--again", action="store_true", help="play jobs that failed once more")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--table", action="store_true", help="play nothing: the tables and standings.json again")
    tuning = "measure on the tuning problems; such jobs are in no table"
    other.add_argument("--tuning", action="store_true", help=tuning)
    other.add_argument("--list", action="store_true", help="print the tracks, and who plays where")
    other.add_argument("--print", metavar="NAME", help="print all settings of a contestant on the first track")
    other.add_argument("--submit", metavar="NAME", help="play a contestant for the leaderboard and write its row")
    other.add_argument("--verify", metavar="NAME", help="replay a row with other seeds; 1 if it differs")
    other.add_argument("--leaderboard", action="store_true", help=argparse.SUPPRESS)
    add("--job", nargs=3, help=argparse.SUPPRESS)
    add("--attached", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)
