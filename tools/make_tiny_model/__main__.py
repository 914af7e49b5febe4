"""`python -m tools.make_tiny_model`, at the top of the repository: make the embedded model again, or measure it."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

from countdown_selfplay.cli.main import guarded
from countdown_selfplay.cli.plain import seed_number
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.evaluation import Estimate
from countdown_selfplay.evaluation.terminal import aligned
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC, load_tiny_model

from .figures import Figures, measure
from .reserved import with_reserved
from .tokenizer import RESERVED
from .warm_start import WarmStart, save
from .warm_start import train as warm_start

HELP = "Reproduce the embedded tiny model by its supervised warm start, or measure a tiny model"

WEIGHTS = "model.safetensors"
_PROGRESS_EVERY = 60  # steps


def main(argv: list[str]) -> int:
    """Train into --output, measure with --evaluate, or both; exit code 0."""
    args = _parser().parse_args(argv)
    if args.output is None and not args.evaluate:
        raise ConfigError(
            "There is nothing to do; pass --output DIR to train a tiny model, --evaluate to measure one."
        )
    if args.output is not None and args.model is not None:
        raise ConfigError("--model names weights to measure and --output weights to make; pass one of them.")
    for name in ("steps", "problems", "samples", "proposals"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name} ({value}) must be at least 1.")
    if args.output is not None:
        train(args.output, args.steps, args.seed)
    if args.evaluate:
        figures = evaluate(
            args.output or args.model, args.problems, args.samples, args.proposals, args.evaluation_seed
        )
        print(json.dumps(figures.to_dict(), indent=2) if args.json else as_text(figures))
    return 0


def train(output: Path, steps: int | None, seed: int) -> None:
    """Warm-start a model and write it to the folder `output`, which must be new or empty; progress goes to stderr."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ConfigError(
            f"--output ({output}) exists and is not an empty folder; name a new one, nothing is overwritten."
        )
    settings = WarmStart(seed=seed) if steps is None else WarmStart(steps=steps, seed=seed)
    start = time.perf_counter()

    def show(step: int, loss: float) -> None:
        if step % _PROGRESS_EVERY == 0 or step == settings.steps:
            seconds = time.perf_counter() - start
            print(f"step {step}/{settings.steps}  loss {loss:.4f}  {seconds:.0f} s", file=sys.stderr, flush=True)

    save(with_reserved(warm_start(TINY_SPEC, settings, show), len(RESERVED)), output)
    made, shipped = digest(output / WEIGHTS), digest(TINY_MODEL_PATH / WEIGHTS)
    verdict = "bit-identical to the shipped weights" if made == shipped else "not the shipped weights"
    print(f"{output / WEIGHTS}: sha256 {made} ({verdict})", file=sys.stderr)


def evaluate(model_path: Path | None, problems: int | None, samples: int, proposals: int, seed: int) -> Figures:
    """Figures of the model in `model_path`, of the shipped one if that is None."""
    if model_path is not None and not (model_path / "config.json").is_file():
        raise DataError(f"--model ({model_path}) holds no config.json; name a folder that `--output` has written.")
    model, tokenizer = load_tiny_model(model_path)
    return measure(model, tokenizer, TINY_SPEC, problems=problems, samples=samples, proposals=proposals, seed=seed)


def as_text(figures: Figures) -> str:
    """One row per figure, with its 95% interval."""
    prover, conjecturer = figures.prover, figures.conjecturer
    rows: list[tuple[str, ...]] = [("", "value [95% interval]", "over")]
    answered = f"{len(prover.correct)} held-out problems x {prover.n} answers"
    rows += [(f"prover pass@{k}", _interval(estimate), answered) for k, estimate in prover.pass_at.items()]
    rows.append(("prover truncated", f"{prover.truncated_rate:.4f}", answered))
    proposed = f"{conjecturer.n} proposals"
    for name in ("parseable", "in_range", "solvable", "unique", "solve_rate"):
        estimate = conjecturer.facts.get(name) or getattr(conjecturer, name)
        if estimate is not None:
            over = {"unique": "parsed proposals", "solve_rate": "distinct solvable proposals x 8 answers"}
            rows.append((f"conjecturer {name.replace('_', ' ')}", _interval(estimate), over.get(name, proposed)))
    return aligned(rows)


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.make_tiny_model", description=HELP + ".")
    making = parser.add_argument_group("to make one")
    making.add_argument("--output", type=Path, metavar="DIR", help="train, and write weights and tokenizer here")
    making.add_argument(
        "--steps", type=int, help="optimizer steps of 256 examples (default: those of the shipped model)"
    )
    making.add_argument(
        "--seed", type=seed_number, default=0, help="of the first weights and the examples (default: 0)"
    )
    measuring = parser.add_argument_group("to measure one")
    measuring.add_argument("--evaluate", action="store_true", help="print the figures of the model")
    measuring.add_argument("--model", type=Path, metavar="DIR", help="weights to measure (default: the shipped ones)")
    measuring.add_argument("--problems", type=int, help="held-out problems (default: all there are)")
    measuring.add_argument("--samples", type=int, default=16, help="answers per problem (default: 16)")
    measuring.add_argument("--proposals", type=int, default=2048, help="proposals (default: 2048)")
    measuring.add_argument("--evaluation_seed", type=seed_number, default=0, help="of the sampling (default: 0)")
    measuring.add_argument("--json", action="store_true", help="print one JSON object, with the counts per problem")
    return parser


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
