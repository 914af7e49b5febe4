"""The seam to Transformers: the names inside its `generate`, its models and its caches that this library relies on.
What it touches of the Trainer stands in `_trl.py`.

The tables are read twice: tests/contract holds them against the pinned Transformers, and the decoding loop against the
one at hand. Where a name has moved, Transformers' own loop samples.
"""

import functools
import inspect

import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.generation import GenerationMixin, StopStringCriteria

CACHE_NAMES = ("cache", "past_key_values")
"""What `generate` and models call the cache that they take: from 5.24 on, and before."""
TAKEN = {
    "GenerationMixin.generate": ("generation_config", "stopping_criteria", "custom_generate"),
    "StopStringCriteria": ("tokenizer", "stop_strings"),
    "Cache.batch_repeat_interleave": ("repeats",),
    "Cache.batch_select_indices": ("indices",),
    "Cache.get_seq_length": (),
    "Cache.update": ("key_states", "value_states"),
}
"""What the decoding loop calls, with the parameters that it passes."""
LOOP = ("input_ids", "logits_processor", "stopping_criteria", "generation_config")
"""What `generate` gives a loop of another's, the model before them: what it gives its own."""
SET_BY_GENERATE = ("_pad_token_tensor",)
"""Of the generation config."""
OF_MODELS = ("_is_stateful", "_no_split_modules", "_keys_to_ignore_on_save", "is_gradient_checkpointing")
OF_CONFIGS = ("_attn_implementation", "_name_or_path")


def cache_name() -> str:
    """By which of CACHE_NAMES `generate` takes a cache; "" if by none of them."""
    taken = inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters
    return next((name for name in CACHE_NAMES if name in taken), "")


@functools.cache
def moved_names() -> tuple[str, ...]:
    """What of the tables is not where it should be, a phrase each."""
    named = {"GenerationMixin": GenerationMixin, "Cache": transformers.Cache}
    found = []
    for path, wanted in TAKEN.items():
        owner, _, name = path.partition(".")
        called = getattr(named[owner], name, None) if name else StopStringCriteria
        lost = [] if called is None else [p for p in wanted if p not in inspect.signature(called).parameters]
        found += [f"`{path}` is gone"] * (called is None) + [f"`{path}` takes no {p}" for p in lost]
    own = getattr(GenerationMixin, "_sample", None)
    if own is None or tuple(inspect.signature(own).parameters)[1 : 1 + len(LOOP)] != LOOP:
        found.append(f"`GenerationMixin._sample` does not take ({', '.join(LOOP)})")
    if not cache_name():
        found.append(f"`GenerationMixin.prepare_inputs_for_generation` takes no {' or '.join(CACHE_NAMES)}")
    source = inspect.getsource(GenerationMixin._prepare_special_tokens)
    found += [f"`generate` sets no `{name}`" for name in SET_BY_GENERATE if f".{name} =" not in source]
    for one, names in ((PreTrainedModel, OF_MODELS), (PreTrainedConfig, OF_CONFIGS)):
        text = inspect.getsource(one)
        found += [f"`{one.__name__}.{name}` is gone" for name in names if name not in text]
    return tuple(found)
