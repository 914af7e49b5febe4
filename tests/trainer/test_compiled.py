# Tests: policies/compiled.py, _trl.py
"""A compiled update (`aot_eager`, which only traces): same losses, gradients and ends as the plain one."""

import os

import pytest
import torch
from torch._dynamo.utils import counters

from countdown_selfplay.objectives import OBJECTIVES, make_objective
from countdown_selfplay.policies.compiled import compile_layers
from countdown_selfplay.policies.shared_prefix import SharedPrefix
from tests.trainer.conftest import make_trainer, ran, weights
from tests.trainer.test_mixed_adapters import gradients, lora, part
from tests.trainer.test_shared_prefix import exact_head

pytestmark = pytest.mark.matrix  # half a minute of tracing
EAGER = dict(torch_compile=True, torch_compile_backend="aot_eager")
SETTINGS = dict(num_generations=8, conjecturer_num_generations=16, problems_per_round=4)


@pytest.fixture
def no_graphs():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def heads(trainer):
    return [m for m in trainer.policies.module.modules() if "shared_prefix" in vars(m)]


def both(trainer, batches, within):
    """Gradients of the compiled layers, and of their plain forwards."""
    compiled = gradients(trainer, batches)
    with torch.compiler.set_stance("force_eager"):
        plain = gradients(trainer, batches)
    assert compiled[0] == pytest.approx(plain[0], rel=max(within, 1e-12))
    assert compiled[1].keys() == plain[1].keys()
    for name, expected in plain[1].items():
        assert expected.norm() > 0
        assert (compiled[1][name] - expected).norm() <= within * expected.norm()


def lengths(roles, kind=torch.float32):
    """Micro-batches of which no two have one shape."""
    return [part(role, 4 + i, 4 + 3 * i, 3 + 2 * i, i, kind) for i in range(4) for role in roles]


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Both roles play one compiled model in float64 from end to end."""
    torch._dynamo.reset()
    counters.clear()
    settings = dict(prover_beta=0.05, prover_entropy_coef=0.01, shared_prefix="off", **SETTINGS)
    trainer = make_trainer(tmp_path_factory.mktemp("exact"), policy_sharing="tied", **settings)
    (head,) = heads(trainer)
    head.double()
    exact_head(head)
    assert compile_layers(trainer.policies.module, "aot_eager", None, "ddp", False)
    return trainer


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_gradients_of_each_objective_are_those_of_the_plain_update(exact, name):
    """Four shapes of each role; a graph for each of the three layers, whose norms are this test's closures."""
    exact.learners["prover"].loss.objective = make_objective(name)
    both(exact, lengths(list(exact.learners), torch.float64), 1e-9)
    assert counters["stats"]["unique_graphs"] == 3


SLOW = [pytest.param(case, marks=pytest.mark.slow) for case in ("rows", "checkpointing", "lora")]


@pytest.mark.parametrize("case", ["shared prompts", *SLOW])
def test_packs_recomputed_layers_and_adapters_have_the_plain_gradients(no_graphs, tmp_path, case):
    """In float32, with TRL's head."""
    settings = {**EAGER, **SETTINGS, "shared_prefix": "off"}
    if case == "lora":
        settings |= {"policy_sharing": "lora", "mixed_adapters": "off", **lora()}
    trainer = make_trainer(tmp_path, **settings)
    if case == "checkpointing":
        for head in heads(trainer):
            head.gradient_checkpointing_enable({"use_reentrant": False})
            head.train()
    if case == "shared prompts":
        for head in heads(trainer):
            head.shared_prefix = SharedPrefix(head, always=True)
    both(trainer, lengths(list(trainer.learners)), 1e-5)
    assert 1 <= counters["stats"]["unique_graphs"] <= 4


def test_a_compiled_run_ends_where_a_plain_one_ends_and_generates_without_a_graph(no_graphs, tmp_path):
    """The names of weights in a checkpoint are the plain ones, and it loads into a plain run."""
    ends, traced = [], []
    saved = {"save_strategy": "steps", "save_steps": 2, "max_steps": 2, "optim": "sgd", "learning_rate": 0.05}
    for name, changes in (("plain", {}), ("compiled", EAGER)):
        trainer = make_trainer(tmp_path / name, **saved, **changes)
        assert (
            "ACCELERATE_DYNAMO_BACKEND" not in os.environ and trainer.accelerator.state.dynamo_plugin.backend == "NO"
        )
        sample = trainer.policies.module.generate

        def generate(*args, sample=sample, **kwargs):
            before = counters["stats"]["unique_graphs"]
            output = sample(*args, **kwargs)
            traced.append(counters["stats"]["unique_graphs"] - before)
            return output

        trainer.policies.module.generate = generate
        trainer.train()
        ends.append(weights(trainer))
    # Two roles, three layers each, rows and packs of them of many lengths.
    assert 1 <= counters["stats"]["unique_graphs"] <= 2 and traced and not any(traced)
    for key, value in ends[0].items():
        torch.testing.assert_close(value, ends[1][key], rtol=1e-4, atol=1e-6)
    from safetensors.torch import load_file

    files = [load_file(tmp_path / name / "checkpoint-2" / "model.safetensors") for name in ("plain", "compiled")]
    assert files[0].keys() == files[1].keys()
    again = ran(
        make_trainer(tmp_path / "again", **{**saved, "max_steps": 3}), str(tmp_path / "compiled" / "checkpoint-2")
    )
    assert again.state.global_step == 3


def test_a_compiler_that_fails_is_left_with_one_warning(no_graphs, tmp_path, caplog):
    @torch._dynamo.register_backend(name="broken_in_test")
    def broken(graph, inputs):
        raise RuntimeError("no C++ compiler")

    trainer = make_trainer(tmp_path, torch_compile=True, torch_compile_backend="broken_in_test", **SETTINGS)
    both(trainer, lengths(list(trainer.learners)), 1e-7)
    said = [record.message for record in caplog.records if "torch_compile" in record.message]
    assert len(said) == 1 and "broken_in_test" in said[0]


def test_engines_and_mixed_passes_stay_plain_with_one_warning(tmp_path, caplog):
    trainer = make_trainer(tmp_path, **SETTINGS)
    for engine, mixed, why in (("zero3", False, "zero3"), ("fsdp2", False, "fsdp2"), ("ddp", True, "adapters")):
        caplog.clear()
        assert not compile_layers(trainer.policies.module, "aot_eager", None, engine, mixed)
        assert len(caplog.records) == 1 and why in caplog.text
    caplog.clear()
    for head in heads(trainer):
        head._no_split_modules = None
    assert not compile_layers(trainer.policies.module, "aot_eager", None, "ddp", False)
    assert "does not name the layers" in caplog.text


@pytest.mark.slow
def test_inductor_has_the_plain_gradients_for_many_lengths_from_few_graphs(no_graphs, tmp_path):
    trainer = make_trainer(tmp_path, torch_compile=True, shared_prefix="off", **SETTINGS)
    both(trainer, lengths(list(trainer.learners)), 1e-5)
    assert 1 <= counters["stats"]["unique_graphs"] <= 2
