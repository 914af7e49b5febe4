"""The pinned TRL has exactly the private names, parameters and output keys that countdown_selfplay/_trl.py relies
on."""

import inspect
import itertools
import re

import pytest
import trl
from datasets import IterableDataset
from transformers import Trainer
from transformers.generation import ContinuousBatchingConfig
from trl import GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer.utils import RepeatSampler, add_fused_lm_head, repeat_iterable_dataset

from countdown_selfplay import _trl
from countdown_selfplay.training.anchor_order import AnchorStream, EpochSampler

PARAMETERS = {
    "_prepare_inputs": ["self", "generation_batch"],
    "_calculate_rewards": ["self", "inputs", "prompts", "completions", "completion_ids_list"],
    "_save_checkpoint": ["self", "model", "trial"],
    "_get_train_sampler": ["self", "dataset"],
    "_generate_and_score_completions": ["self", "inputs"],
}


def test_trl_is_the_pinned_minor_version():
    assert trl.__version__.startswith("1.16.")


@pytest.mark.parametrize("name", PARAMETERS)
def test_private_methods_take_the_parameters_we_pass(name):
    method = inspect.unwrap(getattr(GRPOTrainer, name))
    assert list(inspect.signature(method).parameters) == PARAMETERS[name]


def test_the_log_prob_method_takes_its_first_arguments_in_our_order():
    method = inspect.unwrap(GRPOTrainer._get_per_token_logps_and_entropies)
    names = list(inspect.signature(method).parameters)
    assert names[:7] == [
        "self",
        "model",
        "input_ids",
        "attention_mask",
        "logits_to_keep",
        "batch_size",
        "compute_entropy",
    ]


def test_every_name_of_the_seam_is_listed_in_this_file():
    assert set(_trl.OVERRIDDEN) | {"_generate_and_score_completions"} == set(PARAMETERS)
    assert set(_trl.CALLED) == {"_generate_and_score_completions", "_get_per_token_logps_and_entropies"}


def test_the_switches_of_sampling_are_those_that_trl_reads():
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


def test_continuous_batching_is_the_modules_generate_batch_with_its_settings():
    source = inspect.getsource(GRPOTrainer._generate_single_turn)
    assert "unwrapped_model.generate_batch(" in source and "if self.args.bf16:" in source
    assert "return_logprobs" in inspect.signature(ContinuousBatchingConfig).parameters


def test_the_fused_head_takes_a_temperature_and_the_outputs_we_read():
    parameters = inspect.signature(add_fused_lm_head).parameters
    assert {"model", "temperature", "outputs"} <= set(parameters)


def test_the_first_epoch_of_our_sampler_is_trls_and_the_second_depends_on_seed_and_epoch_alone():
    """Two samplers of one process and one of another process, as it were, that starts in the second epoch."""
    done = 0
    stock = RepeatSampler(range(13), mini_repeat_count=2, batch_size=4, repeat_count=3, seed=7)
    ours = EpochSampler(stock, lambda: done)
    first = list(ours)
    assert first == list(RepeatSampler(range(13), mini_repeat_count=2, batch_size=4, repeat_count=3, seed=7))
    assert len(first) == len(ours) == 3 * 4 * 2 * 3  # 3 rounds of 4 of the 13 rows
    done = 3
    second = list(ours)
    assert second != first and second == list(EpochSampler(stock, lambda: 5))
    assert second != list(EpochSampler(RepeatSampler(range(13), 2, 4, 3, seed=8), lambda: 3))
    assert list(EpochSampler(RepeatSampler(range(4), 1, 4, shuffle=False), lambda: 9)) == [0, 1, 2, 3]


def test_a_stream_comes_in_the_order_in_which_trl_repeats_it():
    """The first pass is that of TRL's own transformation, leftover rows included: 13 rows are 3 rounds of 4."""
    rows = IterableDataset.from_generator(lambda: ({"prompt": f"{i} :", "target": i} for i in range(13)))
    theirs = repeat_iterable_dataset(rows.shuffle(seed=7), mini_repeat_count=2, batch_size=4, repeat_count=3)
    ours = itertools.islice(AnchorStream(rows, 6, problems=4, group=2, copies=3, seed=7), 999)
    found = [row["target"] for row in ours]
    assert found[:72] == [row["target"] for row in theirs] and set(found[72:]) < set(range(13))
    assert found[:72] != found[72:] and len(found) == 2 * 72  # the six rounds that were asked for


def test_the_trainer_keeps_its_losses_since_the_last_log_where_we_read_them():
    """They are zeroed at the start of the loop, before the callbacks that put ours back."""
    source = inspect.getsource(Trainer._inner_training_loop if hasattr(Trainer, "_inner_training_loop") else Trainer)
    zeroed = [
        source.index(f"self.{name} = ") for name in ("_tr_loss", "_total_loss_scalar", "_globalstep_last_logged")
    ]
    assert max(zeroed) < source.index("callback_handler.on_train_begin(")
    logged = inspect.getsource(Trainer._maybe_log_save_evaluate)
    assert "tr_loss_scalar / (self.state.global_step - self._globalstep_last_logged)" in logged


def test_the_trainer_reads_the_public_switch_for_losses_that_are_already_scaled():
    assert "loss_is_scaled_for_ga" in inspect.getsource(Trainer.training_step)


def test_the_library_imports_nothing_from_trl_experimental():
    from pathlib import Path

    import countdown_selfplay

    for path in Path(countdown_selfplay.__file__).parent.rglob("*.py"):
        assert "trl.experimental" not in path.read_text(), path


def test_only_the_seam_imports_from_inside_trl():
    from pathlib import Path

    import countdown_selfplay

    for path in Path(countdown_selfplay.__file__).parent.rglob("*.py"):
        if path.name != "_trl.py":
            assert "from trl." not in path.read_text(), path


def test_the_completions_table_is_made_of_the_logs_that_we_hand_over():
    """TRL extends lists under these names while a role samples, and `log` prints and writes what is in them."""
    source = inspect.getsource(GRPOTrainer)
    assert set(re.findall(r'self\._logs\["(\w+)"\]', source)) == set(_trl.COMPLETION_LOGS)
    assert set(_trl.empty_logs({}, "prover")) == set(_trl.COMPLETION_LOGS)
