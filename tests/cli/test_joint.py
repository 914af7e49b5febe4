# Tests: cli/joint.py, config/script.py, training/run.py
"""`countdown-selfplay joint` from end to end, its dry run, and its bad input."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from tests.installed import PAGE, here

from countdown_selfplay.cli.joint import parse
from countdown_selfplay.cli.main import main
from countdown_selfplay.evaluation import terminal
from countdown_selfplay.tiny import TINY_MODEL_PATH

SHORT = ["--max_steps", "3", "--eval_problems", "32", "--eval_proposals", "64", "--num_generations_eval", "4"]


def test_the_default_run_leaves_a_complete_run_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(terminal, "_PAUSE", 0.0)  # an update after each batch, where stderr is not a terminal
    assert main(["joint", "--output_dir", str(tmp_path), "--save_steps", "2", "--disable_tqdm", "false", *SHORT]) == 0
    out, error = capsys.readouterr()
    assert re.search(r"prover: 100%.* 128/128 .* answers/s", error)
    assert re.search(r"conjecturer: 100%.* 64/64 .* proposals/s", error)
    assert "prover pass@1" in out and "conjecturer solvable" in out and "conjecturer solve rate" in out
    names = {path.name for path in tmp_path.iterdir()}
    assert {"metrics.jsonl", "samples.jsonl", "run.json", "evaluation.json", *PAGE} <= names
    assert not PAGE or "plots" in names  # lab draws both
    assert {"prover", "conjecturer", "checkpoint-2"} <= names
    result = json.loads((tmp_path / "evaluation.json").read_text())
    assert result["before"]["prover"]["n"] == 4 and len(result["after"]["prover"]["correct"]) == 32
    assert set(result["difference"]) == {"pass@1", "pass@4"}


@pytest.mark.parametrize("model", ["tiny", "qwen2.5-0.5b"])
def test_the_recipes_hold_the_papers_table(model):
    """Seed 001, table 1: c-reward, mix, c-lr, c-KL, steps; sections 3.2 and 5.2: 16 problems, G = 8, truncation until
    the fix, guard and length penalty only after the binary runs; its authors' launch scripts: batch, entropy and
    accumulation of each run but the conservative one, whose drafts have 8 proposals, 4 answers and about 400 update
    samples in 25 steps, which leaves no room for a truncation. On the tiny model learning rates are 10 times as
    high."""
    low, high = (0.05, 0.85), (0.05, 0.75)
    expected = {  # ..., proposals, problems at most, answers, multiple, entropies, penalty, guard, reward if cut off
        "conservative_binary":
            ("binary_band", low, 0, 5e-7, 0.02, 25, "none", 8, 8, 4, None, 0.02, 0.01, 0, False, None),
        "aggressive_binary":
            ("binary_band", high, 0, 1e-5, 0.001, 30, "truncate", 64, 64, 8, 16, 0.001, 0.001, 0, False, 0),
        "anchored_shaped": ("tent", (), 0.5, 1e-6, 0.02, 100, "truncate", 16, 16, 8, 8, 0.01, 0.01, 0.1, True, 0),
        "anchored_shaped_fixed":
            ("tent", (), 0.5, 1e-6, 0.02, 100, "keep_all", 32, 64, 8, 8, 0.01, 0.01, 0.1, True, None),
    }  # fmt: skip
    for name, row in expected.items():
        _, args, _ = parse(["--recipe", f"{model}/{name}", "--report_to", "none"])
        c, p, scale = args.role("conjecturer"), args.role("prover"), 10 if model == "tiny" else 1
        round_ = args.game_settings
        found = (args.conjecturer_reward, tuple(args.reward_arguments.values()), round_.anchor_fraction)
        found += (
            pytest.approx(c.learning_rate / scale), c.beta, args.max_steps, round_.fill, args.proposals_per_round,
        )  # fmt: skip
        found += (args.problems_per_round, p.num_generations, round_.truncate_multiple, p.entropy_coef, c.entropy_coef)
        assert (*found, args.length_penalty, args.guard, round_.unplayed_reward) == row, name
        assert (pytest.approx(p.learning_rate / scale), p.beta, round_.duplicate_proposals) == (1e-5, 1e-3, "keep")
        assert {(r.kl_estimator, r.kl_reduction) for r in (c, p)} == {("k1", "mean")} and args.weight_decay == 0.01
        assert (round_.easy_above, args.importance_clip_low, args.importance_clip_high) == (0.95, 0.5, 2.0)
        if args.guard:
            assert args.guard_scope == "conjecturer" and args.length_penalty_floor == 0.0
        if model != "tiny":
            assert p.stop == ("</answer>",) and c.stop == ("</problem>", "\n\n") and c.temperature == 0.7
            assert args.eval_preset == "joint_rloo" and args.countdown.leading_minus and c.max_completion_length == 64
            assert p.max_completion_length == (512 if name == "aggressive_binary" else 1024)


def test_the_dry_run_prints_settings_batch_arithmetic_and_memory_for_any_proposer_model_and_launch(tmp_path, shown):
    path = Path(__file__).parents[2] / "examples" / "recipes" / "tiny" / "anchored_shaped_fixed.yaml"
    out = shown("joint --dry_run --config", path, "--output_dir", tmp_path / "run")
    assert "prover: 64 problems x 8 = 512 answers" in out
    assert "conjecturer: 1 prompt x 32 = 32 proposals" in out
    bounds = "at most 64, every proposal, at least a share of 0.5 anchors, padded to a multiple of 8"
    assert f"problems per round: {bounds}" in " ".join(out.split())
    assert "optimizer" in out and "GiB" in out
    assert not (tmp_path / "run").exists()
    # docs/ladder.md: no conjecturer, and no anchors either.
    ladder = "joint --dry_run --recipe tiny/ladder --proposer uniform_rungs --conjecturer_players 0 --output_dir"
    assert "problems per round: at most 64, chosen by the proposer uniform_rungs" in shown(ladder, tmp_path)
    unread = "No figures: the config of 'asingh15/qwen-sft-countdown-defaultproj' cannot be read here"
    assert unread in shown("joint --dry_run --recipe qwen2.5-0.5b/anchored_shaped_fixed")
    out = shown("joint --dry_run --accelerate_config zero3 --num_processes 4 --output_dir", tmp_path / "run")
    assert "ZeRO-3 over 4 processes, bf16, cuda" in out
    assert "prover: 16 problems x 16 = 256 answers" in out and "on each of 4 process(es)" in out  # of tiny/default
    assert max(map(len, out.splitlines())) <= 80


def test_a_dry_run_reads_an_adapters_base_and_looks_at_the_conjecturers_model(tmp_path, run, shown):
    (tmp_path / "adapter").mkdir()
    said = {"base_model_name_or_path": str(TINY_MODEL_PATH)}
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(said))
    asked = ("joint --dry_run --recipe tiny/default --output_dir", tmp_path / "run")
    models = ("tiny", tmp_path / "adapter")
    tables = [shown(*asked, "--model_name_or_path", model).partition("# Memory")[2] for model in models]
    assert tables[0] == tables[1] and "the larger half of a round" in tables[0]
    code, _, error = run(*asked, "--conjecturer_model", "/no/where")
    assert code == 2 and "The model '/no/where' cannot be read: there is no such folder" in error


def test_a_run_folder_given_as_model_names_its_policies(tmp_path, refused):
    prover = tmp_path / "run" / "prover"
    prover.mkdir(parents=True)
    (prover / "config.json").write_text("{}")
    asked = ("joint --recipe tiny/default --output_dir", tmp_path / "out")
    assert f"its policies lie in {prover}" in refused(*asked, "--model_name_or_path", prover.parent)


@pytest.mark.parametrize("command", here(["joint", "rloo", "sft", "ipo"]))
def test_help_lists_our_fields_first_and_trls_others_on_request(command, shown, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    brief, whole = shown(command, "--help"), shown(command, "--help-all")
    assert brief.index("--dry_run") < brief.index("Problems and prompts:") < brief.index("From TRL and Transformers")
    assert "--dataloader_num_workers" not in brief and "--dataloader_num_workers" in whole
    assert "--help-all: each option at length, and " in brief and len(brief.splitlines()) <= 300
    options = [line.split()[0] for line in whole.splitlines() if line.startswith("  --")]
    assert len(options) == len(set(options))  # each once
    assert {"--learning_rate", "--seed", "--operands", "--number_high"} <= set(options)


def test_a_config_for_a_gpu_is_planned_where_there_is_none(shown, refused, tmp_path, monkeypatch):
    """TrainingArguments itself refuses bf16 there, which a run is told in one line."""
    monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: False)
    config = tmp_path / "mine.yaml"
    config.write_text("model_name_or_path: tiny\nbf16: true\nprover_prompt: compact\nconjecturer_prompt: compact\n")
    asked = ("joint --config", config, "--output_dir", tmp_path / "run")
    out = shown(*asked, "--dry_run=true", "--accelerate_config", "zero3", "--num_processes", 8)
    assert "ZeRO-3 over 8 processes, bf16, cuda" in out and "1.3M x 2 bytes / 8" in out
    assert re.search(r"^bf16 +True$", out, re.MULTILINE)
    out = shown(*asked, "--dry_run", "--accelerate_config", "cpu_ddp")  # its file says nothing of precision
    assert "DDP over 2 processes, bf16, cpu" in out
    assert "Your setup doesn't support bf16/gpu" in refused(*asked)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the sentence is for machines without a GPU")
def test_a_dry_run_says_that_the_run_itself_would_be_refused_here(shown, tmp_path):
    asked = ("joint --bf16 true --dry_run --output_dir", tmp_path / "run")
    assert "A run would be refused here: bf16 on a CPU needs --use_cpu." in shown(*asked)
    assert "refused" not in shown(*asked, "--use_cpu")


@pytest.mark.parametrize("changes, said", [
    ("--conjecturer_reward learning_progress --optim sgd", "follows Adam's moments"),
    ("--conjecturer_reward learning_progress --accelerate_config zero3 --num_processes 2", "holds in parts"),
    ("--conjecturer_reward learning_progress", ""),
])  # fmt: skip
def test_a_dry_run_says_what_the_run_would_be_refused_for(run, tmp_path, changes, said):
    code, out, error = run(f"joint --dry_run {changes} --output_dir", tmp_path / "run")
    assert code == (2 if said else 0)
    assert "at least" in out and said in error and ("A run would be refused:" in error) == bool(said)


@pytest.mark.parametrize(("changes", "said", "printed"), [
    ("--model_name_or_path bare", "The model 'bare' cannot be loaded: it is a folder without a tokenizer.",
     "One round"),
    ("--lr_scheduler_type cosine_with_min_lr", "`lr_scheduler_type` (cosine_with_min_lr) with", "One round"),
])  # fmt: skip
def test_a_dry_run_ends_as_the_run_would(run, tmp_path, monkeypatch, changes, said, printed):
    """bare: a config without a tokenizer, whose own sentence is told."""
    monkeypatch.chdir(tmp_path)
    Path("bare").mkdir()
    shutil.copy(TINY_MODEL_PATH / "config.json", "bare")
    code, out, error = run(f"joint --dry_run --output_dir run {changes}")
    assert code == 2 and said in error and error.count("\n") == 1 and printed in out
