"""`python -m tools.make_tiny_model.ladder`, at the top of the repository: make the ladder's three models again, or
measure them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from countdown_selfplay.cli.main import guarded
from countdown_selfplay.cli.plain import seed_number
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.evaluation import Estimate
from countdown_selfplay.evaluation.terminal import aligned
from countdown_selfplay.tiny import LADDER_ASKED_PATH, LADDER_MODEL_PATHS, load_tiny_model

from ..__main__ import WEIGHTS, digest
from ..warm_start import save
from .figures import Proposals, Rung, answer_requests, measure, propose, to_dict
from .warm_start import STARTS, train

HELP = "Reproduce the ladder's prover and conjecturers by their supervised warm starts, or measure them"

LARGEST = 58
"""Numbers of a proposal: 64 positions less the prompt's two tokens, `=`, the target and the end."""

SHIPPED = {**LADDER_MODEL_PATHS, "asked": LADDER_ASKED_PATH}

_PROGRESS_EVERY = 100  # steps


def main(argv: list[str]) -> int:
    """Train into --output, measure with --evaluate, or both; exit code 0."""
    args = _parser().parse_args(argv)
    if args.output is None and not args.evaluate:
        raise ConfigError("There is nothing to do; pass --output DIR to train the models, --evaluate to measure.")
    if args.output is not None and args.model is not None:
        raise ConfigError("--model names weights to measure and --output weights to make; pass one of them.")
    for name in ("steps", "problems", "samples", "proposals"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name} ({value}) must be at least 1.")
    if args.largest is not None and not 3 <= args.largest <= LARGEST:
        raise ConfigError(f"--largest ({args.largest}) must be from 3 to {LARGEST}: a proposal has 64 tokens at most.")
    if args.output is not None:
        make(args.output, args.seed, args.steps, args.largest)
    if args.evaluate:
        found = evaluate(args.output or args.model, args.problems, args.samples, args.proposals, args.evaluation_seed)
        print(json.dumps(to_dict(*found), indent=2) if args.json else as_text(*found))
    return 0


def make(output: Path, seed: int, steps: int | None = None, largest: int | None = None) -> None:
    """Warm-start the models into `output`/prover, `output`/conjecturer and `output`/asked; progress goes to stderr."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ConfigError(
            f"--output ({output}) exists and is not an empty folder; name a new one, nothing is overwritten."
        )
    for role, start in STARTS.items():
        save(train(role, seed, steps, _progress(role, steps or start.settings.steps), largest), output / role)
        made, shipped = digest(output / role / WEIGHTS), digest(SHIPPED[role] / WEIGHTS)
        verdict = "bit-identical to the shipped weights" if made == shipped else "not the shipped weights"
        print(f"{output / role / WEIGHTS}: sha256 {made} ({verdict})", file=sys.stderr)


def evaluate(
    folder: Path | None, problems: int, samples: int, proposals: int, seed: int
) -> tuple[list[Rung], Proposals, dict[str, Estimate]]:
    """Figures of the three models in `folder`, of the shipped ones if that is None."""
    paths = SHIPPED if folder is None else {role: folder / role for role in SHIPPED}
    for path in paths.values():
        if not (path / "config.json").is_file():
            raise DataError(f"--model: {path} holds no config.json; name a folder that `--output` has written.")
    rungs = measure(*load_tiny_model(paths["prover"]), problems, samples, seed)
    written = propose(*load_tiny_model(paths["conjecturer"]), proposals, seed)
    return rungs, written, answer_requests(*load_tiny_model(paths["asked"]), proposals, seed)


def as_text(rungs: list[Rung], proposals: Proposals, requests: Mapping[str, Estimate]) -> str:
    """One row per size and per share of the proposals of either conjecturer, with 95% intervals."""
    ks = list(rungs[0].pass_at)
    rows = [("numbers", *(f"pass@{k} [95% interval]" for k in ks))]
    rows += [(str(rung.operands), *(_interval(rung.pass_at[k]) for k in ks)) for rung in rungs]
    shares = [("proposals", "share [95% interval]")]
    shares += [
        (name.replace("_", " "), _interval(getattr(proposals, name))) for name in ("parseable", "in_range", "new")
    ]
    sizes = ", ".join(f"{size}: {count}" for size, count in proposals.sizes.items())
    asked = [("requests", "share [95% interval]"), *((name, _interval(share)) for name, share in requests.items())]
    return f"{aligned(rows)}\n\n{aligned(shares)}\n\nproposals by size: {sizes}\n\n{aligned(asked)}"


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _progress(role: str, steps: int) -> Callable[[int, float], None]:
    start = time.perf_counter()

    def show(step: int, loss: float) -> None:
        if step % _PROGRESS_EVERY == 0 or step == steps:
            seconds = time.perf_counter() - start
            print(f"{role}: step {step}/{steps}  loss {loss:.4f}  {seconds:.0f} s", file=sys.stderr, flush=True)

    return show


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.make_tiny_model.ladder", description=HELP + ".")
    making = parser.add_argument_group("to make them")
    making.add_argument("--output", type=Path, metavar="DIR", help="write DIR/prover, DIR/conjecturer and DIR/asked")
    making.add_argument("--steps", type=int, help="optimizer steps of each (default: those of the shipped models)")
    making.add_argument("--largest", type=int, help="the most numbers that the conjecturer sees (default: 20)")
    making.add_argument(
        "--seed", type=seed_number, default=0, help="of the first weights and the examples (default: 0)"
    )
    measuring = parser.add_argument_group("to measure them")
    measuring.add_argument("--evaluate", action="store_true", help="print the figures of all three")
    measuring.add_argument("--model", type=Path, metavar="DIR", help="folder of the three (default: the shipped ones)")
    measuring.add_argument("--problems", type=int, default=64, help="held-out problems of each size (default: 64)")
    measuring.add_argument("--samples", type=int, default=16, help="episodes per problem (default: 16)")
    measuring.add_argument(
        "--proposals", type=int, default=2048, help="proposals, and texts a request (default: 2048)"
    )
    measuring.add_argument("--evaluation_seed", type=seed_number, default=0, help="of the sampling (default: 0)")
    measuring.add_argument("--json", action="store_true", help="print one JSON object, with the counts per problem")
    return parser


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
