"""The arena: two contestants on the track `ladder`, two seeds each, and the table that compares them.

    python examples/arena.py        # about five minutes on a laptop CPU; a job that is finished is not played again

A contestant of your own is a YAML file with what it changes in the track's settings, `mine=mine.yaml` among the names.
docs/arena.md describes tracks, contestants and files; `countdown-selfplay arena` does the same from a shell.
"""

from pathlib import Path

from countdown_selfplay.lab.arena import Asked, Place, Schedule, as_text, entrant, load_track, standings


def main(track="ladder", names=("plain", "trained"), seeds=(1, 2), workers=1):
    place, on = Place(Path("runs/example-arena")), load_track(track)
    for name in names:
        entrant(name).settings(on)  # refuses a setting that is fixed on the track, before anything is played
    jobs = [Asked(track, name, seed) for seed in seeds for name in names]
    Schedule(place, jobs, workers).play()
    found = standings(place.folder / on.name, on)
    print(as_text(found))  # one seed has no interval and no test, two have wide ones; the page has ten
    for row in found["rows"]:
        print(f"{row['contestant']}: {row['title']}, {row['answers']:,.0f} answers, {row['updates']:.0f} updates")


if __name__ == "__main__":
    main()
