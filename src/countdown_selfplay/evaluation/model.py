"""Loading of a model for `countdown-selfplay eval`, the digest of its weights, and the versions of packages."""

import fnmatch
import hashlib
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .. import __version__
from ..chat_templates import ready
from ..data.jsonl import json_file
from ..errors import ConfigError
from ..tiny import EMBEDDED, resolve_model

_PACKAGES = ("torch", "transformers", "peft", "tokenizers")
_FILES = (
    "*.safetensors", "pytorch_model*.bin", "adapter_model.bin", "config.json", "generation_config.json",
    "adapter_config.json", "tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "added_tokens.json",
    "chat_template*",
)  # fmt: skip
_BLOCK = 1 << 20
_BLOCKS = 64  # number of blocks that are read of a larger file, evenly spaced: training changes weights everywhere


def place_of(device: str | None) -> str:
    """Return the requested device, or the GPU if there is one. Raises ConfigError if it cannot be used."""
    import torch

    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=place).item()  # a device of no memory, such as meta, fails here too
    except (RuntimeError, AssertionError) as error:  # torch raises either
        raise ConfigError(f"`--device` ({device}) cannot be used: {str(error).splitlines()[0]}") from error
    return place


def device_name(place: str) -> str:
    """Return the type of the device without its number: cpu, or cuda with the name of the GPU."""
    import torch

    return f"cuda ({torch.cuda.get_device_name(place)})" if place.startswith("cuda") else place.partition(":")[0]


def folder_of(name: str) -> Path | None:
    """Return the model's folder: the path `name`, that of an embedded model, or that in the hub's cache; else None."""
    if name in EMBEDDED:
        return EMBEDDED[name]
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    for file in ("config.json", "adapter_config.json"):
        try:
            cached = try_to_load_from_cache(name, file)
        except HFValidationError:
            return None
        if isinstance(cached, str):
            return Path(cached).parent
    return None


def load_model(
    name: str, place: str, prompts: Iterable[Any] = (), chat_template_kwargs: Any = None
) -> tuple[Any, Any]:
    """Load model and tokenizer of a folder, an adapter folder, a hub id or an embedded name on the device `place`. The
    tokenizer is checked and prepared for `prompts` (`ready`) before the model loads."""
    import torch
    from transformers.utils import logging

    from ..policies.build import load_pretrained, load_tokenizer

    name = resolve_model(name)
    logging.disable_progress_bar()  # its line would be in the middle of the table's
    tokenizer = ready(load_tokenizer(name, False), prompts, chat_template_kwargs)
    # Half precision where the checkpoint has it, except on a CPU, where it is slow and coarse.
    model = load_pretrained(name, {"dtype": torch.float32 if place.startswith("cpu") else "auto"})
    return model.to(place).eval(), tokenizer


def dtype_on(place: str, folder: Path | None) -> str:
    """Return the precision in which `load_model` loads the model of a folder on `place`; "auto" if not recorded."""
    if place.startswith("cpu"):
        return "float32"
    config = None if folder is None else folder / "config.json"
    config_values = json_file(config) if config is not None and config.is_file() else {}
    return str(config_values.get("dtype") or config_values.get("torch_dtype") or "auto")


def weights_digest(folder: Path) -> str:
    """Return the BLAKE2b digest of the model's files: each whole up to 64 MiB, else 64 MiB in evenly spaced blocks."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(p for p in folder.iterdir() if p.is_file() and any(fnmatch.fnmatch(p.name, f) for f in _FILES)):
        size = path.stat().st_size
        digest.update(f"{path.name}\n{size}\n".encode())
        with path.open("rb") as file:
            if size <= _BLOCK * _BLOCKS:
                digest.update(file.read())
                continue
            for i in range(_BLOCKS):
                file.seek((size - _BLOCK) * i // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of the packages that can change a sampled token."""
    installed = {"countdown-selfplay": __version__, "python": platform.python_version()}
    return installed | {name: version(name) for name in _PACKAGES}
