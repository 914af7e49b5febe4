"""Construction of a PolicySet from ids, paths, objects, or a dict of roles."""

from __future__ import annotations

import copy
import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftConfig, TaskType
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.tokenization_auto import get_tokenizer_config

from ..config import Role
from ..data.run_files import BASE, holds_model
from ..errors import ConfigError, CountdownSelfPlayError, DataError
from ..tiny import resolve_model
from .adapters import adapter_file, as_named, base_of, check_adapter, merged, over_base, uncut
from .base import PolicySet, gathered
from .full import FullPolicies
from .lora import LoraPolicies, SeveralBases

ModelSource = str | PreTrainedModel
logger = logging.getLogger(__name__)
DEFAULT_ADAPTER = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")


def build_policies(
    model: ModelSource | Mapping[str, ModelSource],
    players: Mapping[str, Role],
    sharing: str,
    peft_config: PeftConfig | None = None,
    model_init_kwargs: dict[str, Any] | str | None = None,
) -> PolicySet:
    """Build the policies of all players.

    Args:
        model: One source for all, or one per player or role; a player's `model` setting overrides the one for all.
        sharing: full, lora or tied. Under `full` an id or path is loaded once per set of weights, and an
          object is copied.
        peft_config: Adapter; under `tied` one that all roles share.
    """
    init_kwargs = json.loads(model_init_kwargs) if isinstance(model_init_kwargs, str) else model_init_kwargs
    sources = _sources(model, players)
    distinct: list[ModelSource] = []
    for source in sources.values():
        if not any(source is other or source == other for other in distinct):
            distinct.append(source)
    alike = _one_tokenizer(distinct, bool((init_kwargs or {}).get("trust_remote_code")))
    # An object that two names share is merged once.
    whole = [source if isinstance(source, str) else merged(source) for source in distinct]
    start = {player: distinct.index(source) for player, source in sources.items()}
    frozen_names = {player: f"start_{start[player]}" if len(distinct) > 1 else "start" for player in players}
    weights_of = {player: s.weights or frozen_names[player] for player, s in players.items()}
    frozen = frozenset(weights_of[player] for player, s in players.items() if s.weights is None)
    # Source of a set of weights: that of the player after which it is named.
    starts = {name: start[name if name in players else player] for player, name in reversed(weights_of.items())}
    starts = {name: starts[name] for name in dict.fromkeys(weights_of.values())}
    trained = [name for name in starts if name not in frozen]
    if sharing == "tied" and len(distinct) > 1:
        raise ConfigError(
            "policy_sharing='tied' needs one model for all roles, but a different one was passed for each; "
            "pass one model, or use policy_sharing='full'."
        )
    if sharing != "lora" and peft_config is None:
        order = [*trained, *sorted(frozen)]
        taken = [starts[name] for name in order]
        models = {n: _load(whole[taken[i]], init_kwargs, taken[i] in taken[:i]) for i, n in enumerate(order)}
        _check_vocabularies({} if alike else models)
        policies: PolicySet = FullPolicies(models, weights_of, starts, frozen)
    else:
        if peft_config is None:
            peft_config = DEFAULT_ADAPTER
        check_adapter(peft_config)
        bases = {i: _load(whole[i], init_kwargs) for i in dict.fromkeys(starts.values())}
        _check_vocabularies({} if alike else {str(distinct[i])[:80]: base for i, base in bases.items()})
        adapted, unadapted = [], {}
        for i, base in bases.items():
            here = {player: name for player, name in weights_of.items() if starts[name] == i}
            if set(here.values()) <= frozen:
                unadapted[next(iter(here.values()))] = base
                continue
            config = copy.deepcopy(peft_config)  # PEFT writes the base's path in it
            config.task_type = TaskType.CAUSAL_LM  # PEFT would not know the base of an export
            named, config.revision = _name_of(distinct[i], whole[i] is distinct[i], base, init_kwargs or {})
            try:
                adapted.append(LoraPolicies(base, config, here, frozen & set(here.values()), named))
            except ConfigError:
                raise
            except ValueError as error:  # PEFT's messages on ranks, target modules and others
                raise ConfigError(f"PEFT refuses this adapter: {error}") from error
        policies = adapted[0] if len(bases) == 1 else SeveralBases(adapted, unadapted, weights_of, frozen)
    used = {name: distinct[i] for name, i in starts.items()}
    policies.origins = {n: s if isinstance(s, str) else str(s.config._name_or_path) for n, s in used.items()}
    return policies


def _name_of(
    source: ModelSource, bare: bool, base: PreTrainedModel, init_kwargs: Mapping[str, Any]
) -> tuple[bool, str | None]:
    """Return whether adapters can name `base` by folder or hub id, and the base's revision. `source`: model of which
    `base` was made. `bare`: whether no adapter was merged into `base`."""
    if isinstance(source, str):
        revision = init_kwargs.get("revision")
        return adapter_file(source, init_kwargs) is None, revision
    if bare and as_named(base):
        return True, getattr(base.config, "_commit_hash", None)
    logger.warning(
        f"The model object's weights are not those of '{base.name_or_path}', or these are not on this machine: the "
        f"exports of adapters over it hold it too, in the folder '{BASE}'."
    )
    return False, None


def load_tokenizer(model: ModelSource | Mapping[str, ModelSource], trust_remote_code: bool) -> PreTrainedTokenizerBase:
    """Return the tokenizer of `model` (a mapping: of its first value). Raises ConfigError or DataError without one."""
    source = _named(next(iter(model.values())) if isinstance(model, Mapping) else model)
    path = source if isinstance(source, str) else source.config._name_or_path
    if source == "":
        raise ConfigError("`model` ('') must be a hub id, a folder or an object.")
    if not path:
        raise ConfigError("The model is an object without a path; pass its tokenizer as `processing_class`.")
    try:
        return read_tokenizer(path, padding_side="left", trust_remote_code=trust_remote_code)
    except CountdownSelfPlayError:
        raise
    except (OSError, ValueError) as error:
        raise _no_tokenizer(path) from error


def read_tokenizer(path: str, revision: str | None = None, **kwargs: Any) -> Any:
    """Return the tokenizer of a model, from the place that `_tokenizer_place` returns. Raises DataError for a folder
    without a tokenizer, for which Transformers would make an empty one; OSError or ValueError if the tokenizer cannot
    be read."""
    place, revision = _tokenizer_place(path, revision)
    if Path(place).is_dir() and not _has_tokenizer(place, revision):
        raise _no_tokenizer(path)
    return AutoTokenizer.from_pretrained(place, revision=revision, **kwargs)


def _tokenizer_place(path: str, revision: str | None = None) -> tuple[str, str | None]:
    """Return folder or hub id, and revision, of a model's tokenizer: those of the model, else of the checkpoint around
    the model's folder, else, for an adapter, of the base."""
    over: list[str] = []
    with suppress(OSError):  # unknown name, which is returned
        while not _has_tokenizer(path, revision):
            above = Path(path).absolute().parent
            if Path(path).is_dir() and (above / "trainer_state.json").is_file() and _has_tokenizer(str(above)):
                return str(above), None
            if (file := adapter_file(path, {"revision": revision})) is None:
                break
            over.append(path)
            path, revision = base_of(file, over)
    return path, revision


_TOKENIZER_FILES = ("tokenizer*", "vocab*", "merges.txt", "*.model", "*.tiktoken", "tekken.json")


def _has_tokenizer(path: str, revision: str | None = None) -> bool:
    folder = Path(path)
    if folder.is_dir():
        return any(next(folder.glob(name), None) for name in _TOKENIZER_FILES)
    return bool(get_tokenizer_config(path, revision=revision))


def _no_tokenizer(path: str) -> DataError:
    place, _ = _tokenizer_place(path)
    via = "" if place == path else f"The tokenizer of '{path}' is that of '{place}'. "
    return DataError(f"{via}The model '{place}' cannot be loaded: it is {_described(place, 'without a tokenizer')}.")


def _described(place: str, fault: str) -> str:
    """Describe the `place` of a model that cannot be loaded. `fault`: description if it is a folder with a model."""
    folder = Path(place)
    if not folder.is_dir():
        return "neither a folder nor a hub model in reach"
    inner = [folder / role for role in ("prover", "conjecturer", "policy") if holds_model(folder / role)]
    hint = f"; its policies lie in {' and '.join(map(str, inner))}" if inner else ""
    return f"a folder {fault if holds_model(folder) else 'without a model'}{hint}"


def _sources(model: ModelSource | Mapping[str, ModelSource], players: Mapping[str, Role]) -> dict[str, ModelSource]:
    if not isinstance(model, Mapping):
        return {player: _named(s.model or model) for player, s in players.items()}
    sources = {player: _named(model.get(player, model.get(s.kind, s.model))) for player, s in players.items()}
    missing = [player for player, source in sources.items() if source is None]
    if missing:
        raise ConfigError(
            f"`model` has no entry for {' and '.join(missing)}; it needs one for each of {', '.join(players)}."
        )
    return sources  # type: ignore[return-value]


def _named(source: Any) -> Any:
    return resolve_model(source) if isinstance(source, str) else source


def model_arguments(options: Any, args: Any) -> dict[str, Any]:
    """Return the arguments of `from_pretrained`: the model options, overridden by the config's `model_init_kwargs`."""
    given = args.model_init_kwargs
    return {
        "dtype": options.dtype,
        "revision": options.model_revision,
        "attn_implementation": options.attn_implementation,
        "trust_remote_code": args.trust_remote_code,
        **(json.loads(given) if isinstance(given, str) else given or {}),
    }


def load_pretrained(path: str, kwargs: Mapping[str, Any], show: bool = True, over: Sequence[str] = ()) -> Any:
    """Load a causal language model; for an adapter, its base with the adapter merged into it (logged if `show`).
    `over`: adapters on top of this model. Raises DataError if `path` is not a model, arguments do not fit it, a
    package is absent, or the weights are damaged or of other shapes than the config says."""
    try:
        if (file := adapter_file(path, kwargs)) is not None:
            with uncut():
                return _merged(path, file, kwargs, show, (*over, path))
        return AutoModelForCausalLM.from_pretrained(path, **kwargs)
    except CountdownSelfPlayError:
        raise
    except RuntimeError as error:
        if "ignore_mismatched_sizes" not in str(error):
            raise
        shapes = "the weights have other shapes than its config.json says"
        raise DataError(f"The model '{path}' cannot be loaded: {shapes}.") from error
    except (OSError, ValueError, TypeError, ImportError, SafetensorError) as error:
        what = _described(path, "whose model does not load")
        if isinstance(error, SafetensorError):
            what = "a model whose file of weights is damaged"
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"The model '{path}' cannot be loaded: it is {what} ({first})") from error


def _merged(path: str, file: Path, kwargs: Mapping[str, Any], show: bool, over: Sequence[str]) -> Any:
    base, revision = base_of(file, over)
    try:
        model = load_pretrained(base, {**kwargs, "revision": revision, "dtype": "auto"}, show, over)
    except DataError as error:
        raise DataError(f"'{path}' is an adapter over '{base}'. {error}") from error
    differs = _tokenizer_place(path, kwargs.get("revision")) != _tokenizer_place(base, revision)
    trusted = bool(kwargs.get("trust_remote_code"))
    length = len(read_tokenizer(path, kwargs.get("revision"), trust_remote_code=trusted)) if differs else 0
    if show and os.environ.get("RANK", "0") == "0":
        logger.warning("'%s' is an adapter; it is merged into its base, '%s'.", path, base)
    return over_base(model, path, length, kwargs)


def _load(source: ModelSource, init_kwargs: dict[str, Any] | None, copied: bool = False) -> PreTrainedModel:
    model = source
    if isinstance(source, str):
        model = load_pretrained(source, {"dtype": "float32", **(init_kwargs or {})})
    if not isinstance(model, PreTrainedModel):
        raise ConfigError(
            f"`model` must be a hub id, a path or a transformers PreTrainedModel, got {type(source).__name__}; "
            "to train an adapter pass the base model and a `peft_config`."
        )
    if model.dtype == torch.float16:
        raise ConfigError(
            f"{type(model).__name__} has float16 weights, in which small gradients and steps round to 0; load it in "
            "bfloat16 or float32."
        )
    if len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1:
        raise ConfigError(
            f"{type(model).__name__} is spread over devices (`device_map`), and the engine places the policies; load "
            "it without, and launch with accelerate_configs/zero3.yaml or fsdp2.yaml where one GPU is too small."
        )
    config = model.config.get_text_config()
    counts = (getattr(config, name, None) for name in ("num_experts", "num_local_experts", "n_routed_experts"))
    experts = next(filter(None, counts), 0)
    if experts > 1 and getattr(config, "is_moe", True):  # rule 15 of the design
        raise ConfigError(
            f"{type(model).__name__} is a mixture of {experts} experts, whose load-balancing loss the joint trainer "
            "does not have; use a dense model."
        )
    if not copied or model is not source:
        return model
    with gathered(model.parameters()):
        return copy.deepcopy(model)


def _one_tokenizer(sources: Sequence[ModelSource], trust_remote_code: bool) -> bool:
    """Return whether there are several models, each with a tokenizer. Raises ConfigError if the tokenizers differ."""
    known = {}
    for source in sources if len(sources) > 1 else ():
        path = source if isinstance(source, str) else source.config._name_or_path
        try:
            known[str(path)] = load_tokenizer(str(path), trust_remote_code).get_vocab()
        except (ConfigError, DataError):  # an object without a path; an unreadable model raises when it loads
            return False
    (first, words), *others = known.items() or [("", {})]
    for path, tokenizer_source in others:
        differ = [word for word in {**words, **tokenizer_source} if words.get(word) != tokenizer_source.get(word)]
        if differ:
            raise ConfigError(
                f"The roles' models must share one tokenizer, but {first} and {path} give {len(differ)} tokens "
                f"different ids, such as {differ[0]!r}; start both roles from one model's tokenizer."
            )
    return bool(others)


def _check_vocabularies(models: dict[str, PreTrainedModel]) -> None:
    sizes = {role: model.get_input_embeddings().num_embeddings for role, model in models.items()}
    if len(set(sizes.values())) > 1:
        raise ConfigError(f"The roles' models must share one tokenizer, but their vocabularies have sizes {sizes}.")
