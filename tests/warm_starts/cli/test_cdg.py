# Tests: warm_starts/cli/cdg.py, games/critic_discernment.py, warm_starts/iterated/settings.py, warm_starts/planning.py
"""`countdown-selfplay cdg` on the tiny model, both ways. The shipped weights do not know the game."""

import json
import shutil
from types import SimpleNamespace

import pytest

from countdown_selfplay.cli.main import main
from countdown_selfplay.config.recipes import recipes
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.warm_starts import training as warm_start
from countdown_selfplay.warm_starts.cli import cdg
from countdown_selfplay.warm_starts.iterated import IteratedSettings, select

EMBEDDED = ["--model_name_or_path", "tiny"]  # which does not know the game
SIZES = ["--problems", "6", "--chunk", "4", "--iterations", "1", "--eval_problems", "4", "--eval_samples", "2"]
SHORT = [*EMBEDDED, *SIZES]


def test_one_iteration_by_the_paper(tmp_path, capsys, caplog):
    arguments = ["cdg", "--recipe", "tiny/iterated_cdg", "--output_dir", str(tmp_path / "run"), *SHORT]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert '"phase": "play"' in said and "prover pass@2" in said
    # Hardly a critique can be read: said when the first chunk was played, and above the table.
    (warned,) = [record.message for record in caplog.records if "Hardly anything can be read" in record.message]
    assert "helpful/read_rate" in warned and warned.endswith("run `countdown-selfplay cdg --prepare`.")
    train, read = said.index('"phase": "train"'), said.index("- The share of helpful critiques that can be read was ")
    assert train < read < said.index("prover pass@1")
    rows = select.read(tmp_path / "run" / "iteration-1" / "played-00000.parquet")
    assert {row["weights"] for row in rows} and len({row["problem"] for row in rows}) == 4
    lines = [json.loads(line) for line in (tmp_path / "run" / "iterations.jsonl").read_text().splitlines()]
    assert [line.get("role") for line in lines] == [None, "prover", "helpful", "misleading"]
    empty = [line["role"] for line in lines if line.get("note")]
    assert "helpful" in empty and "prover" not in empty  # nobody was mended: reported, the role keeps its weights


def test_a_folder_in_which_nothing_was_played_takes_other_settings(tmp_path, capsys):
    arguments = ["cdg", "--recipe", "tiny/iterated_cdg", "--output_dir", str(tmp_path / "run"), *SHORT]
    assert main([*arguments, "--model_name_or_path", "nowhere/at/all"]) == 2
    assert main(arguments) == 0
    assert "nowhere" not in (tmp_path / "run" / "run.json").read_text()
    (tmp_path / "file").touch()
    capsys.readouterr()
    assert main(["cdg", "--model_name_or_path", "tiny", "--output_dir", str(tmp_path / "file")]) == 2
    assert "is a file, or a link that leads nowhere; name a folder" in capsys.readouterr().err


def test_online_it_is_a_joint_run_with_the_games_recipe(tmp_path, capsys, caplog):
    arguments = [
        *EMBEDDED, "--recipe", "tiny/cdg", "--training", "online", "--output_dir", str(tmp_path), "--max_steps", "1",
        "--eval_problems", "0",
    ]  # fmt: skip
    assert main(["cdg", *arguments, "--save_strategy", "no", "--per_device_train_batch_size", "16"]) == 0
    (line, *_) = [json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {"misleading/read_rate", "helpful/read_rate", "prover/correct_rate"} <= set(line)
    assert line["prover/format_rate"] > 0.9  # the embedded model answers, and knows no critiques
    (warned,) = [record.message for record in caplog.records if "Hardly anything can be read" in record.message]
    assert "helpful/read_rate" in warned and "prover/format_rate" not in warned
    assert "- The share of helpful critiques that can be read was " in capsys.readouterr().out


def test_a_dry_run_tells_the_papers_numbers_of_every_recipe(tmp_path, capsys, monkeypatch):
    """Of a problem with 4 wrong answers: 4 x 8 critiques and 32 x 4 revisions, so 164 samples of 19,473 problems each;
    appendix B's learning rates, batches and epochs."""
    monkeypatch.chdir(tmp_path)
    assert len(recipes("cdg")) == 4
    for name in recipes("cdg"):
        code = main(["cdg", "--recipe", name, "--dry_run", "--output_dir", "run"])
        said, error = capsys.readouterr()
        assert code == (2 if name.startswith("tiny/") else 0)  # its start is not made here
        assert (code == 0) != ("not there yet; run: countdown-selfplay cdg --prepare" in error)
        assert "a problem: 4 answers, at most 32 critiques and 128 revisions" in said and (
            "not loaded by a dry run" in said
        ) == (code == 0)
        if name.startswith("tiny/"):
            continue
        assert f"in all at most {19_473 * 164:,} samples of up to 4,096 tokens" in said
        table = [line.split() for line in said.splitlines() if line.startswith(("prover ", "helpful ", "misleading "))]
        assert [line[:5] for line in table] == [
            [role, *rest]
            for role, passes in (("prover", "1"), ("helpful", "2"), ("misleading", "1"))
            for rest in (["1", "5e-06", "32", passes], ["2", "1e-06", "256", passes])
        ]
        assert ("30,000 samples" in said) == name.endswith("_base")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("name", "samples", "rows", "problems", "rounds"), [
    # A question may need 4 answers, 4 x 2 critiques and 8 x 2 revisions: 16 of 20 samples of the prover are 320.
    ("tiny/cdg", (320, 128, 128), 64, 16, 150),
    # 8 questions: 32 answers, 32 x 8 or 32 x 4 critiques, 256 x 4 revisions.
    ("llama-3.1-8b/cdg_ppo", (1056, 256, 128), 4, 8, 2400),
])  # fmt: skip
def test_a_dry_run_online_plans_the_rounds_that_the_game_plays(
    name, samples, rows, problems, rounds, tmp_path, capsys
):
    asked = ["cdg", "--training", "online", "--recipe", name, "--dry_run", "--output_dir", str(tmp_path)]
    assert main(asked) == (2 if name.startswith("tiny/") else 0)
    out = capsys.readouterr().out
    said = " ".join(out.split("\n# One round")[1].split("\n# Memory")[0].split())
    each = zip(("prover", "helpful", "misleading"), samples, strict=True)
    wanted = [*(f"{role}: at most {count} samples" for role, count in each), f"micro-batch: at most {rows} rows,"]
    wanted += [f"on each of 1 process(es) problems per round: {problems} rounds: {rounds},"]
    assert said.endswith(" ".join([*wanted, f"so at most {rounds * samples[0]} prover samples"]))
    if name.endswith("ppo"):
        (line,) = [line.split() for line in out.splitlines() if line.startswith("sft_coef")]
        assert line == ["sft_coef", "0.5", "0.0", "0.0"] and "One round = 4 optimizer steps" in out


def test_the_other_way_is_a_flag(tmp_path, capsys):
    (tmp_path / "run.yaml").write_text("training: online\nproblems: 6\n")
    assert main(["cdg", "--config", str(tmp_path / "run.yaml")]) == 2
    error = capsys.readouterr().err
    assert "`training` (online) in a file cannot be" in error and error.count("\n") == 1


def test_a_baseline_with_the_budget_of_a_run_is_one_command(tmp_path, capsys):
    first = ["cdg", "--recipe", "tiny/iterated_cdg", *SHORT, "--eval_problems", "0", "--leave_out", "helpful"]
    rates = json.dumps({role: {"batch_size": 4} for role in ("prover", "helpful", "misleading")})
    assert main([*first, "--output_dir", str(tmp_path / "run"), "--role_training", rates]) == 0
    log = [json.loads(line) for line in (tmp_path / "run" / "iterations.jsonl").read_text().splitlines()]
    steps = {line["role"]: line["steps"] for line in log if line.get("steps")}
    more = [
        "--output_dir", str(tmp_path / "ei"), "--algorithm", "expert_iteration", "--budget_of", str(tmp_path / "run"),
    ]  # fmt: skip
    assert main([*first[:3], *SHORT, "--eval_problems", "0", *more]) == 0
    lines = [json.loads(line) for line in (tmp_path / "ei" / "iterations.jsonl").read_text().splitlines()]
    assert [(line["role"], line["steps"]) for line in lines[1:]] == [("prover", steps["prover"])]
    capsys.readouterr()
    assert main([*first[:3], *SHORT, "--budget_of", str(tmp_path / "none"), "--output_dir", str(tmp_path / "x")]) == 2
    assert "`budget_of` takes the output_dir of an iterated run" in capsys.readouterr().err


def test_the_table_is_sampled_as_the_preset_says(monkeypatch):
    """training: the play's own temperature .95 and top-p .95; cdg: .95, top-k 10 and 8,192 tokens (appendix C.1)."""
    seen = []
    result = SimpleNamespace(to_dict=dict)
    monkeypatch.setattr(warm_start, "evaluate_prover", lambda *given, **how: seen.append(how) or result)
    for name in ("training", "cdg"):
        script, settings = cdg.IteratedArguments(eval_preset=name), IteratedSettings(top_k=0, max_completion_length=16)
        cdg.measure(str(TINY_MODEL_PATH), [], None, script, settings)
    names = ("temperature", "top_p", "top_k", "max_new_tokens")
    assert [[how[n] for n in names] for how in seen] == [[0.95, 0.95, 0, 16], [0.95, 1.0, 10, 8192]]


GIB = 2**30
# Llama-3.1-8B by hand: two embeddings, a norm; in each of 32 layers q, o, k, v, the MLP's three and two norms.
LAYER = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
WEIGHTS = 2 * 128256 * 4096 + 32 * LAYER + 4096
SHAPE = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture
def llama(tmp_path):
    """The folder of an 8B without weights; its tokenizer, which only counts a prompt's tokens, is another one."""
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SHAPE))
    for file in TINY_MODEL_PATH.glob("*token*"):
        shutil.copy(file, folder)
    return str(folder)


def memory_planned(capsys, *argv):
    """GiB of each part; without a launch file a dry run plans for one process on this machine's device."""
    assert main([*argv, "--dry_run"]) == 0
    table = capsys.readouterr().out.partition("# Memory per process in GiB")[2].splitlines()
    found = {}
    for line in table[3:]:
        name, _, rest = line.partition("  ")
        if not rest:
            break
        found[name] = float(rest.split()[0])
    return found


# Bytes a weight, by hand: float32 weights, gradients and two moments over 8; under DeepSpeed bf16 weights and
# gradients and the optimizer's 4 + 8, of which ZeRO-2 keeps whole weights; DDP all on each.
@pytest.mark.parametrize(
    ("engine", "weights", "optimizer", "gradients"),
    [("fsdp2", 4 / 8, 8 / 8, 4 / 8), ("zero3", 2 / 8, 12 / 8, 2 / 8), ("zero2", 2, 12 / 8, 2 / 8), ("ddp", 4, 8, 4)],
)
def test_the_8b_recipe_of_iterated_play_by_engine(engine, weights, optimizer, gradients, llama, capsys):
    launch = ["--accelerate_config", engine, "--num_processes", "8"]
    found = memory_planned(
        capsys, "cdg", "--recipe", "llama-3.1-8b/iterated_cdg", "--model_name_or_path", llama, *launch
    )
    # three roles in bfloat16; 16 texts of a question (512), an answer, a critique and a revision (4,096 each), and for
    # each token 32 layers of 1,024 keys and values in bfloat16
    cache = 16 * (512 + 3 * 4096) * 32 * 1024 * 2 * 2
    assert found["weights, sampling"] == pytest.approx(3 * 2 * WEIGHTS / GIB, abs=0.001)
    assert found["KV cache (sampling)"] == pytest.approx(cache / GIB, abs=0.001)
    for name, each in (("weights", weights), ("optimizer", optimizer), ("gradients (training)", gradients)):
        assert found[name] == pytest.approx(each * WEIGHTS / GIB, abs=0.001), name
    assert (found["at least"] < 75) == (engine != "ddp")  # of an accelerator's 80 GB, which are 74.5 GiB


def test_with_vllm_the_models_leave_the_device_and_a_model_that_is_not_here_has_no_estimate(llama, capsys):
    launch = ["--accelerate_config", "zero3", "--num_processes", "8", "--generation_backend", "vllm"]
    found = memory_planned(
        capsys, "cdg", "--recipe", "llama-3.1-8b/iterated_cdg", "--model_name_or_path", llama, *launch
    )
    assert found["at least"] == pytest.approx(16 / 8 * WEIGHTS / GIB, abs=0.002)
    assert set(found) == {"weights", "optimizer", "gradients (training)", "at least"}
    assert main(["cdg", "--recipe", "llama-3.1-8b/iterated_cdg", "--dry_run"]) == 0
    assert "No figures: the config of 'meta-llama/Llama-3.1-8B-Instruct' cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["sft", "ipo"])
def test_a_warm_start_trains_shards(command, llama, capsys):
    argv = [command, "--recipe", f"tiny/{command}", "--model_name_or_path", llama, "--accelerate_config", "fsdp2"]
    found = memory_planned(capsys, *argv, "--demonstrations" if command == "sft" else "--problems", "20")
    assert found["at least"] == pytest.approx(2 * WEIGHTS / GIB, abs=0.002)
