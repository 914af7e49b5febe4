# Tests: lab/arena/tracks.py, lab/arena/sets.py, lab/arena/contestants.py, tools/arena_tracks.py
"""Tracks are what their seeds make, and are refused when they are not; contestants change what they may."""

import dataclasses
import json

import pytest
import yaml

from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.config.roles import FIELDS, FLAT_FIELDS
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.lab.arena.contestants import CONTROLS, DEFAULT, MAY_SET, contestants, entrant, table
from countdown_selfplay.lab.arena.job import settings_of
from countdown_selfplay.lab.arena.sets import candidates, domain_of, text_of, withheld
from countdown_selfplay.lab.arena.tracks import load_track, tracks
from countdown_selfplay.objectives import OBJECTIVES

from .mini import write_mini

KNOWN = [load_track(name) for name in tracks()]


@pytest.mark.parametrize("track", KNOWN, ids=lambda track: track.name)
def test_the_sets_of_a_track_are_those_that_their_seeds_make(track):
    for name, asked in track.sets.items():
        assert text_of(track, name) == (track.folder / asked.file).read_text(encoding="utf-8")
        assert len(track.rows(name)) == asked.each * len(track.measured)
    scored = track.sets["held_out"].each * len(track.rungs)
    assert scored >= 1000  # the least that a held-out set has
    assert set(track.rungs) <= set(track.measured)


@pytest.mark.parametrize("track", KNOWN, ids=lambda track: track.name)
def test_no_problem_is_in_two_sets_or_on_the_wrong_side_of_the_split(track):
    domain = domain_of(track)
    keys = {name: [domain.key(problem) for problem in track.problems(name, domain)] for name in track.sets}
    if track.targets is not None:
        keys["targets"] = [domain.key(problem) for problem in track.problems("targets", domain)]
    everything = [key for own in keys.values() for key in own]
    assert len(everything) == len(set(everything))
    assert all(domain.is_held_out(problem) for problem in track.problems("held_out", domain))
    for name in keys.keys() - {"held_out"}:
        assert not any(domain.is_held_out(problem) for problem in track.problems(name, domain))


def test_targets_are_candidates_whose_moves_reach_them_and_withheld_problems_are_not_measured():
    track = load_track("targets")
    domain = domain_of(track)
    rows = track.rows("targets")
    known = {json.dumps(row) for row in candidates(track, domain)}
    assert [domain.rung(domain.problem(row)) for row in rows] == [5] * 64 + [6] * 64 + [7] * 64
    for row in rows:
        assert json.dumps(row) in known
        problem = domain.problem(row)
        state = domain.begin(problem)
        for move in row["moves"]:
            (state,) = domain.moved([move], [problem], [state])
        assert state.correct  # the last move ends the episode with a verdict
    track = load_track("ladder")
    domain = domain_of(track)
    measured = {domain.key(problem) for problem in track.problems("held_out", domain)}
    found = withheld(track, domain, 6, 20, seed=3)
    keys = {domain.key(problem) for problem in found}
    assert len(keys) == 20 and not keys & measured and all(domain.is_held_out(problem) for problem in found)
    assert found == withheld(track, domain, 6, 20, seed=3) != withheld(track, domain, 6, 20, seed=4)


def test_a_set_or_target_that_has_changed_is_refused(tmp_path):
    track = write_mini(tmp_path)
    file = tmp_path / "mini.held_out.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    for changed in ([*lines[:2], lines[0], *lines[3:]], lines[:3]):
        file.write_text("".join(changed), encoding="utf-8")
        with pytest.raises(DataError, match=r"mini\.held_out.*has changed: .*another name"):
            track.rows("held_out")
    file.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        track.rows("held_out")
    track = load_track("targets")
    text = (track.folder / track.targets.file).read_text(encoding="utf-8")
    for file in track.folder.glob("targets.*"):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / track.targets.file).write_text(text.replace('"target": ', '"target": 9', 1), encoding="utf-8")
    with pytest.raises(DataError, match=r"the set 'targets' of track targets, has changed"):
        load_track(str(tmp_path / "targets.yaml")).rows("targets")


def test_contestants_and_tracks_have_names_of_their_own_and_a_table_of_who_plays_where(tmp_path):
    assert len(DEFAULT) == 7 and set(DEFAULT) < set(contestants())
    assert all(contestants()[name].kind == "control" for name in CONTROLS)
    head, *rows = table(["trained", "critic"], KNOWN)
    assert head == ["contestant", "kind", *(track.name for track in KNOWN)]
    assert rows[0] == ["trained", "contestant", *["yes"] * len(KNOWN)]
    critic = dict(zip(head[2:], rows[1][2:], strict=True))
    assert critic.pop("one_shot").startswith("no: its prover and critics start from weights that know its prompts")
    assert all(cell.startswith("no: it criticises whole answers") for cell in critic.values())
    # `guide_temperature` is a role's by its ending; nothing that ends so is the configuration's own.
    known = {f.name for f in dataclasses.fields(JointSelfPlayConfig)}
    assert not [name for name in known if name.partition("_")[2] in FIELDS and name not in {*MAY_SET, *FLAT_FIELDS}]
    with pytest.raises(ConfigError, match="has the name of a folder of the arena's own"):
        load_track(str(tmp_path / "leaderboard.yaml"))


@pytest.mark.parametrize("name", contestants())
def test_every_contestant_has_settings_or_a_reason_on_every_track(name):
    one = contestants()[name]
    for track in KNOWN:
        own = one.own(track)
        assert own or name == "trained" or one.plays(track)
        if one.plays(track):
            found = one.settings(track)
            assert found["answers"] == track.fixed["answers"] and found["prover_objective"] in OBJECTIVES
        else:
            with pytest.raises(ConfigError, match=f"{name} does not play on the track {track.name}: "):
                one.settings(track)
    assert set(one.against) <= set(contestants())


def test_a_contestant_of_ones_own_has_the_settings_of_its_file_over_the_track(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("conjecturer_reward: tent\n", encoding="utf-8")
    one = entrant(f"mine={file}")
    found = one.settings(load_track("ladder"))
    assert (one.name, found["conjecturer_reward"], found["prover_objective"]) == ("mine", "tent", "rloo")


def test_a_contestant_may_set_who_proposes_and_how_roles_learn(tmp_path):
    """Of the track's values anything may be repeated, and what a default is may be written out."""
    own = {"proposer": "uniform_rungs", "conjecturer_model": "tiny-ladder-asked", "weight_decay": 0.1, "beta": 0.01}
    own |= {
        "prover_learning_rate": 1e-3, "roles": {"guide": {"temperature": 0.5}}, "novelty_window": 5,
        "game_kwargs": {"fill": "none"},
    }  # fmt: skip
    own |= {"dataset_name": "mine.jsonl", "value_high": 99, "top_k": 0, "max_steps": 60, "domain": "countdown"}
    own |= {"model_name_or_path": "tiny-ladder", "demonstration_rungs": [2, 3, 3], "steps_per_round": 4}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(own), encoding="utf-8")
    assert entrant(f"mine={file}").settings(load_track("ladder"))["weight_decay"] == 0.1
    with pytest.raises(ConfigError, match="sets `dataset_name` "):  # of a track with targets the anchors are these
        entrant(f"mine={file}").settings(load_track("targets"))


@pytest.mark.parametrize("steps", [1, 12])
def test_every_contestant_plays_the_rounds_of_the_track(tmp_path, steps):
    """max_steps counts rounds, whatever optimizer steps a round has: tiny/ladder has up to 12."""
    file, track = tmp_path / "mine.yaml", load_track("ladder")
    file.write_text(f"steps_per_round: {steps}\n", encoding="utf-8")
    for word in (f"mine={file}", "mine=tiny/ladder"):
        found = settings_of(track, entrant(word), 1, tmp_path)
        assert (found["max_steps"], found["save_steps"]) == (60, 15)
    found = settings_of(track, entrant(f"mine={file}"), 1, tmp_path, track.goal)
    assert (found["max_steps"], found["save_steps"]) == (600, 15)
