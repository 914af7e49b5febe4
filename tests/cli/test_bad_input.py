# Tests: cli/main.py, cli/options.py, cli/plain.py, data/yaml_file.py
"""Whatever a user gets wrong is one sentence and exit code 2, in every command; what is a bug keeps its traceback."""

import errno
import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from safetensors import SafetensorError

from countdown_selfplay.cli.main import guarded, main
from countdown_selfplay.countdown import ProblemSpec, generate_problems
from countdown_selfplay.countdown.generator import _operand_counts
from countdown_selfplay.data.run_files import ROLES_FILE
from countdown_selfplay.errors import ConfigError

BINARY = bytes(range(128, 256)) * 4
HANDFUL = ["--operands", "2", "--number_high", "3", "--target_low", "1"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bin.yaml", "bin.jsonl", "bin.csv"):
        Path(name).write_bytes(BINARY)
    Path("deep.jsonl").write_text("[" * 100_000)
    Path("trips.yaml").write_text("recipe: tiny/default\nguard_trips: {prover/entropie: [0.1, null]}\n")
    Path("ragged.csv").write_text("rate\n.1,2\n")
    Path("kept.csv").write_text("mine")
    Path("folder").mkdir()
    Path("loop").symlink_to("loop")
    Path("null.jsonl").write_text("null\n")
    Path("list.json").write_text("[1]")
    Path("cut.parquet").write_bytes(b"PAR1")
    return tmp_path


CASES = {
    "joint --config bin.yaml": "bin.yaml is not a YAML file: it is not UTF-8 text",
    "joint --config trips.yaml": "which no round of this run logs. Did you mean 'prover/entropy'?",
    'joint --guard_trips {"prover/entropy":[1,0]}': "`guard_trips` of 'prover/entropy' ([1, 0]) must be a range",
    "joint --game propose_and_slove": "Unknown game 'propose_and_slove'. Did you mean 'propose_and_solve'?",
    'joint --game_kwargs {"eta":1}': "`game_kwargs` has eta, which is not one of its settings. Known names",
    "joint --game_kwargs nonsense": "`game_kwargs` ('nonsense') must be a JSON object",
    "joint --proposer polices": "Unknown proposer 'polices'. Did you mean 'policies'?",
    "joint --proposer policies --conjecturer_micro_batches 0": "`proposer` (policies) needs a conjecturer, and",
    'joint --proposer policies --proposer_kwargs {"low":1}': "Proposer 'policies' does not take low; it takes repair.",
    "joint --proposer_kwargs [1]": "`proposer_kwargs` ('[1]') must be a JSON object",
    'joint --proposer_kwargs {"low":1}': "`proposer_kwargs` ({'low': 1}) has no `proposer` to go to",
    "joint --roles {": "`roles` ('{') must be a mapping from roles to their settings",
    'joint --roles {"prover":{"player":2}}': "`roles.prover.player` is not a setting of a role. Did you mean",
    "joint --guard_trips [1]": "`guard_trips` ('[1]') must be a JSON object",
    "joint --conjecturer_model_name_or_path folder": "The model 'folder' cannot be loaded: it is a folder without",
    "joint --attn_implementation nonsense": "cannot be loaded: it is a model folder (Specified `attn_implementation",
    'joint --model_init_kwargs {"nonsense":1}': "cannot be loaded: it is a model folder",
    "joint --model_init_kwargs [1]": "`model_init_kwargs` ('[1]') must be a JSON object",
    "sft --lr_scheduler_kwargs nonsense": "`lr_scheduler_kwargs` ('nonsense') must be a JSON object",
    "joint --generation_kwargs nonsense": "`generation_kwargs` ('nonsense') must be a JSON object",
    "joint --use_peft --lora_r 0": "PEFT refuses this adapter: `r` should be a positive integer",
    "joint --lora_r 4": "`lora_r` is read under --use_peft only",
    "joint --load_in_4bit": "`load_in_8bit` and `load_in_4bit` are not supported",
    "joint --reward_weights 1 2 3": "`reward_weights` ([1.0, 2.0, 3.0]) must hold one finite number for each of the 1",
    "joint --remove_unused_columns true": "`remove_unused_columns` (True) is not supported",
    "ipo --samples_file deep.jsonl": "'deep.jsonl', line 1",
    "joint --save_strategy best": "`save_strategy` (best) needs `metric_for_best_model`",
    "joint --recipe=": "Unknown recipe ''",
    "joint --accelerate_config bin.yaml": "`--accelerate_config` (bin.yaml) must be a YAML mapping",
    "joint --seed -1": "`seed` (-1) must be a finite number of at least 0",
    "sft --seed -1": "`seed` (-1) must be a finite number of at least 0",
    "ipo --learning_rate nan": "`learning_rate` (nan) must be a finite number",
    "sft --temperature inf": "`temperature` (inf) must be a finite number above 0",
    "joint --output_dir=": "`output_dir` ('') must name a folder",
    "sft --output_dir=": "`output_dir` ('') must name a folder",
    "joint --report_to wandd": "`report_to` (wandd) must be one of",
    "ipo --report_to wandd": "Did you mean 'wandb'?",
    "joint --report_to swanlab": "`report_to` (swanlab) cannot be used here: SwanLabCallback requires swanlab to be",
    "sft --report_to swanlab": "Or pass --report_to none",
    "joint --eval_strategy steps --eval_problems 0": "`eval_strategy` (steps) evaluates on held-out problems",
    "sft --eval_strategy steps": "`eval_strategy` (IntervalStrategy.STEPS) is not read here",
    "joint --eval_proposals 0": "`eval_proposals` (0) must be at least 1",
    "joint --eval_problems -1": "`eval_problems` (-1) must be at least 0",
    "joint --num_generations_eval 0": "`num_generations_eval` (0) must be a finite number of at least 1",
    "eval --model tiny --temperature inf": "`temperature` (inf) must be 0 (greedy) or a finite number above",
    "eval --model tiny --top_k -1": "`top_k` (-1) must be at least 0",
    "eval --model tiny --device meta": "`--device` (meta) cannot be used",
    "eval --model tiny --seed -1": "'-1' is not a whole number from 0 to 4294967295",
    "compare a b --seed -1": "'-1' is not a whole number from 0 to 4294967295",
    "joint --resume_from_checkpoint=": "`resume_from_checkpoint` ('') must be true, auto or a checkpoint's folder",
    "joint --model_name_or_path=": "`model` ('') must be a hub id, a folder or an object",
    "joint --conjecturer_prompt json": ": `conjecturer_prompt` (json) holds a chat, and the tokenizer has no",
    "joint --adam_beta1 1": "`adam_beta1` (1.0) must be a finite number of at least 0 and below 1",
    "joint --max_steps 0": "or -1 to go by num_train_epochs.",
    "eval --model tiny --output kept.csv": "`--output` (kept.csv) must end in .json, or .jsonl for a row per answer",
    "fit-scaling ragged.csv": "'ragged.csv' is no table: a line has more cells than the first",
    "fit-scaling ragged.csv --drop_below nan": "`--drop_below` (nan) must be a number",
    "fit-scaling bin.csv": "'bin.csv' is not a table in UTF-8 text",
    "fit-scaling bin.jsonl": "'bin.jsonl' cannot be read: it is not UTF-8 text",
    "fit-scaling deep.jsonl": "'deep.jsonl', line 1: this is not a JSON object",
    "dataset x.jsonl --count 1 --exclude deep.jsonl": "'deep.jsonl', line 1: this is not a JSON object",
    "joint --domain os:path": "The domain 'os:path' is <module",
    "joint --domain os:getcwd": "The domain 'os:getcwd' must be derived from BaseDomain",
    "joint --domain os:sep": "The domain 'os:sep' is '/', which cannot be built; name a class or function of a",
    "joint --game os:path": "`game` (os:path) must be derived from BaseGame",
    "joint --proposer os:path": "The proposer 'os:path' is <module",
    "joint --guide os:path --proposer targets": "The guide 'os:path' is <module",
    "joint --conjecturer_reward os:path": "The conjecturer reward 'os:path' is <module",
    "joint --conjecturer_reward os:sep": "The conjecturer reward 'os:sep' is '/', which cannot be built",
    "joint --prover_objective os:path": "The objective 'os:path' is <module",
    "eval --model tiny --domain os:path": "The domain 'os:path' is <module",
    "cdg --training iterated --model_name_or_path tiny --domain os:path": "The domain 'os:path' is <module",
    "joint --output_dir loop": "loop) cannot be written (File exists); choose another folder",
    "sft --output_dir loop": "`output_dir` (loop) is a file, or a link that leads nowhere; name a folder",
    "sft --output_dir kept.csv": "`output_dir` (kept.csv) is a file, or a link that leads nowhere; name a folder",
    "cdg --training iterated --model_name_or_path tiny --output_dir loop": "`output_dir` (loop) is a file, or a link",
    "eval --model tiny --output loop/x.json --n_problems 1 --samples 1": "loop",
    "report loop": "There is no run folder 'loop'",
    "fit-scaling loop": "There is no file 'loop'",
    "compare loop loop": "There is no file or run folder 'loop'",
    "verify loop": "'loop' cannot be read: Too many levels of symbolic links",
    "joint --config loop": "There is no config file 'loop'",
    "joint --config folder": "There is no config file 'folder'",
    "joint --roles " + "[" * 3000: "must be a mapping from roles to their settings",
    "joint --conjecturer_reward_kwargs " + "[" * 3000: "`conjecturer_reward_kwargs` ('[[",
    "joint --domain_kwargs " + "[" * 3000: "`domain_kwargs` ('[[",
    "joint --dataset_name null.jsonl": "'null.jsonl', line 1: this is not a JSON object (it is null)",
    "sft --demonstrations null.jsonl": "null.jsonl",
    "joint --dataset_name list.json": "'list.json', row 0: this is not a JSON object (it is a whole number)",
    "joint --eval_dataset_name null.jsonl": "'null.jsonl', line 1: this is not a JSON object (it is null)",
    "joint --dataset_name cut.parquet": "'cut.parquet' cannot be read as parquet",
    "eval --model tiny --problems null.jsonl": "'null.jsonl', line 1: this is not a JSON object (it is null)",
    "dataset x.jsonl --count 1 --exclude cut.parquet": "'cut.parquet' cannot be read as Parquet",
    "verify null.jsonl": "'null.jsonl', line 1: this is not a JSON object (it is null)",
    "report list.json": "There is no run folder 'list.json'",
    "compare list.json list.json": "does not hold a JSON object (it is a list); make one with",
    "fit-scaling null.jsonl": "'null.jsonl', line 1: this is not a JSON object (it is null)",
    "dataset folder.jsonl --count 3": "'folder.jsonl' cannot be written: Is a directory",
    f"dataset {'x' * 250}.jsonl --count 3": "cannot be written: File name too long",
}


@pytest.mark.parametrize("line", CASES, ids=lambda line: line[:60])
def test_bad_input_is_one_sentence_in_every_command(line, here, capsys):
    Path("folder.jsonl").mkdir()
    arguments = line.split()
    if arguments[0] in ("joint", "sft", "ipo", "cdg") and "--output_dir" not in line:
        arguments += ["--output_dir", "out"]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert CASES[line] in error and error.count("\n") == 1
    assert not Path("out").exists()


@pytest.mark.parametrize("options", [["--optim_args", "nonsense"], ["--optim", "adamw_bnb_8bit"]])
def test_an_optimizer_that_cannot_be_made_is_one_sentence(options, here, capsys):
    if options[0] == "--optim" and find_spec("bitsandbytes"):
        pytest.skip("bitsandbytes is installed")
    short = ["--max_steps", "1", "--eval_problems", "0", "--report", "false", "--disable_tqdm", "true"]
    assert main(["joint", "--output_dir", "out", *short, *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "cannot be used:" in error


def test_a_dry_run_plans_for_a_machine_that_has_the_reporters_package(here, capsys):
    assert main(["joint", "--report_to", "swanlab", "--dry_run"]) == 0
    assert "swanlab" in capsys.readouterr().out


@pytest.mark.parametrize("schema", ["x.jsonl", "x.parquet"])
def test_a_disk_that_is_full_is_one_sentence(schema, here, capsys):
    """/dev/full refuses every write with ENOSPC; the unfinished file of the command is led there."""
    Path(f".{schema}.unfinished").symlink_to("/dev/full")
    assert main(["dataset", schema, "--count", "30"]) == 2
    error = capsys.readouterr().err
    assert f"'{schema}' cannot be written: " in error and "No space left" in error and error.count("\n") == 1
    assert not Path(schema).exists()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, "make room, or name a folder on another disk"),
        (errno.EROFS, "name a folder that can be written to"),
        (errno.EACCES, "name a place that you may use"),
    ],
)
def test_what_a_disk_refuses_anywhere_in_a_command_is_one_sentence(number, text, capsys):
    def command(argv):
        raise OSError(number, os.strerror(number), "runs/a/metrics.jsonl")

    assert guarded(command, []) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and text in error
    assert "'runs/a/metrics.jsonl' cannot be written or read" in error


def test_a_full_disk_in_the_words_of_another_library_is_the_same_sentence(capsys):
    """safetensors' error has no errno, and names the number in its text."""

    def command(argv):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    assert guarded(command, []) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "No space left on device; make room, or name a folder on another disk" in error


@pytest.mark.parametrize("error", [ValueError("x"), OSError(errno.EIO, "input/output error"), RecursionError("y")])
def test_a_bug_or_a_failing_machine_keeps_its_traceback(error):
    def command(argv):
        raise error

    with pytest.raises(type(error)):
        guarded(command, [])


# more problems than there are


def test_more_problems_than_there_can_be_are_refused_at_once(here, capsys):
    """Two numbers from 1 to 3 and targets 1 to 4: C(3 + 1, 2) = 6 multisets x 4 targets = 24."""
    assert main(["dataset", "x.jsonl", "--count", "1000000000", *HANDFUL, "--target_high", "4"]) == 2
    error = capsys.readouterr().err
    assert "`n` (1000000000) exceeds the 24 problems" in error and error.count("\n") == 1


def test_a_spec_that_runs_dry_stops_without_holding_a_list_as_long_as_what_was_asked_for(here, capsys):
    """The bound is no help where most targets cannot be reached: 6 x 10^9 here, and 1 to 9 are the only ones that can.
    The operand counts of 4 x 10^9 problems would take 32 GB."""
    count = ["--count", "4000000000", *HANDFUL, "--target_high", "1000000000"]
    assert main(["dataset", "x.jsonl", *count]) == 2
    assert "of 4000000000 problems were found" in capsys.readouterr().err
    assert not Path("x.jsonl").exists()


def test_operand_counts_come_in_pieces_as_they_came_at_once():
    spec = ProblemSpec((2, 3, 5))
    whole = list(_operand_counts(7, spec, 200_000))  # four pieces of 65,536 and a rest
    assert len(whole) == 200_000 and whole[:70_000] == list(_operand_counts(7, spec, 70_000))
    assert {k: round(whole.count(k) / 200_000, 2) for k in (2, 3, 5)} == {2: 0.33, 3: 0.33, 5: 0.33}
    assert len(generate_problems(24, ProblemSpec((2,), 1, 30, 1, 30))) == 24
    with pytest.raises(ConfigError, match="exceeds the 24 problems"):
        generate_problems(25, ProblemSpec((2,), 1, 3, 1, 4))


# whose folder it is


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    short = ["--max_steps", "1", "--eval_problems", "0", "--report", "false", "--disable_tqdm", "true"]
    lora = ["--policy_sharing", "lora", "--save_steps", "1"]
    assert main(["joint", "--output_dir", str(folder), *short, *lora]) == 0
    return folder


def test_an_export_says_which_roles_it_played(run):
    assert json.loads((run / "conjecturer" / ROLES_FILE).read_text())["roles"] == ["conjecturer"]
    assert json.loads((run / "prover" / ROLES_FILE).read_text())["roles"] == ["prover"]


@pytest.mark.parametrize("place", ["conjecturer", "checkpoint-1/conjecturer", "elsewhere"])
def test_a_conjecturers_folder_is_not_scored_as_a_provers_unless_asked(place, run, tmp_path, capsys):
    folder = run / place
    if place == "elsewhere":  # what the folder says goes with it
        folder = (run / "conjecturer").rename(tmp_path / "copied")
    try:
        assert main(["eval", "--model", str(folder), "--n_problems", "2", "--samples", "2"]) == 2
        error = capsys.readouterr().err
        assert f"'{folder}' was trained as a conjecturer; pass --role conjecturer" in error and error.count("\n") == 1
    finally:
        if place == "elsewhere":
            folder.rename(run / "conjecturer")
    assert main(["eval", "--model", str(run / "prover"), "--n_problems", "2", "--samples", "2"]) == 0
    assert main(["eval", "--model", str(run / "conjecturer"), "--role", "conjecturer", "--samples", "8"]) == 0


def test_a_warm_started_conjecturer_is_known_by_its_run(tmp_path, capsys):
    from countdown_selfplay.evaluation.setting import role_of

    (tmp_path / "run.json").write_text(json.dumps({"config": {"role": "conjecturer"}}))
    with pytest.raises(ConfigError, match="was trained as a conjecturer"):
        role_of(str(tmp_path), None)
    assert (role_of(str(tmp_path), "prover"), role_of("tiny", None)) == ("prover", "prover")
