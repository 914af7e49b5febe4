# Tests: warm_starts/iterated/driver.py, warm_starts/iterated/log.py, countdown/critique.py, lab/critics/win_rates.py
"""Two iterations of the Critic-Discernment Game with the tiny model: what lies in the folder, and runs that die."""

import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from countdown_selfplay.countdown import CountdownDomain, generate_problems
from countdown_selfplay.countdown.critique import CountdownCritique, steps_of
from countdown_selfplay.errors import ConfigError, DataError, GameError, RunFolderError
from countdown_selfplay.games.critic_discernment import CriticDiscernment
from countdown_selfplay.lab.critics.win_rates import iterations_of
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.warm_starts.iterated import IteratedSelfPlay, IteratedSettings, RoleTraining, select
from countdown_selfplay.warm_starts.iterated.settings import plan, samples_of

ROOT = Path(__file__).parents[3]


class Talkative(CountdownCritique):
    """The shipped weights do not know the game: a critique names the answer's first step, and a revision of five words
    (most have five) rejects it."""

    def read_critique(self, text, answer):
        return next((step.text for step in steps_of(answer)), None)

    def rejections(self, text):
        return int(len(text.split()) == 5)


class Game(CountdownDomain):
    critique = property(lambda self: Talkative(self.rules, self.prover_prompt))


DOMAIN = Game.tiny()
PROBLEMS = generate_problems(12, DOMAIN.spec, seed=5, split="train")
FAST = dict(learning_rate=(1e-3,), batch_size=(16,))
ROLES = {
    "prover": RoleTraining(4, 0.5, labels=("right", "resisted", "corrected"), balance=50, **FAST),
    "helpful": RoleTraining(2, 0.5, accumulate=False, epochs=2.0, **FAST),
    "misleading": RoleTraining(2, 0.5, **FAST),
}


GAME = CriticDiscernment(0.25, 2, "answer")


def driver(folder, problems=PROBLEMS, roles=ROLES, model=str(TINY_MODEL_PATH), game=GAME, **changes):
    usual = dict(chunk=5, top_k=0, temperature=1.0, max_completion_length=12, per_device_train_batch_size=16)
    settings = IteratedSettings(str(folder), roles, **{**usual, **changes})
    return IteratedSelfPlay(game, DOMAIN, model, problems, settings)


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
    every = [select.read(folder / f"iteration-{t}" / "prover.parquet") for t in (1, 2)]
    assert every[1][: len(every[0])] == every[0] and {row["iteration"] for row in every[1]} == {1, 2}
    for t in (1, 2):  # each iteration is balanced by itself
        own = Counter(row["label"] for row in every[1] if row["iteration"] == t)
        assert len(set(own.values())) == 1 and set(own) <= {"right", "resisted", "corrected"}
    assert len({(row["prompt"], row["completion"]) for row in every[1]}) == len(every[1])
    counts = lines[2, "prover"]["counts"]
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
def test_a_run_that_is_killed_at_any_moment_ends_in_the_same_files(tmp_path):
    """At least 24 SIGKILLs of real processes over collection, filtering and retraining (kills_worker.py), at points of
    the run's own course, which are the same on every machine."""
    command = [sys.executable, "-m", "tests.warm_starts.iterated.kills_worker", str(tmp_path), "24"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    phases = Counter(found["deaths"])
    assert len(found["deaths"]) >= 24 and set(phases) == {"collection", "filtering", "retraining"}, phases
    assert found["other"] == [] and found["runs"] >= 1 and found["files"] >= 17


def test_a_role_for_which_nothing_was_chosen_keeps_its_weights(tmp_path):
    roles = {**ROLES, "misleading": RoleTraining(2, 2.0, **FAST)}  # no reward is 2
    made = driver(tmp_path / "run", PROBLEMS[:2], roles, iterations=1)
    log = made.run()
    (line,) = [line for line in log if line.get("role") == "misleading"]
    assert line["rows"] == 0 and "keeps its weights" in line["note"]
    assert made.weights("misleading", 2) == str(TINY_MODEL_PATH)
    assert made.weights("prover", 2).endswith("iteration-1/prover")


def test_other_settings_and_a_missing_data_set_are_one_sentence(played, tmp_path):
    folder, log = played
    assert driver(folder).run() == log  # finished: nothing is played again
    with pytest.raises(RunFolderError, match=r"begun with other settings \(seed: 0, now 1\)"):
        driver(folder, seed=1).run()
    with pytest.raises(RunFolderError, match=r"begun with other settings \(game.revisions: 2, now 3\)"):
        driver(folder, game=CriticDiscernment(0.25, 3, "answer")).run()
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert driver(copy).run() == log
    for path in copy.glob("iteration-*/*.parquet"):  # to save room: the log alone says that it was begun
        path.rename(path.with_suffix(".away"))
    with pytest.raises(RunFolderError, match=r"begun with other settings \(seed: 0, now 1\)"):
        driver(copy, seed=1).run()
    for path in copy.glob("iteration-*/*.away"):
        path.rename(path.with_suffix(".parquet"))
    (copy / "iteration-2" / "prover.parquet").unlink()
    with pytest.raises(DataError, match=r"prover.parquet' is not there"):
        driver(copy, iterations=3).run()
    less = tmp_path / "less"
    shutil.copytree(folder, less)
    shutil.rmtree(less / "iteration-2" / "prover")  # not silently the first iteration's again
    with pytest.raises(DataError, match=r"The model '.*iteration-2/prover' is not there, and the run goes on from it"):
        driver(less, iterations=3).run()
    half = tmp_path / "half"
    shutil.copytree(folder, half)
    lines = (half / "iterations.jsonl").read_text().splitlines(keepends=True)
    (half / "iterations.jsonl").write_text("".join(lines[:5]))  # played, nothing trained
    for path in (half / "iteration-2").glob("*.parquet"):
        if path.name.startswith(("prover", "played-00001")):
            path.unlink()
    with pytest.raises(DataError, match=r"iteration-2/played-00001.parquet' is not there"):
        driver(half).run()


DAMAGES = {  # file -> what the resumed run says
    "iterated.json": r"iterated.json' does not hold a JSON object \(.*\); put back the file that the run wrote",
    "iterations.jsonl": r"iterations.jsonl', line 1: this is not a JSON object .*\(Exp.*\); the file is damaged",
    "iteration-2/prover.parquet": r"iteration-2/prover.parquet' cannot be read as Parquet \(Parquet magic bytes not f",
    "iteration-2/played-00001.parquet": r"played-00001.parquet' cannot be read as Parquet \(Parquet magic bytes",
    "iteration-1/prover/model.safetensors": r"The model '.*/iteration-1/prover' cannot be loaded: it is a model whose "
    r"file of weights is damaged \(Error while deserializing header",
}


@pytest.mark.parametrize(("name", "message"), DAMAGES.items())
def test_a_damaged_file_is_one_sentence_that_names_it(played, tmp_path, name, message):
    shutil.copytree(played[0], tmp_path / "run")
    log = tmp_path / "run" / "iterations.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:5]))  # 4 of iteration 1; iteration 2 is played, not trained
    if "played" in name:  # it is read where the data set is not made yet
        (tmp_path / "run" / "iteration-2" / "prover.parquet").unlink()
    if name.endswith("safetensors"):  # it plays iteration 2
        shutil.rmtree(tmp_path / "run" / "iteration-2")
        log.write_text("".join(lines[:4]))
    (tmp_path / "run" / name).write_bytes(b"nonsense\n" * 99)
    with pytest.raises(DataError, match=message) as caught:
        driver(tmp_path / "run").run()
    assert "\n" not in str(caught.value)


def test_a_line_without_its_fields_is_damage_to_all_who_read_the_log(played, tmp_path):
    shutil.copytree(played[0], tmp_path / "run")
    (tmp_path / "run" / "iterations.jsonl").write_text("{}\n")
    for reads in (lambda folder: driver(folder).run(), samples_of, iterations_of):
        with pytest.raises(DataError, match=r"iterations.jsonl', line 1: .*\(there is no `iteration`\); the"):
            reads(tmp_path / "run")


def test_the_log_counts_what_became_of_the_samples_and_a_cut_last_line_is_no_damage(played, tmp_path):
    folder, log = played
    (line, *_) = log
    rows = [row for c in range(3) for row in select.read(folder / "iteration-1" / f"played-0000{c}.parquet")]
    assert line["counts"] == dict(Counter(f"{r['role']}/{r['label']}" for r in rows))
    shutil.copytree(folder, tmp_path / "run")
    with (tmp_path / "run" / "iterations.jsonl").open("a") as file:
        file.write('{"iteration": 2, "ph')
    assert driver(tmp_path / "run").run() == log


def test_dpo_trains_on_pairs_that_tell_where_they_come_from(tmp_path):
    made = driver(tmp_path / "dpo", iterations=1, algorithm="dpo")
    (line,) = [line for line in made.run() if line.get("role") == "prover"]
    pairs = select.read(tmp_path / "dpo" / "iteration-1" / "prover.parquet")
    assert len(pairs) == line["rows"] > 0 and all(pair["rejected"] != pair["completion"] for pair in pairs)
    assert len({pair["prompt"] for pair in pairs}) == len(pairs)  # one a prompt
    files = [tmp_path / "dpo" / "iteration-1" / f"played-0000{c}.parquet" for c in range(3)]
    every = [row for file in files for row in select.read(file)]
    said = {(row["prompt"], row["completion"]): row["label"] for row in every}
    for pair in pairs:
        assert said[pair["prompt"], pair["completion"]] in ("right", "resisted", "corrected")
        assert said[pair["prompt"], pair["rejected"]] in ("wrong", "misled", "unclear", "not_corrected")
    assert line["steps"] == 1 and line["loss"] == pytest.approx(math.log(2), abs=1e-4)  # the reference is the start
    start, trained = (
        load_file(path / "model.safetensors") for path in (TINY_MODEL_PATH, tmp_path / "dpo/iteration-1/prover")
    )
    assert any(not trained[name].equal(start[name]) for name in start)


def test_expert_iteration_and_step_dpo_play_answers_alone_and_go_on_with_more_of_a_budget(tmp_path):
    for algorithm in ("expert_iteration", "step_dpo"):
        made = driver(tmp_path / algorithm, iterations=1, algorithm=algorithm)
        play, train = made.run()
        assert set(play["counts"]) == {"prover/right", "prover/wrong"} and train["role"] == "prover"
        rows = select.read(tmp_path / algorithm / "iteration-1" / "prover.parquet")
        assert {row["label"] for row in rows} == {"right"} and train["steps"] >= 1
        if algorithm == "step_dpo":
            assert all({"before", "rejected"} <= set(row) for row in rows)
    folder = tmp_path / "run"
    for iterations, steps in ((1, (1,)), (2, (1, 2)), (3, (1, 2, 1))):
        roles = {"prover": replace(ROLES["prover"], max_steps=steps)}
        made = driver(folder, PROBLEMS[:5], roles, algorithm="expert_iteration", iterations=iterations)
        assert [line["steps"] for line in made.run() if line["phase"] == "train"] == list(steps)


def test_a_base_model_imitates_another_runs_choice_first(played, tmp_path):
    folder, _ = played
    made = driver(tmp_path / "base", iterations=1, imitate=str(folder), imitate_rows=20)
    log = made.run()
    assert (log[0]["iteration"], log[0]["role"], log[0]["rows"]) == (0, "imitation", 20)
    rows = select.read(tmp_path / "base" / "iteration-0" / "imitation.parquet")
    known = [row for role in ROLES for row in select.read(folder / "iteration-1" / f"{role}.parquet")]
    assert all(row in known for row in rows)
    assert made.weights("helpful", 1).endswith("iteration-0/imitation")
    played_rows = select.read(tmp_path / "base" / "iteration-1" / "played-00000.parquet")
    assert {row["weights"] for row in played_rows} == {"iteration-0/imitation"}


def test_no_sample_that_is_too_long_is_imitated(played, tmp_path):
    made = driver(tmp_path / "base", iterations=1, imitate=str(played[0]), imitate_rows=20, max_length=2)
    with pytest.raises(DataError, match=r"`imitate` .*: all 20 of its samples are longer than `max_length` \(2\)"):
        made.run()
    assert made.log() == []
    again = driver(tmp_path / "base", iterations=1, imitate=str(played[0]), imitate_rows=10, max_length=60, seed=3)
    assert again.run()[0]["rows"] == 10  # nothing was made with the refused length: the folder takes other settings


def test_an_adapters_folder_plays_and_is_retrained_as_a_whole_model(tmp_path):
    """Half precision in the file, float32 in training: a step of 1e-6 is below what bfloat16 can hold."""
    base = AutoModelForCausalLM.from_pretrained(TINY_MODEL_PATH, dtype="bfloat16")
    base.save_pretrained(tmp_path / "base")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    get_peft_model(base, LoraConfig(target_modules="all-linear")).save_pretrained(tmp_path / "adapter")
    AutoTokenizer.from_pretrained(TINY_MODEL_PATH).save_pretrained(tmp_path / "adapter")
    roles = {"prover": replace(ROLES["prover"], learning_rate=(1e-6,), max_steps=(1,))}
    made = driver(
        tmp_path / "run", PROBLEMS[:5], roles, str(tmp_path / "adapter"), iterations=1, algorithm="expert_iteration"
    )
    made.run()
    start, trained = (
        load_file(place / "model.safetensors") for place in (tmp_path / "base", tmp_path / "run/iteration-1/prover")
    )
    assert {str(value.dtype) for value in trained.values()} == {"torch.float32"}
    moved = [float((trained[name] - start[name].float()).abs().max()) for name in trained]
    assert 0 < max(moved) < 2e-6


def test_roles_that_do_not_play_need_no_training(tmp_path):
    one = {"prover": ROLES["prover"]}
    driver(tmp_path / "a", roles=one, leave_out=["helpful", "misleading"])
    driver(tmp_path / "a", roles=one, algorithm="expert_iteration")


def test_a_game_that_remembers_something_is_refused_before_anything_is_played(tmp_path):
    class Counting(CriticDiscernment):
        def state_dict(self):
            return {"rounds": 0}

    with pytest.raises(ConfigError, match=r"The game Counting has a state \(rounds\), which iterated play keeps n"):
        driver(tmp_path / "a", game=Counting(0.25, 2, "answer"))

    class Raising(CriticDiscernment):
        def state_dict(self):
            raise KeyError("round")

    with pytest.raises(GameError, match=r"`state_dict` of Raising raised KeyError: 'round'"):
        driver(tmp_path / "a", game=Raising(0.25, 2, "answer"))
    assert not (tmp_path / "a").exists()


def test_a_dry_run_says_who_keeps_its_weights_and_a_folder_without_play_is_no_budget(tmp_path):
    roles = {**ROLES, "helpful": replace(ROLES["helpful"], max_steps=(0,))}
    said = plan(IteratedSettings(role_training=roles, per_device_train_batch_size=16), CriticDiscernment(), 12)[-1]
    (line,) = [line.split() for line in said.splitlines() if line.startswith("helpful") and line.split()[1] == "1"]
    assert line[4:6] == ["0", "steps"]
    with pytest.raises(DataError, match="holds no iteration that was played, so it is no budget"):
        samples_of(tmp_path)
