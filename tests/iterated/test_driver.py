"""Two iterations of the Critic-Discernment Game with the tiny model: what lies in the folder, and runs that die."""

import json
import shutil
from collections import Counter

import pytest
from safetensors.torch import load_file

from countdown_selfplay.countdown import CountdownDomain, generate_problems
from countdown_selfplay.countdown.critique import steps_of
from countdown_selfplay.data.run_files import append_lines
from countdown_selfplay.errors import ConfigError, DataError, RunFolderError
from countdown_selfplay.games.critic_discernment import CriticDiscernment
from countdown_selfplay.iterated import IteratedSelfPlay, IteratedSettings, RoleTraining, retrain, select
from countdown_selfplay.tiny import TINY_MODEL_PATH


class Talkative(CountdownDomain):
    """The shipped weights do not know the game: a critique names the answer's first step, and a revision of five words
    (most have five) rejects it."""

    def read_critique(self, text, answer):
        return next((step.text for step in steps_of(answer)), None)

    def rejections(self, text):
        return int(len(text.split()) == 5)


DOMAIN = Talkative.tiny()
PROBLEMS = generate_problems(12, DOMAIN.spec, seed=5, split="train")
FAST = dict(learning_rate=(1e-3,), batch_size=(16,))
ROLES = {
    "prover": RoleTraining(4, 0.5, labels=("right", "resisted", "corrected"), balance=50, **FAST),
    "helpful": RoleTraining(2, 0.5, accumulate=False, epochs=2.0, **FAST),
    "misleading": RoleTraining(2, 0.5, **FAST),
}


def driver(folder, problems=PROBLEMS, roles=ROLES, **changes):
    settings = IteratedSettings(
        str(folder), roles, chunk=5, top_k=0, temperature=1.0, max_completion_length=12,
        per_device_train_batch_size=16, **changes,
    )  # fmt: skip
    return IteratedSelfPlay(CriticDiscernment(0.25, 2, "answer"), DOMAIN, str(TINY_MODEL_PATH), problems, settings)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("iterated") / "run"
    return folder, driver(folder).run()


def files(folder):
    """Everything that a run leaves, as bytes."""
    kinds = ("*.parquet", "iterations.jsonl", "*.safetensors")
    return {str(p.relative_to(folder)): p.read_bytes() for kind in kinds for p in sorted(folder.rglob(kind))}


def test_every_phase_leaves_a_file_with_the_lineage_of_each_sample(played):
    folder, log = played
    assert [(line["iteration"], line["phase"], line.get("role")) for line in log] == [
        (t, *phase) for t in (1, 2) for phase in [("play", None), *(("train", role) for role in ROLES)]
    ]
    chunks = [select.read(folder / "iteration-2" / f"played-0000{c}.parquet") for c in range(3)]
    assert [len({row["problem"] for row in rows}) for rows in chunks] == [5, 5, 2]  # 12 problems in chunks of 5
    first = [row for rows in chunks for row in rows if row["turn"] == 0]
    assert len(first) <= 12 * 4 and {row["weights"] for row in first} == {"iteration-1/prover"}
    for row in first:
        problem = DOMAIN.problem({"numbers": [int(n) for n in row["problem"].split("=")[0].split(",")],
                                  "target": int(row["problem"].split("=")[1])})  # fmt: skip
        right = DOMAIN.verify([row["completion"]], [problem])[0].correct
        assert (row["label"], row["reward"]) == (("right", 1.0) if right else ("wrong", 0.0))


def test_data_accumulate_are_balanced_and_every_role_begins_anew_from_its_initial_model(played):
    folder, log = played
    lines = {(line["iteration"], line.get("role")): line for line in log}
    every = [select.read(folder / f"iteration-{t}" / "prover.all.parquet") for t in (1, 2)]
    assert every[1][: len(every[0])] == every[0] and {row["iteration"] for row in every[1]} == {1, 2}
    counts = lines[2, "prover"]["counts"]
    assert len(set(counts.values())) == 1 and set(counts) <= {"right", "resisted", "corrected"}
    assert sum(counts.values()) == lines[2, "prover"]["rows"]
    for t in (1, 2):  # the helpful critic's data are of their own iteration
        assert {row["iteration"] for row in select.read(folder / f"iteration-{t}" / "helpful.parquet")} <= {t}
    start = load_file(TINY_MODEL_PATH / "model.safetensors")
    ones = [load_file(folder / f"iteration-{t}" / "prover" / "model.safetensors") for t in (1, 2)]
    moved = [max(float((one[name] - start[name]).abs().max()) for name in start) for one in ones]
    steps = [lines[t, "prover"]["steps"] for t in (1, 2)]
    # Adam moves a weight by at most about the learning rate a step: from the initial model, not from iteration 1's
    assert all(0 < m <= 1.1e-3 * s for m, s in zip(moved, steps, strict=True))


@pytest.mark.matrix
def test_a_run_that_is_killed_at_any_moment_ends_in_the_same_files(played, tmp_path, monkeypatch):
    folder, _ = played
    whole = files(folder)

    class Killed(BaseException):
        pass

    def dying(function, at):
        def called(*arguments, **more):
            nonlocal countdown
            countdown -= 1
            if countdown == at:
                raise Killed
            return function(*arguments, **more)

        return called

    again, deaths = tmp_path / "again", 0
    for moment in range(1, 40):
        countdown = moment
        with monkeypatch.context() as patch:
            # before each file that is written, each that is read, and each training
            patch.setattr(select, "write", dying(select.write, 0))
            patch.setattr(select, "balanced", dying(select.balanced, 0))
            patch.setattr("countdown_selfplay.iterated.driver.retrain", dying(retrain.retrain, 0))
            patch.setattr("countdown_selfplay.iterated.driver.append_lines", dying(append_lines, 0))
            try:
                driver(again).run()
                break
            except Killed:
                deaths += 1
    assert deaths >= 5 and files(again) == whole


def test_a_role_for_which_nothing_was_chosen_keeps_its_weights(tmp_path):
    roles = {**ROLES, "misleading": RoleTraining(2, 2.0, **FAST)}  # no reward is 2
    made = driver(tmp_path / "run", PROBLEMS[:2], roles, iterations=1)
    log = made.run()
    (line,) = [line for line in log if line.get("role") == "misleading"]
    assert line["rows"] == 0 and "keeps its weights" in line["note"]
    assert made.weights("misleading", 2) == str(TINY_MODEL_PATH)
    assert made.weights("prover", 2).endswith("iteration-1/prover")


def test_other_settings_a_missing_data_set_and_bad_input_are_one_sentence(played, tmp_path):
    folder, log = played
    assert driver(folder).run() == log  # finished: nothing is played again
    with pytest.raises(RunFolderError, match=r"begun with other settings \(seed: 0, now 1\)"):
        driver(folder, seed=1).run()
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "iteration-2" / "prover.all.parquet").unlink()
    with pytest.raises(DataError, match=r"prover.all.parquet' is not there"):
        driver(copy, iterations=3).run()
    with pytest.raises(
        ConfigError, match=r"`role_training` .* names kinds that the game does not have; it has prover, helpful"
    ):
        driver(tmp_path / "a", roles={"judge": RoleTraining()})
    with pytest.raises(ConfigError, match="`problems` is empty"):
        driver(tmp_path / "a", [])
    with pytest.raises(ConfigError, match=r"holds '.*' 2 times"):
        driver(tmp_path / "a", [PROBLEMS[0], PROBLEMS[0]])


def test_the_log_counts_what_became_of_the_samples(played):
    folder, log = played
    (line, *_) = log
    rows = [row for c in range(3) for row in select.read(folder / "iteration-1" / f"played-0000{c}.parquet")]
    assert line["counts"] == json.loads(json.dumps(Counter(f"{r['role']}/{r['label']}" for r in rows)))
