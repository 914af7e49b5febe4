# Tests: warm_starts/configs.py, warm_starts/readers.py, warm_starts/filters.py, warm_starts/iterated/settings.py
"""What warm starts and iterated play refuse, as a table of tests/refusals."""

import math
from pathlib import Path

import pytest
from tests.refusals.rows import check, params, row
from tests.warm_starts.cli.test_sft_and_ipo import write_rows
from tests.warm_starts.iterated.test_driver import PROBLEMS, ROLES, driver
from tests.warm_starts.trainer.test_warm_starts import PUBLIC, QUERY, RIGHT, TINY, scored

from countdown_selfplay.errors import DataError
from countdown_selfplay.evaluation.sampling import demonstration_ids
from countdown_selfplay.tiny import load_tiny_model
from countdown_selfplay.warm_starts import make_preference_pairs
from countdown_selfplay.warm_starts.configs import IPOArguments, IPOSettings, SFTArguments, SFTSettings
from countdown_selfplay.warm_starts.iterated import IteratedSettings, RoleTraining
from countdown_selfplay.warm_starts.iterated.settings import check_sizes
from countdown_selfplay.warm_starts.readers import clean_demonstrations, read_preferences, read_samples


def cleaned(given, domain=TINY):
    return clean_demonstrations([given], "prover", domain, source="d.jsonl")


def preferred(given):
    return read_preferences([given], PUBLIC, source="pairs")


def read(given):
    return read_samples(write_rows(Path("s.jsonl"), given), TINY)


def demonstrated(prompt, completion):
    return demonstration_ids(load_tiny_model()[1], prompt, completion)


def settings(roles=None, **changes):
    return IteratedSettings("x", **({} if roles is None else {"role_training": roles}), **changes)


def played(problems=PROBLEMS, **changes):
    return driver("run", problems, **changes)


def shared(size, world):
    check_sizes(settings({"prover": RoleTraining(batch_size=(size,))}, per_device_train_batch_size=8), world)


ASKED = {"numbers": [3, 5, 7], "target": 22}
ROWS = [
    # rows
    *(row(f"=d.jsonl =0 {said}", cleaned, given, error=DataError) for given, said in [
        ({"prompt": "a", "completion": "b"}, "='numbers'"), ({"prompt": "a", **ASKED}, "='completion'"),
        ({"prompt": "a", "completion": 5, **ASKED}, "=completion")]),
    row("=d.jsonl =0 =question =answer", cleaned, {"question": "?", "answer": "!"}, PUBLIC, error=DataError),
    row("=d.jsonl =0 ='query'", cleaned, {"query": "What is 2 + 2?", "completion": "4"}, PUBLIC, error=DataError),
    *(row(said, read, given, error=DataError) for given, said in [
        ({**ASKED, "completion": "3 * 5 + 7", "score": 0.1}, "=0.1 =1"), (ASKED, "=1: ='completion'"),
        ({"problem": "x", "completion": "1"}, "='problem'"), ({"completion": "1"}, "=1: ='numbers'"), ([1], "=1:")]),
    *(row(f"=pairs =0 {said}", preferred, {"prompt": QUERY, "chosen": RIGHT, **given}, error=DataError)
      for given, said in [({"rejected": RIGHT}, "chosen rejected"), ({}, "='rejected'"),
                          ({"prompt": "hello", "rejected": "?"}, "='prompt'")]),
    row("=assistant", demonstrated, "3 =", [{"role": "user", "content": "2"}], error=DataError),
    row("='p' =nan", make_preference_pairs, scored("p", a=math.nan), error=DataError),
    row("=1.0 =0.0", make_preference_pairs, scored("p", a=1) + scored("p", a=0), error=DataError),
    row("pairs_per_group=0", make_preference_pairs, [], pairs_per_group=0),
    # settings
    *(row(said, made, output_dir="out", use_cpu=True, **given) for made, given, said in [
        (SFTSettings, {"completion_only_loss": False}, "completion_only_loss=False"),
        (SFTSettings, {"assistant_only_loss": True}, "assistant_only_loss=True"),
        (IPOSettings, {"loss_type": ["sigmoid"]}, "loss_type=sigmoid"), (IPOSettings, {"beta": 0.0}, "beta=0.0"),
        (IPOSettings, {"sync_ref_model": True}, "sync_ref_model=True"),
        (SFTSettings, {"push_to_hub": True}, "push_to_hub=True")]),
    row("demonstrations=0", SFTArguments, demonstrations=0),
    row("samples_per_problem=1", IPOArguments, samples_per_problem=1),
    row("temperature=0.0", IPOArguments, temperature=0.0),
    row("helping=True =conjecturer", SFTArguments, helping=True),
    row("distractors=False", SFTArguments, distractors=False),
    row("eval_preset='x'", IPOArguments, eval_preset="x"),
    row("role=guide", IPOArguments, role="guide"),
    row("epochs=0", RoleTraining, epochs=0),
    row("learning_rate=[]", RoleTraining, learning_rate=()),
    row("max_steps=[-1]", RoleTraining, max_steps=(-1,)),
    row("role_training.prover.batch_size=32 =5", settings, per_device_train_batch_size=5),
    *(row(f"role_training.prover.{said}", settings, {"prover": given}) for given, said in [
        ({"epochs": "x"}, "epochs='x'"), ({"threshold": math.nan}, "threshold=nan"),
        ({"max_steps": [1, "x"]}, "max_steps='x'"), ({"num_generations": 1.5}, "num_generations=1.5"),
        ({"labels": "right"}, "labels='right'"),  # in which 'ight' would be a word
        ({"inclusive": "false"}, "inclusive='false'"),  # a text is true
        ({"epoch": 2}, "epoch='epochs'")]),
    row("role_training.prover=3", settings, {"prover": 3}),
    row("role_training='['", settings, "["),
    *(row(f"{name}={value}", settings, **{name: value}) for name, value in (
        ("temperature", -1.0), ("seed", -1), ("per_device_train_batch_size", 0), ("max_length", 0), ("iterations", 0),
        ("beta", 0))),
    row("algorithm='ppo'", settings, algorithm="ppo"),
    row("leave_out=helpfull ='helpful'", settings, leave_out=["helpfull"]),
    row("algorithm=step_dpo", settings, algorithm="step_dpo", leave_out=["prover"]),
    *(row(f"role_training.prover.batch_size={size} ={world}", shared, size, world)
      for size, world in ((32, 3), (48, 4))),
    # runs
    row("role_training=judge", played, roles={"judge": RoleTraining()}),
    row("problems", played, []),
    row("=2~times", played, [PROBLEMS[0], PROBLEMS[0]]),
    row("role_training=prover =helpful =misleading", played, roles={"prover": ROLES["prover"]}),
    row("leave_out=prover", played, leave_out=["prover"]),
    row("generation_backend='vlm'", played, generation_backend="vlm"),
    row("vllm_max_model_length=64", played, vllm_max_model_length=64),
    row("=model =x", played, generation_backend="vllm", vllm_engine_kwargs={"model": "x"}),
    row("vllm_engine_kwargs=1", played, generation_backend="vllm", vllm_engine_kwargs="1"),
    row("vllm_tensor_parallel_size=2", played, generation_backend="vllm", vllm_tensor_parallel_size=2),
]  # fmt: skip


@pytest.mark.parametrize("row", params("warm_starts", ROWS))
def test_a_refusal_is_one_sentence_that_names_field_and_value(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(row)
