"""What `countdown-selfplay headroom` is asked beside the settings of joint."""

from dataclasses import dataclass, field

from ..config.script import JointScriptArguments
from ..errors import ConfigError
from ..options import at_least

GATES = (1, 2, 3, 4)


@dataclass
class HeadroomArguments(JointScriptArguments):
    """Gates, sizes and thresholds."""

    gates: list[int] = field(
        default_factory=lambda: list(GATES),
        metadata={"help": "1: support; 2: a thin frontier that moves; 3: banded transfer; 4: an oracle's head-room."},
    )
    gate_problems: int = field(
        default=24, metadata={"help": "Problems of each rung that a gate measures on; gate 4 takes 64 or more."}
    )
    gate_samples: int = field(default=128, metadata={"help": "Answers to each of them in gates 1 to 3."})
    gate_rounds: int = field(default=30, metadata={"help": "Rounds of each run; max_steps is not read."})
    gate_stage: int = field(default=10, metadata={"help": "Rounds that the oracle plays between two searches."})
    gate_probe: int = field(default=5, metadata={"help": "Rounds on one rung alone by which the oracle measures it."})
    gate_k: int = field(default=16, metadata={"help": "k of the pass@k that gate 3 compares and gate 4 shows."})
    gate_support: float = field(default=0.3, metadata={"help": "Gate 1: least pass@gate_samples of the lowest rung."})
    gate_thin: float = field(default=0.15, metadata={"help": "Gate 2: the frontier is less than this share."})
    gate_moves: float = field(default=0.1, metadata={"help": "Gate 2: least share of it that changes its rung."})
    gate_rises: float = field(default=0.05, metadata={"help": "Gate 3: a rise is at least this much pass@gate_k."})
    gate_margin: float = field(default=0.02, metadata={"help": "Gate 4: least lead of the oracle in pass@1."})

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "gate_problems", "gate_rounds", "gate_stage", "gate_probe", "gate_k")
        at_least(self, 2, "gate_samples")
        if not self.gates or not set(self.gates) <= set(GATES):
            raise ConfigError(f"`gates` ({self.gates}) must name some of 1, 2, 3 and 4; leave it out for all.")
        self.gates = sorted(set(self.gates))
        if self.gate_k > self.gate_samples:
            raise ConfigError(
                f"`gate_k` ({self.gate_k}) of pass@k needs as many answers, and `gate_samples` is "
                f"{self.gate_samples}; raise that, or lower gate_k."
            )
        for name in ("dry_run", "probe", "control", "early_stopping_patience", "report_every"):
            if vars(self)[name]:
                raise ConfigError(f"`{name}` is for a run, and headroom plays several short ones; leave it out.")
        for name in ("dataset_name", "eval_dataset_name"):
            if vars(self)[name] is not None:
                raise ConfigError(
                    f"`{name}` ({vars(self)[name]}) is not read by headroom, which takes its problems from the "
                    "domain, rung by rung; leave it out."
                )
