# Tests: _trl.py, _trl_check.py, data/anchors.py
"""The pinned TRL has exactly the private names, parameters and keys that _trl.py relies on."""

import inspect
import math
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import trl
import trl.models
import trl.trainer.utils as trl_utils
from torch.utils.data import BatchSampler
from transformers import Trainer
from trl import GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer.utils import RepeatSampler

from countdown_selfplay import JointConjecturerProverTrainer, _trl, _trl_check
from countdown_selfplay.data.anchors import RoundBatches
from countdown_selfplay.errors import ConfigError

GRPO_SOURCE, TRAINER_SOURCE = (Path(inspect.getfile(one)).read_text() for one in (GRPOTrainer, Trainer))


def test_the_trl_at_hand_is_the_pinned_minor_version_and_has_every_name_parameter_and_key_of_the_seam():
    assert trl.__version__.startswith("1.16.")
    assert _trl_check.moved_names(GRPOTrainer, GRPO_SOURCE, TRAINER_SOURCE) == []
    _trl_check.check_seam()
    wanted = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    floor = f">={'.'.join(map(str, _trl.OLDEST))}"
    assert f"trl{floor}" in wanted["dependencies"]
    for name in ("vllm", "deepspeed"):
        assert wanted["optional-dependencies"][name][0] == f"trl[{name}]{floor}"


def test_the_lists_of_the_seam_are_all_that_the_library_touches():
    """Every private name that the sources override or read of the trainer stands in a list or is of our own making."""
    listed = {*_trl.OVERRIDDEN, *_trl.CALLED, *_trl.ATTRIBUTES, *_trl.SAMPLING_SWITCHES, *_trl.LOSS_SINCE_LOG}
    package = Path(_trl.__file__).parent
    folders = ("training", "generation", "distributed", "policies")
    text = "\n".join(path.read_text() for folder in folders for path in (package / folder).rglob("*.py"))
    touched = set(re.findall(r"\b(?:trainer|trl)\.(_[a-z]\w*)", text))
    of_trl = {name for name in touched if re.search(rf"(self\.|def ){name}\b", GRPO_SOURCE + TRAINER_SOURCE)}
    assert of_trl <= {*listed, _trl.RESUMED_BY} and {"_metrics", "_load_from_checkpoint"} <= of_trl


class _Renamed(GRPOTrainer):
    _calculate_rewards = None


class _Wider(GRPOTrainer):
    def _prepare_inputs(self, generation_batch, mode):
        raise NotImplementedError


class _Reordered(GRPOTrainer):
    def _get_per_token_logps_and_entropies(self, input_ids, model, *args, **kwargs):
        raise NotImplementedError


@pytest.mark.parametrize("trainer, phrase", [
    (_Renamed, "`GRPOTrainer._calculate_rewards` is gone"),
    (_Wider, "`GRPOTrainer._prepare_inputs` takes (generation_batch, mode) and not (generation_batch)"),
    (
        _Reordered,
        "`GRPOTrainer._get_per_token_logps_and_entropies` takes (input_ids, model, args, kwargs) and not (model, "
        "input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy)",
    ),
])  # fmt: skip
def test_a_method_that_moved_is_named(trainer, phrase):
    assert _trl_check.moved_names(trainer, GRPO_SOURCE, TRAINER_SOURCE) == [phrase]


@pytest.mark.parametrize("before, after, phrase", [
    ("self._metrics", "self._stats", "`GRPOTrainer._metrics` is gone"),
    ("self._last_loaded_step", "self._pushed_at", "`GRPOTrainer._last_loaded_step` is gone"),
    ('self._logs["extra"]', 'self._logs["columns"]', "`GRPOTrainer._logs` has no 'extra'"),
    ('"prompt_mask"', '"prompt_attention"', "`_generate_and_score_completions` returns no 'prompt_mask'"),
    ("self._tr_loss = ", "self._loss = ", "`Trainer._tr_loss` of Transformers is gone"),
    ("def _load_from_checkpoint(", "def _load(", "`Trainer._load_from_checkpoint` of Transformers is gone"),
])  # fmt: skip
def test_an_attribute_or_a_key_that_moved_is_named(before, after, phrase):
    sources = [source.replace(before, after) for source in (GRPO_SOURCE, TRAINER_SOURCE)]
    assert _trl_check.moved_names(GRPOTrainer, *sources) == [phrase]


def _without_outputs(model, temperature):
    raise NotImplementedError


def test_a_function_that_moved_is_refused_when_a_trainer_is_built(monkeypatch):
    """Before any part of the trainer is looked at: the arguments here would be refused themselves."""
    monkeypatch.setattr(trl_utils, "add_fused_lm_head", _without_outputs)
    monkeypatch.setattr(trl.models, "prepare_fsdp", None)
    with pytest.raises(ConfigError) as refused:
        JointConjecturerProverTrainer(model="nowhere", args=3)
    assert str(refused.value) == (
        f"TRL {trl.__version__} does not fit this version of countdown-selfplay: "
        "`trl.trainer.utils.add_fused_lm_head` takes no outputs; `trl.models.prepare_fsdp` is gone; install another "
        'one, such as `pip install "trl==1.16.*"`.'
    )


def test_an_older_trl_whose_seam_stands_is_refused_by_its_version_and_a_newer_one_is_taken(monkeypatch):
    monkeypatch.setattr(trl, "__version__", "1.15.4")
    with pytest.raises(ConfigError, match=r"TRL 1\.15\.4 .*: it is older than 1\.16, the first one that is tested;"):
        _trl_check.check_seam()
    for newer in ("1.18.0", "2.0.0.dev0"):
        monkeypatch.setattr(trl, "__version__", newer)
        _trl_check.check_seam()


def test_the_switches_of_sampling_and_the_logs_are_those_that_trl_reads():
    """TRL samples through `vllm_generation.generate` with these arguments when `use_vllm` is set, pushes weights only
    in a step that is not `_last_loaded_step`, and scores a second time only for its own correction."""
    source = inspect.getsource(GRPOTrainer._generate_single_turn)
    for name in _trl.SAMPLING_SWITCHES:
        assert f"self.{name}" in source or name == "vllm_importance_sampling_correction"
    assert "self.vllm_importance_sampling_correction" in inspect.getsource(
        inspect.unwrap(GRPOTrainer._generate_and_score_completions)
    )
    parameters = ["self", "prompts", "images", "num_generations", "profiler"]
    assert list(inspect.signature(VLLMGeneration.generate).parameters) == parameters
    assert list(inspect.signature(VLLMGeneration.sync_weights).parameters) == ["self"]
    # TRL extends lists under these names while a role samples, and `log` prints and writes what is in them.
    source = inspect.getsource(GRPOTrainer)
    assert set(re.findall(r'self\._logs\["(\w+)"\]', source)) == set(_trl.COMPLETION_LOGS)
    assert set(_trl.empty_logs()) == set(_trl.COMPLETION_LOGS)


def test_the_engine_takes_the_arguments_that_we_pass_and_sleeps_as_we_expect():
    known = set(inspect.signature(VLLMGeneration.__init__).parameters)
    for builder in (_trl.colocated_vllm, _trl.server_vllm):
        passed = set(re.findall(r"^            ?(\w+)=", inspect.getsource(builder), re.M)) | set(
            re.findall(r"^        (\w+)=", inspect.getsource(builder), re.M)
        )
        assert len(passed) >= 7 and passed <= known, passed - known
    source = inspect.getsource(VLLMGeneration)
    for line in ("self.llm = LLM(", "self.llm.sleep(level=2)", "self._llm_weights_sleeping = True"):
        assert line in source
    assert 'self.llm.wake_up(tags=["kv_cache"])' in inspect.getsource(VLLMGeneration.generate)


@pytest.mark.parametrize("main", [True, False])
def test_weights_go_to_a_server_in_the_dtype_of_its_model(main, monkeypatch):
    """TRL's own `sync_weights` on a model of two float32 tensors; its client, whose NCCL needs a GPU, is recorded."""
    sent = []
    client = SimpleNamespace(
        update_named_params=lambda announced, tensors: sent.append((announced, list(tensors))),
        reset_prefix_cache=lambda: None,
    )
    monkeypatch.setattr(VLLMGeneration, "_init_vllm", lambda self: main and setattr(self, "vllm_client", client))
    model = torch.nn.Linear(3, 2)
    processes = SimpleNamespace(is_main_process=main, state=SimpleNamespace(deepspeed_plugin=None, fsdp_plugin=None))
    _trl.server_vllm(processes, None, model, "http://127.0.0.1:1", 1, 1.0, torch.bfloat16).sync_weights()
    assert model.weight.dtype == torch.float32 and len(sent) == main
    for announced, tensors in sent:
        assert announced == [("weight", "bfloat16", [2, 3]), ("bias", "bfloat16", [2])]
        for (_, tensor), parameter in zip(tensors, model.parameters(), strict=True):
            assert tensor.dtype == torch.bfloat16 and torch.equal(tensor, parameter.detach().bfloat16())


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_rounds_anchors_are_those_of_trls_sampler_in_the_first_epoch(shuffle):
    """13 rows are 3 rounds of 4 problems, which each of two processes reads; TRL's list has each twice."""
    trls = RepeatSampler(range(13), mini_repeat_count=2, batch_size=4, repeat_count=1, shuffle=shuffle, seed=7)
    ours = list(RoundBatches(13, 4, 2, lambda: 0, 7 if shuffle else None))
    rounds = [batch[::2] for batch in BatchSampler(trls, 8, drop_last=True)]
    assert ours[::2] == ours[1::2] == rounds and len(RoundBatches(13, 4, 2, lambda: 0, 7)) == len(ours) == 6


def test_a_later_epochs_batches_depend_on_seed_and_epoch_alone():
    """Of one process that plays on, and of another that starts in the second epoch (3 rounds are one)."""
    done = 0
    ours = RoundBatches(13, 4, 1, lambda: done, 7)
    first, done = list(ours), 3
    second = list(ours)
    assert second != first and second == list(RoundBatches(13, 4, 1, lambda: 5, 7))
    assert second != list(RoundBatches(13, 4, 1, lambda: 3, 8))


def test_the_trainer_keeps_its_losses_and_reads_the_switch_where_we_do():
    """They are zeroed at the start of the loop, before the callbacks that put ours back."""
    source = inspect.getsource(Trainer._inner_training_loop if hasattr(Trainer, "_inner_training_loop") else Trainer)
    zeroed = [source.index(f"self.{name} = ") for name in _trl.LOSS_SINCE_LOG]
    assert max(zeroed) < source.index("callback_handler.on_train_begin(")
    logged = inspect.getsource(Trainer._maybe_log_save_evaluate)
    assert "tr_loss_scalar / (self.state.global_step - self._globalstep_last_logged)" in logged
    assert "loss_is_scaled_for_ga" in inspect.getsource(Trainer.training_step)


def test_only_the_seam_imports_from_inside_trl_and_nothing_from_its_experimental():
    import countdown_selfplay

    for path in Path(countdown_selfplay.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert path.name == "_trl.py" or "from trl." not in text, path
        assert "trl.experimental" not in text, path


def test_the_tiles_of_trls_head_are_no_wider_than_the_vocabulary_while_it_runs():
    """TRL's own width is 32,768; log-probs by hand: two tokens with logits (0, log 3) have probabilities 1/4, 3/4."""
    assert trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE == 32768
    with _trl.tile_of(129):
        assert trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE == 129
    with _trl.tile_of(151936):
        assert trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE == 32768
    assert trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE == 32768
    hidden, weight = torch.tensor([[1.0]]), torch.tensor([[0.0], [math.log(3)]])
    for width in (1, 2, 32768):
        found = trl_utils._ChunkedLogProbFunction.apply(hidden, weight, None, torch.tensor([0]), 1.0, width)[0]
        assert found.item() == pytest.approx(math.log(1 / 4))
