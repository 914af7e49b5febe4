"""Private names of Transformers (in `generate`, models and caches) on which this library relies; `_trl.py` has those
of the Trainer. tests/contract compares the tables with the pinned Transformers, `moved_names` with the installed one.
If a name has moved, Transformers' sampling loop is used in place of the one in policies/decode.py."""

import functools
import inspect

import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.generation import GenerationMixin, StopStringCriteria

CACHE_NAMES = ("cache", "past_key_values")
"""Names of the cache argument of `generate` and of models: the first since Transformers 5.24, the second before."""
TAKEN = {
    "GenerationMixin.generate": ("generation_config", "stopping_criteria", "custom_generate"),
    "StopStringCriteria": ("tokenizer", "stop_strings"),
    "Cache.batch_repeat_interleave": ("repeats",),
    "Cache.batch_select_indices": ("indices",),
    "Cache.get_seq_length": (),
    "Cache.update": ("key_states", "value_states"),
}
"""Functions that the decoding loop calls, with the parameters that it passes."""
LOOP = ("input_ids", "logits_processor", "stopping_criteria", "generation_config")
"""Parameters that `generate` passes to a custom loop, after the model."""
SET_BY_GENERATE = ("_pad_token_tensor",)
"""Attributes of the generation config that `generate` sets."""
OF_MODELS = ("_is_stateful", "_no_split_modules", "_keys_to_ignore_on_save", "is_gradient_checkpointing")
OF_CONFIGS = ("_attn_implementation", "_name_or_path")


def cache_name() -> str:
    """Return the entry of CACHE_NAMES that `prepare_inputs_for_generation` has as a parameter; "" if it has none."""
    taken = inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters
    return next((name for name in CACHE_NAMES if name in taken), "")


@functools.cache
def moved_names() -> tuple[str, ...]:
    """Return a phrase for each entry of the tables that the installed Transformers lacks or has changed."""
    named = {"GenerationMixin": GenerationMixin, "Cache": transformers.Cache}
    missing = []
    for path, wanted in TAKEN.items():
        owner, _, name = path.partition(".")
        called = getattr(named[owner], name, None) if name else StopStringCriteria
        lost = [] if called is None else [p for p in wanted if p not in inspect.signature(called).parameters]
        missing += [f"`{path}` is gone"] * (called is None) + [f"`{path}` takes no {p}" for p in lost]
    sample_loop = getattr(GenerationMixin, "_sample", None)
    if sample_loop is None or tuple(inspect.signature(sample_loop).parameters)[1 : 1 + len(LOOP)] != LOOP:
        missing.append(f"`GenerationMixin._sample` does not take ({', '.join(LOOP)})")
    if not cache_name():
        missing.append(f"`GenerationMixin.prepare_inputs_for_generation` takes no {' or '.join(CACHE_NAMES)}")
    source = inspect.getsource(GenerationMixin._prepare_special_tokens)
    missing += [f"`generate` sets no `{name}`" for name in SET_BY_GENERATE if f".{name} =" not in source]
    for one, names in ((PreTrainedModel, OF_MODELS), (PreTrainedConfig, OF_CONFIGS)):
        text = inspect.getsource(one)
        missing += [f"`{one.__name__}.{name}` is gone" for name in names if name not in text]
    return tuple(missing)
