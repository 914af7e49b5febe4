"""A track small enough for a test: the ladder's settings, two rounds of 16 answers, two problems of each size."""

from hashlib import sha256

import yaml

from countdown_selfplay.lab.arena.contestants import contestants
from countdown_selfplay.lab.arena.sets import text_of
from countdown_selfplay.lab.arena.tracks import FOLDER, SETS, Track, load_track

SMALL = {"problems_per_round": 4, "prover_num_generations": 4, "prover_sequences_per_step": 16}
SMALL |= {"prover_demonstrations_per_step": 4, "proposals_per_round": 16, "conjecturer_num_generations": 16}
SMALL |= {"conjecturer_sequences_per_step": 16}


def write_mini(folder, **changes) -> Track:
    """mini.yaml and its sets in `folder`."""
    settings = yaml.safe_load((FOLDER / "ladder.yaml").read_text(encoding="utf-8"))
    settings |= {"contestants": "ladder", "rounds": 2, "answers": 32, "updates": 2, "every": 1, "curve_each": 1}
    settings |= {"measured": [3, 4], "rungs": [4], "ks": [1, 2], "samples": 2}
    settings["goal"] = {"rung": 4, "rate": 1.0, "problems": 2, "samples": 2, "every": 1, "rounds": 2, "seeds": 1}
    settings["settings"] |= SMALL
    settings["sets"] = {name: {"file": f"mini.{name}.jsonl", "each": 2, "seed": 1, "sha256": ""} for name in SETS}
    settings |= changes
    file = folder / "mini.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    track = load_track(str(file))
    for name, asked in track.sets.items():
        text = text_of(track, name)
        (folder / asked.file).write_text(text, encoding="utf-8")
        settings["sets"][name]["sha256"] = sha256(text.encode()).hexdigest()
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return load_track(str(file))


def job(track: Track, contestant: str, seed: int, correct: list[int], **more) -> dict:
    """The file of a job with these right answers of two to each of the four problems, sizes 3, 3, 4, 4."""
    rates = {"3": [sum(correct[:2]) / 4] * 2, "4": [sum(correct[2:]) / 4] * 2}
    point = {"round": 2, "answers": 32, "cpu_seconds": 1.0, "by_rung": rates}
    found = {"track": track.name, "contestant": contestant, "seed": seed, "measured_on": "held_out", "n": 2}
    found |= {"correct": correct, "curve": [point], "rounds": 2, "answers": 32, "uncounted_answers": 0, "samples": 48}
    found |= {"tokens": 100, "updates": 2, "cpu_seconds": 1.0, "proposed": {"3": [4, 0]}, "health": {}}
    changes = dict(contestants()[contestant].on["ladder"]) if contestant in contestants() else {}
    return found | {"reasons": {}, "changes": changes, "facts": track.facts, "machine": {}, **more}
