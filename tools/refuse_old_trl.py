"""Older versions of TRL, installed into folders of their own, are refused in one sentence when a trainer is built:
`python tools/refuse_old_trl.py [--into FOLDER]`. Needs a package index; `make test-old-trl` is a stage of CI."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

EXPECTED = {
    "1.14": "`trl.trainer.utils.add_fused_lm_head` is gone; `GRPOTrainer._get_per_token_logps_and_entropies` takes (",
    "1.15": "it is older than 1.16, the first one that is tested",
}
"""What the sentence must say of a version: what of the seam is not there yet, or else its version."""
_BUILD = """
import sys
import trl
from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import TINY_MODEL_PATH

args = JointSelfPlayConfig.from_recipe("tiny/default", output_dir=sys.argv[1])
try:
    JointConjecturerProverTrainer(model=str(TINY_MODEL_PATH), args=args)
except ConfigError as error:
    print(f"refused {trl.__version__}: {error}")
"""


def main() -> int:
    """0 if every version is refused as expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=Path(".old-trl"), help="a folder per version is made here")
    into, wrong = parser.parse_args().into, 0
    for version, words in EXPECTED.items():
        folder = (into / version).resolve()
        if not folder.exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
            subprocess.run([*pip, f"trl=={version}.*"], check=True)
        path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-c", _BUILD, str(into / "run")]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
        sentence = next((line for line in done.stdout.splitlines() if line.startswith(f"refused {version}.")), "")
        print(
            sentence
            or f"NOT refused {version}: exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}"
        )
        wrong += words not in sentence
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main())
