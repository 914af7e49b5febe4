# Tests: cli/recipes.py, warm_starts/configs.py
"""Every shipped recipe is planned by `--dry_run`, without the network and without a weight."""

import json
import re
import socket

import pytest
from tests.cli.stand_in import make_tokenizer
from tests.cli.test_precedence import solve_rates_of_a_run
from tests.cli.test_recipes_played import ROOT, flags, public  # noqa: F401  (a fixture)
from transformers import Qwen2Config

from countdown_selfplay.cli.main import main
from countdown_selfplay.cli.recipes import facts
from countdown_selfplay.config.recipes import recipe_settings, recipes

SHAPES = {  # hidden, inner, layers, heads, key heads, vocabulary, tied; the model cards say 135M, 0.49B, 3.09B, 7.61B
    "135M": (576, 1536, 30, 9, 3, 49152, True),
    "0.5B": (896, 4864, 24, 14, 2, 151936, True),
    "3B": (2048, 11008, 36, 16, 2, 151936, True),
    "7B": (3584, 18944, 28, 28, 4, 152064, False),
}
PLANNED_BY_CDG = {*recipes("cdg"), "llama-3.1-8b/cdg_ppo"}  # tests/warm_starts/cli/test_cdg.py plans them
JOINT = sorted(set(recipes()) - PLANNED_BY_CDG)
CHECKED = {f"{model}/sft_self_correction" for model in ("llama-3.1-8b", "tiny")}  # test_eval_tasks.py plans them
WARM = sorted((command, name) for command in ("sft", "ipo") for name in {*recipes(command)} - CHECKED)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """Folders with a config and a tokenizer, and no weights."""
    found, tokenizer = {}, make_tokenizer()
    for size, (hidden, inner, layers, heads, key_heads, vocabulary, tied) in SHAPES.items():
        found[size] = str(tmp_path_factory.mktemp(size))
        Qwen2Config(
            hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
            num_key_value_heads=key_heads, vocab_size=vocabulary, tie_word_embeddings=tied,
        ).save_pretrained(found[size])  # fmt: skip
        tokenizer.save_pretrained(found[size])
    return found


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("a dry run went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.chdir(tmp_path)


def planned(name, shapes, *more, refused=False):
    """The settings of a joint recipe, with its model where it is found here; what the dry run prints of it is checked
    by the caller."""
    written = recipe_settings(name)
    size = next((one for one in SHAPES if f"-{one.lower()}/" in name), None)
    here = "tiny" if size is None else shapes[size]
    changed = {key: here for key in ("model_name_or_path", "conjecturer_model") if key in written}
    if "conjecturer_model" in written:
        changed["conjecturer_model"] = here
    if "labels" in str(written.get("proposer_kwargs")):
        solve_rates_of_a_run()
    if (written.get("roles") or {}).get("guide", {}).get("model"):
        changed["roles"] = json.dumps({"guide": {"model": here, "weights": "start"}})
    starts = str(written.get("dataset_name", "")).startswith("runs/")  # made by --prepare, and not here
    assert main(["joint", "--recipe", name, *flags(changed), "--dry_run", *more]) == (2 if starts or refused else 0)
    return written


@pytest.mark.parametrize("name", JOINT)
def test_a_recipe_of_joint_is_planned(name, shapes, capsys):
    large = name.startswith("qwen2.5-7b/")  # two whole 7B models, for several GPUs
    written = planned(name, shapes, "--accelerate_config", "single_gpu", refused=large)
    out, err = capsys.readouterr()
    peak = float(re.search(r"^at most about +([\d.]+) ", out, re.MULTILINE)[1])
    assert facts()["recipes"][name]["gib"] == pytest.approx(peak, rel=0.02)  # what `recipes` shows
    assert ("Fits a GPU of 79 GiB." in out) == (peak < 79) == (not large) and ("and a GPU has 79" in err) == large
    # by hand, one GPU: weights, gradients and Adam are 16 bytes a weight of each trained model
    weights = {"tiny": 0.0007, "135m": 0.1345, "0.5b": 0.49, "3b": 3.09 / 4, "7b": 2 * 7.61}  # the 3B are frozen
    least = {size: 16 * billions / 1.074 for size, billions in weights.items()}
    size = name.partition("/")[0].rpartition("-")[2]
    assert least[size] < peak < 50 * least[size]
    if written.get("game") == "critic_discernment":  # a question: 4 answers, 2 critiques of each, 2 revisions of each
        (problems,) = map(int, re.findall(r"^problems per round: (\d+)$", out, re.MULTILINE))
        samples = problems * (4 + 4 * 2 * 2)
        assert f"prover: at most {samples} samples\n" in out
        assert f"rounds: {written['max_steps']}, so at most {written['max_steps'] * samples} prover" in out
    else:
        slots = re.search(r"^prover.*: (\d+) problems x (\d+) = (\d+) answers$", out, re.MULTILINE)
        problems, answers, samples = map(int, slots.groups())
        assert samples == problems * answers and answers == written.get("num_generations", answers)
        assert f"rounds: {written['max_steps']}, so {written['max_steps'] * samples}" in out or "each of" in slots[0]
    assert max(map(len, out.partition("# One round")[2].splitlines())) <= 80


@pytest.mark.parametrize(("command", "name"), WARM)
def test_a_recipe_of_a_warm_start_is_planned(command, name, public, capsys):  # noqa: F811
    written = recipe_settings(name, command)
    changed = {key: public[key] for key in ("dataset_name", "eval_dataset_name") if key in written}
    if "dataset_name" in changed:
        changed["dataset_name"] = changed["dataset_name"].replace("train.", f"{command}.")
    if "demonstrations" in written:
        changed["demonstrations"] = "64"
    if written["model_name_or_path"].startswith("models/"):  # made by `models`, and not here
        changed["model_name_or_path"] = public["model_name_or_path"]
    assert main([command, "--recipe", name, *flags(changed), "--dry_run"]) == 0
    out = capsys.readouterr().out
    batch = written["per_device_train_batch_size"] * written.get("gradient_accumulation_steps", 1)
    assert f"x 1 process(es) = {batch} rows" in out and re.search(r"^model: .+, not loaded by a dry run$", out, re.M)


def test_large_recipes_are_planned_as_counted_by_hand(shapes, capsys):
    """By hand: a layer has 2 x (2048 + 2048) + 2 x (2048 + 256) + 3 x (2048 + 11008) = 51,968 inputs and outputs;
    times 36 layers, rank 32 and two roles 119.7M weights, over a base of 3,085.9M."""
    planned("qwen2.5-3b/anchored_shaped_fixed", shapes)
    out = capsys.readouterr().out
    assert "3205.7M x 4 bytes" in out and "119.7M x 8 bytes" in out
    assert "prover: 64 problems x 8 = 512 answers" in out
    assert "conjecturer: 1 prompt x 32 = 32 proposals" in out
    # By hand: 512 targets and as many problems x 8 answers are 16 x 2 samples in each of 256 steps.
    planned("qwen2.5-0.5b/sgs", shapes)
    out = capsys.readouterr().out
    assert "# One round = at most 256 optimizer steps" in out
    assert "prover: 1024 problems x 8 = 8192 answers" in out
    assert "steps: 32 trained sequences each, at most 256 a round" in out
    # By hand: two models of 7,615.6M weights; 2 bytes a weight in bf16 and 12 of DeepSpeed's Adam, over 8 processes;
    # 64 problems x 8 answers and 64 proposals.
    planned("qwen2.5-7b/anchored_shaped_fixed", shapes, "--accelerate_config", "zero3", "--num_processes", "8")
    out = capsys.readouterr().out
    assert "ZeRO-3 over 8 processes, bf16, cuda" in out
    assert "15231.2M x 2 bytes / 8" in out and "15231.2M x 12 bytes / 8" in out
    assert "prover: 64 problems x 8 = 512 answers" in out and "on each of 8 process(es)" in out
    assert "conjecturer: 8 prompts x 8 = 64 proposals" in out
    peak = float(re.search(r"^at most about +([\d.]+) ", out, re.MULTILINE)[1])
    assert 2 * 7.61 * 14 / 8 / 1.074 < peak < 79 and "Fits a GPU of 79 GiB." in out


def test_these_are_all_recipes():
    files = {f"{path.parent.name}/{path.stem}" for path in (ROOT / "examples" / "recipes").glob("*/*.yaml")}
    assert files == {*JOINT, *(name for _, name in WARM), *PLANNED_BY_CDG, *CHECKED}
