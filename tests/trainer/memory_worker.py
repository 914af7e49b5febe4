"""Peak RSS of a pool of adapters over one base, in a process of its own; started by test_pool.py."""

import json
import os
import resource
import sys
from pathlib import Path

from countdown_selfplay.planning.probe import probe
from tests.joint_config import joint_config


def main(model, players):
    """Two rounds of `players` conjecturers and as many provers, all texts of full length, every player trained."""
    import torch

    torch.set_num_threads(1)
    role = {"players": players, "objective": "rloo", "num_generations": 4}
    args = joint_config(
        output_dir="unused", policy_sharing="lora", proposer="tiers",
        proposer_kwargs={"start": [3] * players, "ceiling": 3, "min_valid": 2}, operands=[2, 3],
        roles={"prover": role, "conjecturer": role}, problems_per_round=2, proposals_per_round=4,
        per_device_train_batch_size=4, max_completion_length=16, prover_prompt="compact", conjecturer_prompt="compact",
        gradient_checkpointing=False, report_to="none", use_cpu=True,
    )  # fmt: skip
    statm = Path("/proc/self/statm").read_text().split()
    before = int(statm[1]) * os.sysconf("SC_PAGE_SIZE")
    found = probe(args, {"model": model})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lengths = {name: value for name, value in found["log"].items() if name.endswith("/completion_length_max")}
    print(json.dumps({"bytes": peak - before, "lengths": lengths}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
