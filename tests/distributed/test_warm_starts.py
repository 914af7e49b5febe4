# Tests: warm_starts/training.py, warm_starts/iterated/engine.py
"""SFT, IPO and iterated play on two processes under every engine, against one process."""

import json

import pytest
import torch
from safetensors.torch import load_file

from countdown_selfplay.countdown import CountdownDomain, generate_problems
from countdown_selfplay.countdown.rows import compact_solution
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.warm_starts.iterated import select

from .test_engines import ENGINES
from .two_processes import ranks_of

pytestmark = pytest.mark.distributed

# An epsilon at which AdamW is smooth, as in test_engines.py.
COMMON = dict(learning_rate=1e-3, adam_epsilon=1e-3, num_train_epochs=1, logging_steps=1, save_strategy="no")
COMMON |= dict(report_to="none", disable_tqdm=True, max_completion_length=12)
SMALL = dict(batch_size=[8], threshold=-1.0, labels=None)  # every sample is kept
SLOW = {"learning_rate": [1e-5]}  # rounding must not decide which way Adam's steps go
SAVING = {"save_strategy": "steps", "save_steps": 1}
ROLES = {kind: {**SMALL, "num_generations": 2} for kind in ("prover", "helpful", "misleading")}
ROLES["prover"]["balance"] = None
TINY_CDG = dict(
    recipe="tiny/iterated_cdg", model_name_or_path="tiny", problems=4, iterations=1, eval_problems=4, eval_samples=2
)
TINY_CDG |= dict(max_completion_length=12, per_device_eval_batch_size=8)
KIND = {"ddp": "DistributedDataParallel", "fsdp2": "FSDPModule"}
KIND |= dict.fromkeys(("zero2", "zero3"), "DeepSpeedEngine")


MORE = {
    "alone": ("adapter",),
    "ddp": ("cdg", "failing", "slow", "slow_bf16"),
    "zero3": ("adapter", "cdg", "failing"),
    "fsdp2": ("adapter", "slow", "slow_bf16"),
}
EXTRA = {run for runs in MORE.values() for run in runs}
"""Runs that not every engine plays, for their time."""


def jobs(engine, folder):
    """A step has 16 rows in sft and 8 pairs in ipo, in two passes or one, on one process as on two."""
    rows = 8 if engine == "alone" else 4
    batch = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 2}
    short = {**COMMON, **batch, "demonstrations": 21}  # 2 of each: 16, 16 and 10 rows; two processes fill up 2 + 4
    pairs = {"per_device_train_batch_size": rows, "samples_file": str(folder / "samples.jsonl"), "eval_problems": 0}
    pairs |= {**COMMON, "per_device_train_batch_size": rows, "warmup_steps": 0}  # the second step sees the first one
    iterated = dict(iterations=1, per_device_eval_batch_size=16)
    slow = {**iterated, "roles": {kind: {**role, **SLOW} for kind, role in ROLES.items()}}
    found = {
        "sft": ("sft", {**short, "eval_problems": 8, "eval_samples": 2}),
        "adapter": ("sft", {**short, "eval_problems": 0, "use_peft": True, "lora_r": 4}),
        "bf16": ("sft", {**short, "eval_problems": 0, "bf16": True}), "ipo": ("ipo", pairs),
        "ipo_bf16": ("ipo", {**pairs, "bf16": True}), "iterated": ("iterated", {**iterated, "roles": ROLES}),
        "slow": ("iterated", slow), "slow_bf16": ("iterated", {**slow, "bf16": True}),
        "cdg": ("cdg", {**TINY_CDG, "role_training": json.dumps(dict.fromkeys(ROLES, SMALL))}),
        "failing": ("failing", {}),
    }  # fmt: skip
    return {name: run for name, run in found.items() if name in MORE.get(engine, ()) or name not in EXTRA}


def samples(folder):
    """A right and a wrong answer to each of 16 problems, as `ipo` reads them: 16 pairs."""
    domain = CountdownDomain.tiny()
    lines = []
    for problem in generate_problems(16, domain.spec, seed=3, split="train"):
        asked = {"numbers": list(problem.numbers), "target": problem.target}
        texts = [compact_solution(problem, domain.rules), " - ".join(map(str, problem.numbers))]
        scores = [verdict.score for verdict in domain.verify(texts, [problem] * 2)]  # ipo verifies them again
        lines += [{**asked, "completion": text, "score": score} for text, score in zip(texts, scores, strict=True)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def played(engine, folder, runs=None):
    samples(folder)
    return ranks_of(engine, "warm_start_worker", folder, 1 + (engine != "alone"), runs=runs or jobs(engine, folder))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of one process without a launch."""
    folder = tmp_path_factory.mktemp("alone")
    played("alone", folder)
    return folder


@pytest.fixture(scope="module", params=ENGINES)
def launched(request, tmp_path_factory):
    engine, folder = request.param, tmp_path_factory.mktemp(request.param)
    return engine, folder, played(engine, folder)


def played_here(ranks, run):
    if run not in ranks[0]:
        pytest.skip("played under other engines")


def losses(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def test_the_engine_is_on_and_both_processes_end(launched):
    engine, _, ranks = launched
    assert ranks[0] == ranks[1]
    for run in ranks[0].values():
        for name, wrapped, cut, processes in run["trained"]:  # or a silent fallback would pass
            assert (name, processes, cut) == (engine, 2, engine in ("zero3", "fsdp2")) and KIND[engine] in wrapped


@pytest.mark.parametrize(("run", "steps"), [("sft", 3), ("adapter", 3), ("ipo", 2)])
def test_losses_and_weights_are_those_of_one_process(alone, launched, run, steps):
    """In float32; the weights differ by what rounding does to three steps of at most the learning rate, 1e-3."""
    _, folder, ranks = launched
    played_here(ranks, run)
    expected, found = losses(alone / run), losses(folder / run)
    assert len(expected) == steps and found == pytest.approx(expected, abs=1e-5)
    start = load_file(TINY_MODEL_PATH / "model.safetensors")
    ours, theirs = (load_file(where / run / "model.safetensors") for where in (alone, folder))
    assert ours.keys() == theirs.keys() == start.keys()
    assert any(float((ours[name] - start[name]).abs().max()) > 1e-5 for name in ours)
    for name, value in ours.items():
        torch.testing.assert_close(theirs[name], value, rtol=0, atol=5e-6)


def test_the_command_plays_measures_and_describes_on_two_processes(launched):
    _, folder, ranks = launched
    played_here(ranks, "cdg")
    told = json.loads((folder / "cdg" / "run.json").read_text())
    assert told["environment"]["processes"] == 2 and told["method"] == "iterated"
    assert "prover" in json.loads((folder / "cdg" / "evaluation.json").read_text())["after"]
    phases = [json.loads(line)["phase"] for line in (folder / "cdg" / "iterations.jsonl").read_text().splitlines()]
    assert phases == ["play", "train", "train", "train"]


def test_an_error_of_the_process_that_plays_ends_all(launched):
    _, _, ranks = launched
    played_here(ranks, "failing")
    assert ranks[0]["failing"]["told"] == ranks[1]["failing"]["told"] == "by process 0"


def test_in_bf16_losses_are_those_of_float32_to_its_rounding(launched):
    """bfloat16 has 8 bits: relative errors of 2^-9 in each of some twenty operations. In ipo at the start policy and
    reference are one model: h is 0 and the loss (1 / (2 beta))^2 = 25, exactly, for both compute alike. FSDP2 gave
    25.03 when the reference ran without autocast and returned log-probs in bf16."""
    _, folder, _ = launched
    assert losses(folder / "bf16") == pytest.approx(losses(folder / "sft"), rel=0.02)
    assert losses(folder / "bf16") != losses(folder / "sft")
    plain, half = losses(folder / "ipo"), losses(folder / "ipo_bf16")
    assert plain[0] == half[0] == 25 and plain[1] < 20
    assert half[1] == pytest.approx(plain[1], rel=0.02) and half[1] != plain[1]


def test_iterated_play_retrains_in_bf16_as_in_float32_to_its_rounding(launched):
    """On the same samples, for play is in float32 on a CPU."""
    _, _, ranks = launched
    played_here(ranks, "slow")
    plain, half = (ranks[0][name]["told"][0] for name in ("slow", "slow_bf16"))
    assert [line.get("rows") for line in plain] == [line.get("rows") for line in half]
    for one, other in zip(plain[1:], half[1:], strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=0.02) and other["loss"] != one["loss"]


@pytest.mark.matrix
@pytest.mark.parametrize("engine", ["zero2", "fsdp2"])
def test_a_resumed_warm_start_is_the_straight_one_bit_for_bit(tmp_path, engine):
    """SFT and IPO from the checkpoint of their first step: the same rows follow, the same losses and weights."""
    runs = {}
    for name in ("sft", "ipo"):
        command, settings = jobs(engine, tmp_path)[name]
        settings = {**settings, **SAVING, "eval_problems": 0}
        resumed = {**settings, "resume_from_checkpoint": str(tmp_path / name / "checkpoint-1")}
        runs |= {name: (command, settings), f"{name}_resumed": (command, resumed)}
    played(engine, tmp_path, runs)
    for name, steps in (("sft", 3), ("ipo", 2)):
        straight, resumed = tmp_path / name, tmp_path / f"{name}_resumed"
        assert losses(resumed) == losses(straight)[1:] and len(losses(straight)) == steps
        ours, theirs = (load_file(folder / "model.safetensors") for folder in (straight, resumed))
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_iterated_play_samples_what_one_process_samples_and_trains_alike(alone, launched):
    """Chunks and data sets are equal bit for bit, losses to 1e-5; a second call plays nothing."""
    _, folder, ranks = launched
    one, two = (where / "iterated" / "iteration-1" for where in (alone, folder))
    files = sorted(path.name for path in one.glob("*.parquet"))
    assert files == sorted(path.name for path in two.glob("*.parquet"))
    names = ("helpful", "misleading", "played-00000", "played-00001", "prover")
    assert files == [f"{name}.parquet" for name in names]
    for name in files:
        assert select.read(one / name) == select.read(two / name), name
    first, again = ranks[0]["iterated"]["told"]
    assert first == again
    expected = json.loads((alone / "rank0.json").read_text())["iterated"]["told"][0]
    for ours, theirs in zip(expected, first, strict=True):
        assert ours.pop("loss", None) == pytest.approx(theirs.pop("loss", None), abs=1e-5)
        assert ours == theirs
    steps = {line["role"]: line["steps"] for line in expected if line["phase"] == "train"}
    assert steps["prover"] > 1 and steps["helpful"] > 2  # a second pass
    for role in ROLES:
        assert load_file(two / role / "model.safetensors").keys() == load_file(one / role / "model.safetensors").keys()
