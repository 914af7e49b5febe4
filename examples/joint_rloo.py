"""Joint conjecturer/prover RLOO: the same program as `countdown-selfplay joint`.

accelerate launch examples/joint_rloo.py                        # the embedded tiny model, minutes on a laptop CPU
accelerate launch examples/joint_rloo.py --recipe qwen2.5-0.5b/anchored_shaped_fixed --dry_run
accelerate launch examples/joint_rloo.py --config my.yaml --max_steps 50
"""

import sys

from countdown_selfplay.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main(["joint", *sys.argv[1:]]))
