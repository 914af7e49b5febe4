"""`python -m tools.make_tiny_model.detachment --output DIR`: a prover and a conjecturer for `domain: detachment`, from
nothing, in minutes.

The prover sees theorems with shortest proofs of 1 to 13 signs and instances of them: all of up to 7 signs, and a part
of the longer ones, so that self-play has something left to find. The conjecturer sees those of 1 to 9 signs, and
lemmas of theorems of up to 11 signs: what a part of the shortest proof concludes. The held-out side, by the theorem
that the shortest proof concludes, is in neither; a theorem that is also an instance of a held-out one may be shown
with its own, shorter proof.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import torch
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Sequence as Both
from tokenizers.pre_tokenizers import Split, WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from countdown_selfplay.cli.main import guarded
from countdown_selfplay.cli.plain import seed_number
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.random_state import private_generator
from countdown_selfplay.worlds.detachment import conclusion, read
from countdown_selfplay.worlds.detachment.domain import DetachmentDomain, of_held_out_side
from countdown_selfplay.worlds.detachment.formulas import LETTERS, Formula
from countdown_selfplay.worlds.detachment.theorems import hardest_at, simplest

from .model import plain_softmax
from .tokenizer import BOS, EOS, PAD, UNK
from .warm_start import WarmStart, fit

SIGNS: tuple[str, ...] = (PAD, BOS, EOS, UNK, *"CND123:?", *LETTERS)
"""Every token, in the order of its id: one sign each."""
MAX_LENGTH = 96
DOMAIN = DetachmentDomain()
_ID = {sign: index for index, sign in enumerate(SIGNS)}

Example = tuple[str, str]
"""Prompt and answer."""

SHOWN = 40_000
"""Examples that are made for a role; a step takes some of them."""
PROVED = {1: 1.0, 3: 1.0, 5: 1.0, 7: 1.0, 9: 0.5, 11: 0.5, 13: 0.25}
"""Lengths of the proofs that the prover sees, and the share of the training side's theorems of each."""
WRITTEN = (1, 3, 5, 7, 9)
"""Lengths of the proofs of the theorems that the conjecturer sees."""
TARGETS = (5, 7, 9, 11)
"""Lengths of the proofs of theorems that the conjecturer sees lemmas of."""


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a sign, white space dropped, `<s>` in front; decoding joins without spaces. `<unk>` stays visible."""
    tokenizer = Tokenizer(WordLevel(_ID, unk_token=UNK))
    tokenizer.pre_tokenizer = Both([WhitespaceSplit(), Split(Regex("."), "isolated")])
    tokenizer.decoder = Fuse()
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in (PAD, BOS, EOS)])
    tokenizer.post_processor = TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, _ID[BOS])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        padding_side="left",
        model_max_length=MAX_LENGTH,
        clean_up_tokenization_spaces=False,
    )


def build(role: str, seed: int) -> Qwen3ForCausalLM:
    """Untrained weights: Qwen3, 4 layers of width 64 (prover), 2 of 48 (conjecturer)."""
    width, layers = {"prover": (64, 4), "conjecturer": (48, 2)}[role]
    config = Qwen3Config(
        vocab_size=len(SIGNS),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 16,
        num_key_value_heads=width // 16,
        head_dim=16,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        pad_token_id=_ID[PAD],
        bos_token_id=_ID[BOS],
        eos_token_id=_ID[EOS],
    )
    with private_generator(torch.device("cpu"), "detachment", role, seed):
        model = Qwen3ForCausalLM(config)
    model.generation_config = plain_softmax()
    return model


def shown(length: int) -> list[tuple[Formula, str]]:
    """Theorems of the training side with shortest proofs of this length, and these proofs."""
    found = hardest_at(length).items()
    return [(f, proof) for f, proof in found if DOMAIN.outside(f) is None and not of_held_out_side(f)]


def proved_at(length: int) -> list[tuple[Formula, str]]:
    """The part of `shown` that the prover sees: always the same, whatever the seed of the weights."""
    own = sorted(shown(length), key=lambda pair: str(pair[0]))
    Random(f"detachment|part|{length}").shuffle(own)
    return own[: round(PROVED[length] * len(own))]


def instance(theorem: Formula, generator: Random) -> Formula:
    """The theorem with some of its variables replaced by another one, or by a formula with one connective; in range
    and on the training side, or the theorem itself."""
    text = str(theorem)
    names = sorted(set(text) - set("CN"))
    put = {}
    for name in names:
        if generator.random() < 0.3:
            one, other = generator.choice([*names, "z"]), generator.choice([*names, "z"])
            put[name] = generator.choice((one, f"N{one}", f"C{one}{other}"))
    found = read("".join(put.get(sign, sign) for sign in text)).problem
    return theorem if found is None or DOMAIN.outside(found) or of_held_out_side(found) else found


def proofs_shown(n: int, seed: int) -> list[Example]:
    """`n` theorems with proofs, each length as often as the others; half of them are general, half instances, whose
    shortest proofs are of the part that is shown too."""
    generator = Random(f"detachment|prover|{seed}")
    levels = [proved_at(length) for length in PROVED]
    general = {theorem for level in levels for theorem, _ in level}
    found = []
    for i in range(n):
        theorem, proof = generator.choice(levels[i % len(levels)])
        if generator.random() < 0.5:
            made = instance(theorem, generator)
            known = simplest(made)
            if known is not None and known[0] in general:
                theorem, proof = made, known[1]
        found.append((f"{theorem}:", proof))
    return found


def proposals_shown(n: int, seed: int) -> list[Example]:
    """`n` proposals: half of them theorems, half lemmas of a theorem that is named."""
    generator = Random(f"detachment|conjecturer|{seed}")
    levels, targets = [shown(length) for length in WRITTEN], [shown(length) for length in TARGETS]
    found = []
    while len(found) < n:
        if len(found) % 2:
            found.append(("?", str(instance(generator.choice(generator.choice(levels))[0], generator))))
            continue
        target, proof = generator.choice(generator.choice(targets))
        lemma = conclusion(generator.choice(parts(proof)[1:])).conclusion
        if lemma is not None and DOMAIN.outside(lemma) is None and not of_held_out_side(lemma):
            found.append((f"{target}?", str(lemma)))
    return found


def parts(proof: str) -> list[str]:
    """The proofs of more than one sign that a proof consists of, itself first; of one D its axioms."""
    ends: list[str] = []
    stack: list[str] = []
    for sign in reversed(proof):
        stack.append(f"D{stack.pop()}{stack.pop()}" if sign == "D" else sign)
        ends.append(stack[-1])
    return [part for part in reversed(ends) if len(part) > 1 or len(proof) == 3]


EXAMPLES: dict[str, Callable[[int, int], list[Example]]] = {"prover": proofs_shown, "conjecturer": proposals_shown}
SETTINGS = {
    "prover": WarmStart(steps=300, batch_size=128, threads=1),
    "conjecturer": WarmStart(steps=600, batch_size=128, threads=1),
}


def train(
    role: str, seed: int = 0, steps: int | None = None, on_step: Callable[[int, float], None] | None = None
) -> Qwen3ForCausalLM:
    """The model of a role after its warm start."""
    base = SETTINGS[role]
    settings = WarmStart(steps=steps or base.steps, seed=seed, batch_size=base.batch_size, threads=base.threads)
    return fit(build(role, seed), _batches(EXAMPLES[role](SHOWN, seed), settings.batch_size, seed), settings, on_step)


def _batches(examples: Sequence[Example], size: int, seed: int) -> Iterator[dict[str, torch.Tensor]]:
    generator = Random(f"detachment|batches|{seed}")
    while True:
        rows = [([BOS, *prompt], [*answer, EOS]) for prompt, answer in generator.sample(examples, size)]
        width = max(len(prompt) + len(answer) for prompt, answer in rows)
        ids = torch.full((len(rows), width), _ID[PAD])
        labels = torch.full((len(rows), width), -100)
        for row, (prompt, answer) in enumerate(rows):
            written = torch.tensor([_ID[sign] for sign in (*prompt, *answer)])
            ids[row, : len(written)] = written
            labels[row, len(prompt) : len(written)] = written[len(prompt) :]
        yield {"input_ids": ids, "labels": labels}  # padding stands on the right: causal attention needs no mask


def save(model: Qwen3ForCausalLM, folder: Path) -> None:
    """Plain Hugging Face files."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)


def main(argv: list[str]) -> int:
    """Train both models into --output; exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m tools.make_tiny_model.detachment", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="write DIR/prover, DIR/conjecturer")
    parser.add_argument("--steps", type=int, help="optimizer steps of each (default: those of the shipped models)")
    parser.add_argument("--seed", type=seed_number, default=0, help="of the first weights and the examples")
    args = parser.parse_args(argv)
    if args.output.exists() and (not args.output.is_dir() or any(args.output.iterdir())):
        raise ConfigError(f"--output ({args.output}) exists and is not an empty folder; name a new one.")
    for role in EXAMPLES:
        start = time.perf_counter()

        def show(step: int, loss: float, role: str = role, start: float = start) -> None:
            if step % 50 == 0:
                print(f"{role}: step {step}  loss {loss:.4f}  {time.perf_counter() - start:.0f} s", file=sys.stderr)

        save(train(role, args.seed, args.steps, show), args.output / role)
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
