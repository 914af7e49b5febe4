"""Sampling settings, and the generation config built from them, for every use of a model: rollouts, evaluations,
probes, demonstrations, warm starts, `eval`, `ask` and exports. Prompts are rendered in chat_templates.py."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from .errors import ConfigError
from .options import is_whole, json_object
from .registry import nearest


class Asked(TypedDict, total=False):
    """Sampling settings; absent names have the values of DEFAULTS."""

    temperature: float
    top_p: float | None
    top_k: int | None
    min_p: float | None
    repetition_penalty: float
    max_new_tokens: int
    stop_strings: Sequence[str] | None
    generation_kwargs: Mapping[str, Any]
    chat_template_kwargs: Mapping[str, Any]


DEFAULTS: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "max_new_tokens": 256,
    "stop_strings": [],
    "generation_kwargs": {},
    "chat_template_kwargs": {},
}
"""Default sampling settings: the model's distribution as it is, at most 256 tokens, no stop strings."""
SHARED = ("min_p", "repetition_penalty", "generation_kwargs", "chat_template_kwargs")
"""Sampling settings that all roles of a run share; each is a field of the config with the same name."""

GENERATION_KWARGS = {
    "typical_p": "TypicalLogitsWarper",
    "epsilon_cutoff": "EpsilonLogitsWarper",
    "eta_cutoff": "EtaLogitsWarper",
    "no_repeat_ngram_size": "NoRepeatNGramLogitsProcessor",
    "bad_words_ids": "NoBadWordsLogitsProcessor",
    "sequence_bias": "SequenceBiasLogitsProcessor",
    "suppress_tokens": "SuppressTokensLogitsProcessor",
    "begin_suppress_tokens": "SuppressTokensAtBeginLogitsProcessor",
    "min_new_tokens": "MinNewTokensLengthLogitsProcessor",
    "exponential_decay_length_penalty": "ExponentialDecayLengthPenalty",
}
"""Map of the arguments of Transformers' GenerationConfig that `generation_kwargs` may hold to the logits processor
that checks the value. They act in every sampling loop, and no field of the config sets them."""
_DRAWING = ("typical_p", "epsilon_cutoff", "eta_cutoff")  # without effect at temperature 0
_FIELD_OF = {  # argument of generation -> field that sets it
    **{name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")},
    **dict.fromkeys(("max_new_tokens", "max_length", "max_tokens"), "max_completion_length"),
    **dict.fromkeys(("stop_strings", "stop"), "prover_stop and conjecturer_stop"),
    **dict.fromkeys(("num_return_sequences", "n"), "num_generations"),
    "cache_implementation": "cache_implementation",
}
UNDER_VLLM = ("min_new_tokens", "suppress_tokens")
"""Entries of `generation_kwargs` that vLLM supports too, so that rollouts and evaluations by `generate` sample
alike."""


def shared_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in SHARED of a run's configuration, with DEFAULTS for fields that it lacks."""
    return {name: DEFAULTS[name] if config.get(name) is None else config[name] for name in SHARED}


def check_generation_kwargs(given: Any, backend: str = "generate") -> dict[str, Any]:
    """Parse `generation_kwargs` into a dict. Raises ConfigError for an entry that does not act in all of a run's
    sampling under `backend`, for one that a field sets, and for a value that its processor refuses."""
    parsed = json_object("generation_kwargs", given, '{"suppress_tokens": [5]}')
    known = UNDER_VLLM if backend in ("vllm", "vllm_server") else tuple(GENERATION_KWARGS)
    for name, value in parsed.items():
        if name in _FIELD_OF:
            raise ConfigError(
                f"`generation_kwargs` must not hold {name} ({value}): it follows from {_FIELD_OF[name]}; set that."
            )
        if name not in known:
            under = f" under generation_backend={backend}" if known is UNDER_VLLM else ""
            raise ConfigError(
                f"`generation_kwargs` ({given}) cannot hold {name}: it does not act in all of a run's sampling{under}."
                f"{nearest(str(name), list(known))}"
            )
        more = {"begin_suppress_tokens": (1,), "exponential_decay_length_penalty": ([0], 1)}.get(name, ())
        from transformers import generation  # seconds, for an entry alone

        try:
            kind = getattr(generation, GENERATION_KWARGS[name])
            kind(1, value, 0) if name == "min_new_tokens" else kind(value, *more)
        except Exception as error:  # a processor of Transformers may raise anything for a wrong value
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(f"`generation_kwargs` holds {name} ({value!r}), which cannot be: {first}") from None
    return parsed


def check_token_ids(given: Mapping[str, Any], count: int) -> None:
    """Raise ConfigError if `generation_kwargs` names a token that a model with `count` embeddings does not have."""
    named: list[Any] = [*given.get("suppress_tokens", ()), *given.get("begin_suppress_tokens", ())]
    named += [i for word in given.get("bad_words_ids", ()) for i in word]
    bias = given.get("sequence_bias", {})
    named += [i for word in bias for i in (word[0] if isinstance(bias, list) else word)]
    for one in named:
        if not is_whole(one, 0) or one >= count:
            named_in = f"`generation_kwargs` ({dict(given)}) names the token {one!r}"
            raise ConfigError(f"{named_in}; the model's tokens are 0 to {count - 1}.")


def sampling_of(args: Any, role: Any, stops: Sequence[str] | None) -> dict[str, Any]:
    """Return the sampling settings of a role, with all names of DEFAULTS. `args`: config; `stops`: stop strings."""
    sampling = {name: getattr(role, name) for name in ("temperature", "top_p", "top_k")}
    sampling |= {"max_new_tokens": role.max_completion_length, "stop_strings": list(stops or [])}
    return sampling | shared_of({name: getattr(args, name) for name in SHARED})


def generation_settings(sampling: Mapping[str, Any], ends: Sequence[int], pad: int | None) -> dict[str, Any]:
    """Return the arguments of GenerationConfig. `sampling`: values that replace those of DEFAULTS. `ends`, `pad`: ids
    of the end tokens and of padding (None: first end token). Raises ConfigError if `min_new_tokens` is too large."""
    how = {**DEFAULTS, **{name: value for name, value in sampling.items() if value is not None}}
    drawn = how["temperature"] > 0
    least, most = how["generation_kwargs"].get("min_new_tokens", 0), how["max_new_tokens"]
    if least > most:
        raise ConfigError(
            f"`min_new_tokens` ({least}) of `generation_kwargs` must be at most the tokens of an answer, {most}."
        )
    values = {
        "do_sample": drawn,
        "max_new_tokens": most,
        "repetition_penalty": float(how["repetition_penalty"]),
        "eos_token_id": list(ends),
        "pad_token_id": ends[0] if pad is None else pad,
        **({"stop_strings": list(how["stop_strings"])} if how["stop_strings"] else {}),
        **{n: v for n, v in how["generation_kwargs"].items() if drawn or n not in _DRAWING},
    }
    if drawn:
        values |= {"temperature": float(how["temperature"]), "top_p": float(how["top_p"]), "top_k": int(how["top_k"])}
        values["min_p"] = float(how["min_p"]) or None  # 0 would make a processor that does nothing
    return values
