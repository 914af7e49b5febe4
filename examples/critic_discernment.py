"""The Critic-Discernment Game on the embedded tiny model: a warm start that knows the game, then the game itself.

python examples/critic_discernment.py                                # two iterations, retrained from the warm start
python examples/critic_discernment.py --training online              # rounds of the joint trainer
python examples/critic_discernment.py --problems 48 --iterations 1   # any option of `countdown-selfplay cdg`
"""

import json
from dataclasses import replace
from pathlib import Path

from countdown_selfplay.cli import cdg, sft
from countdown_selfplay.cli.main import as_program
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.warm_starts.critiques import critique_demonstrations

WARM_START = Path("runs/tiny-cdg-start")
DEMONSTRATIONS = 12_288  # problems; three rows of each: an answer, a critique, a revision


def warm_start(folder: Path) -> None:
    """Weights that answer, criticise and revise in the game's words: supervised, on what the exact solver makes."""
    domain = CountdownDomain.tiny()
    wider = replace(domain, spec=replace(domain.spec, number_high=20))  # numbers up to 12 have too few problems
    rows = critique_demonstrations(DEMONSTRATIONS, wider)
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "demonstrations.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = {"dataset_name": data, "keep_wrong": "true", "num_train_epochs": 2, "output_dir": folder}
    sft.main([text for name, value in options.items() for text in (f"--{name}", str(value))])


def main(argv: list[str]) -> int:
    if not (WARM_START / "model.safetensors").exists():
        warm_start(WARM_START)
    recipe = "tiny/cdg" if "online" in argv else "tiny/iterated_cdg"
    return cdg.main(["--recipe", recipe, "--model_name_or_path", str(WARM_START), *argv])


if __name__ == "__main__":
    as_program(main)
