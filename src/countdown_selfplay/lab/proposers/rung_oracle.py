"""Oracle over rungs: a reference with information that proposers must estimate."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...contract.game import Proposal
from ...contract.metric import Metric, Panel
from ...contract.round import Round
from ...data.jsonl import json_file
from ...errors import ConfigError, DataError
from ...options import is_number
from ...proposers.metrics import RUNGS
from ...proposers.rungs import RungList, Rungs
from ...proposers.symbolic.difficulty import measured_rates
from ...registry import Count, Share

PLAYED = 2
"""Number of rungs that an oracle plays at a time."""

ORACLE = (
    *RUNGS,
    Metric(
        "proposer/probe_answers",
        "Answers of the provers that oracle_rungs (half) took in the round to measure the rungs with. They train "
        "nobody; `round/generations` has them too.",
        panel=Panel("Answers that measure the rungs", (0,), "Curriculum", "answers"),
    ),
)


class OracleRungs(Rungs):
    """Rungs that plays the two best rungs alone, in equal parts.

    kind: "gain": the rungs with the most measured gain per answer; "half": those whose solve rate is nearest one half
    (ties: the lower). gains: {round: {rung: gain}}, or the path of a JSON file with it, from short separate training
    probes; the latest round at or before the current one applies. every: rounds between measurements of "half",
    beginning with the first. probe: new problems per rung of a measurement, excluded from training. samples: answers
    to each (None: the prover's num_generations)."""

    metrics = ORACLE

    def __init__(
        self,
        kind: Literal["gain", "half"] = "gain",
        gains: Mapping[Any, Any] | str | None = None,
        every: Count = 3,
        probe: Count = 16,
        samples: Count | None = None,
        rungs: RungList | None = None,
        share: Share = 1.0,
    ) -> None:
        super().__init__(rungs, share)
        if (gains is None) == (kind == "gain"):
            raise ConfigError(
                "`gains` of oracle_rungs is missing: kind gain plays by a table {round: {rung: gain}}, or the path of "
                "one; give it, or set kind to half."
                if kind == "gain"
                else "`gains` of oracle_rungs is for kind gain, and kind is half; leave one of them out."
            )
        self.kind, self.every, self.probe, self.samples = kind, every, probe, samples
        self.gains = {} if gains is None else read_gains(gains)
        self.rates: dict[int, float] = {}
        self.probed = 0  # answers, in this round
        self.known_now: dict[int, float] = {}  # basis of this round's choice

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.probed = 0
        if self.kind == "half":
            rungs = self.known(round.domain)
            if round.index % self.every == 0 or not self.rates.keys() >= set(rungs):
                self._measure(round, rungs)
        return super().propose(round, anchors)

    def _measure(self, round: Round, rungs: Sequence[int]) -> None:
        """Return the solve rate of each rung; one without a problem is unknown and not played."""
        provers = round.players("prover")
        samples = round.group(provers[0]) if self.samples is None else self.samples
        made = [
            round.domain.random_of_rung(self.probe, rung, round.seed("probe", rung), round.held_out) for rung in rungs
        ]
        rate_N = measured_rates(round, [problem for own in made for problem in own], samples)
        ends = np.cumsum([len(own) for own in made]).tolist()
        starts = [end - len(own) for end, own in zip(ends, made, strict=True)]
        self.rates = {
            rung: float(rate_N[start:end].mean())
            for rung, start, end in zip(rungs, starts, ends, strict=True)
            if end > start
        }
        self.probed = len(rate_N) * samples * len(provers)

    def weights(self, round: Round, rungs: Sequence[int]) -> Sequence[float]:
        if self.kind == "half":
            self.known_now = {rung: self.rates[rung] for rung in rungs if rung in self.rates}
            best = sorted(self.known_now, key=lambda rung: (abs(self.known_now[rung] - 0.5), rung))[:PLAYED]
        else:
            self.known_now = self._gains_at(round.index, rungs)
            best = sorted(self.known_now, key=lambda rung: (-self.known_now[rung], rung))[:PLAYED]
        return [float(rung in best) for rung in rungs]

    def _gains_at(self, index: int, rungs: Sequence[int]) -> dict[int, float]:
        past = [at for at in self.gains if at <= index]
        if not past:
            raise DataError(
                f"`gains` of oracle_rungs begins with round {min(self.gains)}, and round {index} is played; it needs "
                "an entry for round 0."
            )
        known = {rung: gain for rung, gain in self.gains[max(past)].items() if rung in rungs}
        if not known:
            raise DataError(
                f"`gains` of oracle_rungs has none of the rungs {', '.join(map(str, rungs))} at round {max(past)}; "
                "list those that are played."
            )
        return known

    def values(self) -> Mapping[int, float]:
        return self.known_now

    def logged(self) -> dict[str, float]:
        return {**super().logged(), **({"proposer/probe_answers": self.probed} if self.probed else {})}

    def state_dict(self) -> dict[str, Any]:
        return {"rates": {str(rung): rate for rung, rate in self.rates.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rates = {int(rung): float(rate) for rung, rate in state["rates"].items()}


def read_gains(gains: Mapping[Any, Any] | str) -> dict[int, dict[int, float]]:
    """Return the table, or that of the JSON file at this path, with numbers for its keys. Raises DataError
    for anything else."""
    cure = "`gains` of oracle_rungs wants a table {round: {rung: gain}}"
    table = json_file(Path(gains), cure) if isinstance(gains, str) else gains
    try:
        found = {int(at): {int(rung): gain for rung, gain in own.items()} for at, own in table.items()}
    except (AttributeError, TypeError, ValueError):
        raise DataError(f"{cure} with whole numbers for rounds and rungs, and got {str(table)[:80]}.") from None
    gained = [gain for own in found.values() for gain in own.values()]
    if not gained or not all(is_number(gain) for gain in gained) or min(found) < 0:
        raise DataError(f"{cure} with finite numbers for gains and rounds from 0 on, and got {str(table)[:80]}.")
    return {at: {rung: float(gain) for rung, gain in own.items()} for at, own in found.items()}
