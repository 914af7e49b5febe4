"""Settings of `countdown-selfplay headroom` in addition to those of joint."""

from dataclasses import dataclass

from ...config.script import JointScriptArguments
from ...errors import ConfigError
from ...options import at_least, option

GATES = (1, 2, 3, 4)


@dataclass
class HeadroomArguments(JointScriptArguments):
    """Gates, sizes and thresholds."""

    gates: list[int] = option(
        help="1: support; 2: a thin frontier that moves; 3: banded transfer; 4: an oracle's head-room.",
        factory=lambda: list(GATES),
    )
    gate_problems: int = option(24, "Problems of each rung that a gate measures on; gate 4 takes 64 or more.")
    gate_samples: int = option(128, "Answers to each of them in gates 1 to 3.")
    gate_rounds: int = option(30, "Rounds of each run; max_steps is not read.")
    gate_stage: int = option(10, "Rounds that the oracle plays between two searches.")
    gate_probe: int = option(5, "Rounds on one rung alone by which the oracle measures it.")
    gate_k: int = option(16, "k of the pass@k that gate 3 compares and gate 4 shows.")
    gate_support: float = option(0.3, "Gate 1: least pass@gate_samples of the lowest rung.")
    gate_thin: float = option(0.15, "Gate 2: the frontier is less than this share.")
    gate_moves: float = option(0.1, "Gate 2: least share of it that changes its rung.")
    gate_rises: float = option(0.05, "Gate 3: a rise is at least this much pass@gate_k.")
    gate_margin: float = option(0.02, "Gate 4: least lead of the oracle in pass@1.")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "gate_problems", "gate_rounds", "gate_stage", "gate_probe", "gate_k")
        at_least(self, 2, "gate_samples")
        if not self.gates or not set(self.gates) <= set(GATES):
            raise ConfigError(f"`gates` ({self.gates}) must name some of 1, 2, 3 and 4; leave it out for all.")
        self.gates = sorted(set(self.gates))
        if self.gate_k > self.gate_samples:
            raise ConfigError(f"`gate_k` ({self.gate_k}) must be at most `gate_samples` ({self.gate_samples}).")
        for name in ("dry_run", "probe", "control", "early_stopping_patience", "report_every"):
            if vars(self)[name]:
                raise ConfigError(f"`{name}` is for a run, and headroom plays several short ones; leave it out.")
        for name in ("dataset_name", "eval_dataset_name"):
            if (given := vars(self)[name]) is not None:
                why = "headroom takes its problems from the domain"
                raise ConfigError(f"`{name}` ({given}) is not used: {why}; leave it out.")
