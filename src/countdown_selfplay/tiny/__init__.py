"""Embedded models for laptops and tests: one of 0.65M parameters that plays both roles on Countdown with three
numbers, and three for the ladder, a prover of 0.22M that answers in moves and two conjecturers of 0.06M. An optional
package may add others (packages.py). Importing this package loads no torch; `load_tiny_model` does.
docs/tiny_model.md describes how the weights were made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..countdown import ProblemSpec
from ..packages import MODELS, absent_package, need

TINY_MODEL_PATH: Path = Path(__file__).parent / "weights"
"""Folder of the shipped weights and tokenizer; `from_pretrained(str(TINY_MODEL_PATH))` works offline."""

TINY_SPEC: ProblemSpec = ProblemSpec(operands=(3,), number_low=1, number_high=12, target_low=1, target_high=99)
"""Problems of the tiny model's warm start, without the held-out split: 3 numbers from 1 to 12, targets 1 to 99."""

LADDER_MODEL_PATHS: dict[str, Path] = {
    role: Path(__file__).parent / "ladder" / role for role in ("prover", "conjecturer")
}
"""Folders of the two models that play Countdown in moves, one for each role; the tokenizer is the tiny model's."""

LADDER_ASKED_PATH: Path = Path(__file__).parent / "ladder" / "asked"
"""Folder of the conjecturer that also understands requests for a size (`propose 5 :`) or for help with a target
(`propose like 5 3 7 6 = 22 :`), not only `propose :`."""

LADDER_SPEC: ProblemSpec = ProblemSpec(
    operands=tuple(range(3, 21)), number_low=1, number_high=12, target_low=1, target_high=99
)
"""Problems of the ladder. The prover's warm start had 2 and 3 numbers, the conjecturer's all sizes."""

EMBEDDED: dict[str, Path] = {
    "tiny": TINY_MODEL_PATH,
    "tiny-ladder": LADDER_MODEL_PATHS["prover"],
    "tiny-ladder-conjecturer": LADDER_MODEL_PATHS["conjecturer"],
    "tiny-ladder-asked": LADDER_ASKED_PATH,
}
EMBEDDED |= {
    name: Path(__file__).parents[1] / model.folder
    for name, model in MODELS.items()
    if absent_package(model.folder.replace("/", ".")) is None
}


def load_tiny_model(path: Path | None = None) -> tuple[Any, Any]:
    """Load the shipped model (float32, evaluation mode) and its tokenizer, or those of the folder `path`."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = str(TINY_MODEL_PATH if path is None else path)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype="float32")
    return model.eval(), AutoTokenizer.from_pretrained(folder, local_files_only=True)


def resolve_model(name: str | None) -> str:
    """Return the path or id of a model: the folder of one of EMBEDDED (None: "tiny"), else the name itself."""
    if name is not None and name in MODELS:
        need(MODELS[name].folder.replace("/", "."), f"The model '{name}'")
    return str(EMBEDDED.get("tiny" if name is None else name, name))


def in_this_installation(path: str) -> str:
    """Return the local folder of an embedded model whose `path` was recorded by another installation. Returns `path`
    if it exists, or if it does not end in the folder of an embedded model."""
    package = Path(__file__).parents[1]
    inner = {folder.relative_to(package.parent).parts: folder for folder in EMBEDDED.values()}
    folders = (str(folder) for end, folder in inner.items() if Path(path).parts[-len(end) :] == end)
    return path if Path(path).exists() else next(folders, path)


def embedded_name(model: str) -> str | None:
    """Return the name of the embedded model to which `model`, a name or a folder, refers; None for any other."""
    if model in EMBEDDED or not Path(model).is_dir():
        return model if model in EMBEDDED else None
    return next((name for name, path in EMBEDDED.items() if path.resolve() == Path(model).resolve()), None)
