"""Which proposers and which games each domain plays, found out by two rounds of each with tiny models; the page
docs/domains_matrix.md holds what was found.

    python -m tests.worlds.matrix [--write]

plays every cell and prints the page, or writes it. test_matrix.py plays the cells of CI and compares each with the
page. The cells are WORLDS (columns) x PROPOSERS and GAMES (rows). Everything is asked for by settings."""

from __future__ import annotations

import argparse
import json
import re
import string
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown import CountdownDomain, Rules, generate_problems
from countdown_selfplay.domains import domain_from
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import LADDER_ASKED_PATH, LADDER_MODEL_PATHS, TINY_MODEL_PATH, TINY_SPEC
from countdown_selfplay.worlds.detachment import DETACHMENT_PATHS
from countdown_selfplay.worlds.math_qa import MathQA
from tests.joint_config import joint_config

torch.set_num_threads(1)

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "domains_matrix.md"
YES = "yes"


class BareMath(MathQA):
    """Mathematics for the tiny model, which writes no box: what it says is the answer."""

    def verify(self, texts: Any, problems: Any) -> Any:
        return super().verify([f"\\boxed{{{text}}}" for text in texts], problems)


@dataclass(frozen=True)
class World:
    """A domain, and what its tiny models need. asked: the model of a conjecturer that is shown something."""

    title: str
    domain: str
    arguments: dict[str, Any] = field(default_factory=dict)
    prover: Callable[[Path], str] = lambda folder: str(TINY_MODEL_PATH)
    conjecturer: Callable[[Path], str] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    parts: Callable[[], dict[str, Any]] = dict
    folder: str = ""
    """Of tests/worlds, put on the path: what an installed package would be."""
    package: str = ""
    """Of an extra, without which the cells are skipped."""


def _questions() -> dict[str, Any]:
    """64 questions in the tiny model's words, 3 5 7 = 22, with the answer 22, and a chat template that leaves them: of
    each message the question and the last words of other messages."""
    made = generate_problems(64, TINY_SPEC, seed=2, split="train")
    rows = [{"question": " ".join(map(str, p.numbers)) + f" = {p.target}", "answer": str(p.target)} for p in made]
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_PATH, padding_side="left")
    question = "message['content'].split('Question: ')[-1][-16:]"
    tokenizer.chat_template = f"{{{{ bos_token }}}}{{% for message in messages %}}{{{{ {question} }}}} {{% endfor %}}:"
    return {"train_dataset": Dataset.from_list(rows), "processing_class": tokenizer}


def character_model(folder: Path) -> Path:
    """Written into `folder`: a model with random weights for domains in plain words, and its tokenizer. Tokens are
    the printable characters and the end of a line."""
    words = ["<pad>", "</s>", "<unk>", "\n", " ", *string.digits, *string.ascii_letters, *string.punctuation]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"), decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", padding_side="left"
    )
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    more = {"num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512, "tie_word_embeddings": True}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(words), pad_token_id=0, eos_token_id=1, **sizes, **more))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


COMPACT = {"prover_prompt": "compact", "conjecturer_prompt": "compact"}
RANGES = {"number_low": 1, "number_high": 12, "target_low": 1, "target_high": 99}
LEVELS = {"num_terms": [0, 2], "num_digits": [0, 1]}
SUMS = {"taskset": "small_sums", "chat": False, "rung_field": "level", "workers": 1, "deadline": 600.0}

WORLDS = {
    "countdown": World(
        "countdown", "countdown", conjecturer=lambda folder: str(TINY_MODEL_PATH),
        settings={**COMPACT, **RANGES, "operands": [2, 3]},
    ),
    "moves": World(
        "countdown in moves", "countdown", prover=lambda folder: str(LADDER_MODEL_PATHS["prover"]),
        conjecturer=lambda folder: str(LADDER_ASKED_PATH),
        settings={**RANGES, "operands": [2, 3], "answers": "moves", "prover_prompt": "compact_moves"}
        | {"conjecturer_prompt": "compact", "per_device_train_batch_size": 64},
    ),
    "detachment": World(
        "detachment", "detachment", {"longest_proof": 9}, prover=lambda folder: str(DETACHMENT_PATHS["prover"]),
        conjecturer=lambda folder: str(DETACHMENT_PATHS["conjecturer"]),
    ),
    "gym": World(
        "reasoning_gym", "reasoning_gym",
        {"task": "chain_sum", "levels": LEVELS, "prompt": "bare", "workers": 1, "deadline": 600.0},
        prover=lambda folder: str(character_model(folder / "characters")),
        conjecturer=lambda folder: str(character_model(folder / "characters")), package="reasoning_gym",
    ),
    "verifiers": World("verifiers", "verifiers", SUMS, folder="tasksets", package="verifiers.v1"),
    "math": World("math_qa", "tests.worlds.matrix:BareMath", {"workers": 1, "deadline": 600.0}, parts=_questions),
    "package": World("of a package", "largest_first:LargestFirst", {"high": 9}, folder="package/src"),
}  # fmt: skip

SYMBOLIC = {"candidates": 8, "refresh": 1, "keep": 4, "generated_fraction": 0.5, "difficulty_kwargs": {"samples": 2}}


@dataclass(frozen=True)
class Row:
    """A way to choose what is played. conjecturers: how many there are; None: one, in a domain that has proposals."""

    title: str
    settings: dict[str, Any]
    conjecturers: int | None = 0


def _proposer(name: str, conjecturers: int = 0, said: str = "", anchors: float = 0.0, **arguments: Any) -> Row:
    settings = {"proposer": name, "proposer_kwargs": arguments, "anchor_fraction": anchors}
    return Row(f"`{name}`{said}", settings, conjecturers)


PROPOSERS = {
    "policies": _proposer("policies", 1, anchors=0.5),
    "repair": _proposer("policies", 1, " with `repair`", anchors=0.5, repair=True),
    "targets": _proposer("targets", said=" alone", batch=4),
    "helped_targets": _proposer("targets", 1, " with a conjecturer", batch=4), "stp": _proposer("stp", 1, batch=4),
    "oracle_targets": _proposer("oracle_targets", batch=4),
    "tiers": _proposer("tiers", said=" of rungs, by the rule", axis="rung", start=[0], levels=[0, 1], min_valid=4),
    "asked_tiers": _proposer("tiers", 1, " of sizes, by a conjecturer", start=[2], ceiling=3, min_valid=4),
    "mutation": _proposer("mutation", anchors=0.5, **SYMBOLIC), "ucb": _proposer("ucb", anchors=0.5, **SYMBOLIC),
    "thompson": _proposer("thompson", anchors=0.5, **SYMBOLIC),
    "factorized": _proposer("factorized", anchors=0.5, **SYMBOLIC), "uniform_rungs": _proposer("uniform_rungs"),
    "bandit_rungs": _proposer("bandit_rungs"), "ucb_rungs": _proposer("ucb_rungs"),
    "thompson_rungs": _proposer("thompson_rungs"),
    "oracle_rungs": _proposer("oracle_rungs", kind="half", probe=2, samples=2, every=2),
    "uniform_texts": _proposer("uniform_texts"),
}  # fmt: skip

CRITIC = {"num_generations": 2}
GAMES = {
    "propose_and_solve": Row("`propose_and_solve`", {"game": "propose_and_solve"}, None),
    "critic_discernment": Row(
        "`critic_discernment`",
        {"game": "critic_discernment", "game_kwargs": {"revisions": 2}, "problems_per_round": 2, **CRITIC}
        | {"roles": {"helpful": CRITIC, "misleading": CRITIC}},
    ),
}
ROWS = {**PROPOSERS, **GAMES}

SMALL = dict(
    max_steps=2, per_device_train_batch_size=16, num_generations=4, learning_rate=1e-3, max_completion_length=12,
    gradient_checkpointing=False, guard=False, format_probe=0, save_strategy="no", report_to="none", disable_tqdm=True,
    use_cpu=True, seed=3,
)  # fmt: skip
"""Eight problems a round, four answers to each."""
PROPOSING = dict(proposals_per_round=16, conjecturer_num_generations=16)
ONE_EACH = PROPOSING | dict(conjecturer_num_generations=1, conjecturer_objective="reinforce")


def settings_of(row_name: str, world_name: str, folder: Path) -> dict[str, Any]:
    """The settings of a run: what a user would write."""
    row, world = ROWS[row_name], WORLDS[world_name]
    count = row.conjecturers if row.conjecturers is not None else int(world.conjecturer is not None)
    found = SMALL | {"domain": world.domain, "domain_kwargs": world.arguments or None} | world.settings
    found |= json.loads(json.dumps(row.settings))
    if row_name in GAMES and "roles" in row.settings:
        return found
    if not count:
        found["conjecturer_players"] = 0
    else:
        found |= ONE_EACH if row_name in ("helped_targets", "stp") else PROPOSING
    if row_name == "tiers" and world_name in RUNGS:
        found["proposer_kwargs"] |= {"start": RUNGS[world_name][:1], "levels": RUNGS[world_name]}
    if row_name == "oracle_targets":
        found["proposer_kwargs"]["derivations"] = str(folder / "derivations.jsonl")
    return found


RUNGS = {"countdown": [2, 3], "moves": [2, 3], "detachment": [5, 7], "gym": [0, 1], "verifiers": [1, 2]}
"""Two rungs of those that have any, for tiers."""


def _derivations(folder: Path) -> dict[str, Any]:
    """A file of eight derivations of three numbers in moves, and a data set of their problems."""
    domain = CountdownDomain(TINY_SPEC, Rules(answer_format="bare"), "compact_moves", "compact", answers="moves")
    made = []
    for moves in domain.demonstrations(8, 0, [3]):
        problem = domain.problem(moves[0][0])
        texts = [text for _, text in moves]
        made.append({"numbers": list(problem.numbers), "target": problem.target, "moves": texts})
    (folder / "derivations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    return {"train_dataset": Dataset.from_list([{k: row[k] for k in ("numbers", "target")} for row in made])}


@dataclass(frozen=True)
class Played:
    """What two rounds were: their lines of metrics, and the problems that were played."""

    lines: list[dict[str, Any]]
    problems: list[str]


def play(row_name: str, world_name: str, folder: Path) -> Played:
    """Two rounds of a cell; ConfigError where the domain does not play it."""
    world = WORLDS[world_name]
    if world.folder and str(HERE / world.folder) not in sys.path:
        sys.path.insert(0, str(HERE / world.folder))
    folder.mkdir(parents=True, exist_ok=True)
    parts = world.parts()
    if row_name == "oracle_targets" and world_name == "moves":
        parts |= _derivations(folder)
    args = joint_config(str(folder / "run"), **settings_of(row_name, world_name, folder))
    model: Any = world.prover(folder)
    if args.players_of("conjecturer"):
        model = {"prover": model, "conjecturer": (world.conjecturer or world.prover)(folder)}
    trainer = JointConjecturerProverTrainer(model, args=args, domain=shared(world_name, args), **parts)
    trainer.train()
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    samples = [json.loads(line) for line in (folder / "run" / "samples.jsonl").read_text().splitlines()]
    answers = [one for one in samples if str(one["role"]).startswith("prover")]
    return Played([line for line in lines if "loss" in line], [one["problem"] for one in answers])


SHARED: dict[str, Any] = {}
"""The domains with worker processes, which take seconds to start: one of each for all of its cells."""


def shared(world_name: str, args: JointSelfPlayConfig) -> Any:
    """The domain that the settings name, if it has workers; None: the trainer makes it."""
    if world_name not in ("gym", "verifiers", "math"):
        return None
    if world_name not in SHARED:
        SHARED[world_name] = domain_from(args)
    return SHARED[world_name]


def close_shared() -> None:
    """End the workers."""
    for domain in SHARED.values():
        if domain._pool is not None:
            domain._pool.close()
    SHARED.clear()


def outcome(row_name: str, world_name: str, folder: Path) -> str:
    """YES, or the sentence that refuses the cell, without the names of the domain and the proposer."""
    try:
        play(row_name, world_name, folder)
    except ConfigError as error:
        return general(str(error))
    return YES


NAMES = (
    (r"the domain [A-Z]\w+ ", "the domain DOMAIN "), (r"The domain '\w+' ", "The domain 'DOMAIN' "),
    (r"and [A-Z]\w+ lacks it", "and DOMAIN lacks it"), (r"[A-Z]\w+\.propose_row\(\)", "DOMAIN.propose_row()"),
    (r"`proposer` \(\w+\)", "`proposer` (PROPOSER)"),
)  # fmt: skip


def general(sentence: str) -> str:
    """A refusal with DOMAIN and PROPOSER for the names in it."""
    for name, placeholder in NAMES:
        sentence = re.sub(name, placeholder, sentence)
    return sentence


INTRODUCTION = """# Domains, proposers and games

Which proposers and games each domain plays, found out by two rounds of every cell with tiny models and by settings \
alone: `python -m tests.worlds.matrix --write`
plays all of them and writes this page, and `make test-worlds` plays them again. A letter is the sentence that \
refuses the cell before a model is trained.
`verifiers` is a taskset with a field of rungs, `of a package` is `my_package:MyDomain` without proposals and rungs \
([domains](domains.md)).
"""


def page(found: Mapping[tuple[str, str], str]) -> str:
    """The page of outcomes by (row, world)."""
    sentences = list(dict.fromkeys(said for said in found.values() if said != YES))
    letters = dict(zip(sentences, string.ascii_lowercase, strict=False)) | {YES: YES}
    text = INTRODUCTION
    for what, rows in (("proposer", PROPOSERS), ("game", GAMES)):
        text += f"\n| {what} | {' | '.join(world.title for world in WORLDS.values())} |\n|---|{'---|' * len(WORLDS)}\n"
        for name, row in rows.items():
            text += f"| {row.title} | {' | '.join(letters[found[name, world]] for world in WORLDS)} |\n"
    text += "\n## Refusals\n\nDOMAIN and PROPOSER stand for the names.\n\n| | |\n|---|---|\n"
    return text + "".join(f"| {letters[said]} | {said} |\n" for said in sentences)


def read_page(text: str) -> dict[tuple[str, str], str]:
    """The outcomes on the page."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if "|" in line]
    said = {row[0]: row[1] for row in cells if len(row) == 2} | {YES: YES}
    by_title = {row.title: name for name, row in ROWS.items()}
    return {
        (by_title[row[0]], world): said[letter]
        for row in cells
        if row[0] in by_title
        for world, letter in zip(WORLDS, row[1:], strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.worlds.matrix", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write docs/domains_matrix.md")
    write = parser.parse_args().write
    found = {}
    for row in ROWS:
        for world in WORLDS:
            with tempfile.TemporaryDirectory() as folder:
                found[row, world] = outcome(row, world, Path(folder))
    close_shared()
    if write:
        PAGE.write_text(page(found), encoding="utf-8")
    else:
        print(page(found))


if __name__ == "__main__":
    main()
