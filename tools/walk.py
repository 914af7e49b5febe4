"""Which files and functions run in a training step, while a trainer is built, and from a flag to a checked config?

    python tools/walk.py              # the default recipe of joint
    python tools/walk.py --stock      # TRL's GRPOTrainer with this library's verifier as its reward
    python tools/walk.py --files      # and the names of the files

Counted by a profile hook on the embedded model: files of the package (and of TRL) in which a function is called, those
functions, and the lines of the files. The step is the second one, callbacks and logging included.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

import countdown_selfplay
from countdown_selfplay.rewards.prover.verifier import countdown_reward
from countdown_selfplay.tiny import TINY_MODEL_PATH

PACKAGES = {"countdown_selfplay": Path(countdown_selfplay.__file__).parent}
SHORT = [
    "--max_steps",
    "2",
    "--eval_problems",
    "0",
    "--disable_tqdm",
    "true",
    "--report",
    "false",
    "--use_cpu",
    "true",
]


class Walk:
    """Collects (package, file, function) while it is on."""

    def __init__(self, names: bool) -> None:
        import trl

        self.roots = {**PACKAGES, "trl": Path(trl.__file__).parent}
        self.names, self.called = names, set[tuple[str, str, str]]()

    def start(self) -> None:
        """Forget what was called, and watch."""
        self.called.clear()
        sys.setprofile(self._seen)

    def stop(self, title: str) -> None:
        """Watch no longer; print a line a package."""
        sys.setprofile(None)
        for package, root in self.roots.items():
            found = {(file, function) for name, file, function in self.called if name == package}
            files = sorted({file for file, _ in found})
            lines = sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files)
            print(f"{title}: {package}: {len(files)} files, {len(found)} functions, {lines:,} lines of those files")
            if self.names:
                print("   ", ", ".join(str(Path(file).relative_to(root)) for file in files))

    @contextmanager
    def watching(self, title: str) -> Iterator[None]:
        """Inside the block."""
        self.start()
        try:
            yield
        finally:
            self.stop(title)

    def _seen(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            for package, root in self.roots.items():
                if file.startswith(f"{root}/"):
                    self.called.add((package, file, frame.f_code.co_qualname))


class SecondStep(TrainerCallback):
    """Watches the second step of a run."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 1:
            self.walk.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 2:
            self.walk.stop("a training step")


def ours(walk: Walk, folder: str) -> Any:
    """The trainer of `joint`, whose parsing and building are watched."""
    from countdown_selfplay.cli.joint import build_arguments, parse
    from countdown_selfplay.domains import domain_from
    from countdown_selfplay.training.trainer import JointConjecturerProverTrainer

    with walk.watching("from flags to a checked config"):
        script, config, model = parse([*SHORT, "--learning_rate", "0.0003", "--output_dir", folder])
    with walk.watching("building the trainer"):
        return JointConjecturerProverTrainer(
            args=config, domain=domain_from(config), **build_arguments(script, config, model)
        )


def stock(walk: Walk, folder: str) -> Any:
    """GRPOTrainer on problems of the same domain."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from countdown_selfplay.countdown import CountdownDomain

    domain = CountdownDomain.tiny()
    rows = Dataset.from_list([domain.prove_row(problem) for problem in domain.random(64, 0)])
    config = GRPOConfig(
        folder, max_steps=2, per_device_train_batch_size=16, gradient_accumulation_steps=4, num_generations=8,
        max_completion_length=16, use_cpu=True, bf16=False, report_to="none", disable_tqdm=True, save_strategy="no",
    )  # fmt: skip
    return GRPOTrainer(str(TINY_MODEL_PATH), countdown_reward, config, rows)


def main() -> None:
    """Two steps, the second one watched."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--files", action="store_true")
    options = parser.parse_args()
    walk = Walk(options.files)
    with tempfile.TemporaryDirectory() as folder:
        trainer = (stock if options.stock else ours)(walk, folder)
        trainer.add_callback(SecondStep(walk))
        trainer.train()


if __name__ == "__main__":
    main()
