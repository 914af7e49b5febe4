"""A bandit over the cells of a plane, pairs of a rung and a value of the domain's second axis."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...contract.game import Proposal
from ...contract.round import Round, from_main
from ...proposers.metrics import RUNGS
from ...proposers.rungs import BanditRungs, Heard, RungList
from ...registry import Share
from ..axes import of_axis, value_on

LOOKED_AT = 256
"""Problems of each rung by which the cells that have problems are found."""


class BanditCells(BanditRungs):
    """Differs from BanditRungs in that it chooses among cells: a cell is as likely as its running mean of p(1 - p),
    and a share `eps` of the slots is uniform (1: all of them, a control). axis: the second axis, a name in
    `Domain.axes`. Cells are those that LOOKED_AT problems of each rung are in."""

    metrics = RUNGS[:1]

    def __init__(
        self,
        axis: str = "target",
        rungs: RungList | None = None,
        eps: Share = 0.1,
        decay: Share = 0.7,
        start: Share = 0.05,
        share: Share = 1.0,
    ) -> None:
        super().__init__(rungs, eps, 1.0, decay, start, share)
        self.axis = axis
        self.cells: list[tuple[int, Any]] = []
        self.places: list[int] = []  # in `cells`, of each slot

    def known(self, domain: Any) -> list[int]:
        """The rungs; the cells are looked for where they are not known."""
        rungs = super().known(domain)
        drawn = [] if self.cells else [one for rung in rungs for one in domain.random_of_rung(LOOKED_AT, rung, 0, ())]
        self.cells += sorted({(domain.rung(one), value_on(domain, self.axis, one)) for one in drawn})
        return rungs

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.known(round.domain)
        drawn = self.choose(round, range(len(self.cells)), self.count(round))
        self.places = [int(place) for place in from_main(round, np.asarray(drawn))]
        made = {rung: self._made(round, rung) for rung in {self.cells[place][0] for place in self.places}}
        found = [(place, next(made[self.cells[place][0]][self.cells[place][1]])) for place in self.places]
        self.slot_of = list(range(len(found)))
        self.played = {"proposer/rung_mean": float(np.mean([self.cells[place][0] for place, _ in found]))}
        return [Proposal(one, request={"rung": self.cells[place][0], "cell": place}) for place, one in found]

    def _made(self, round: Round, rung: int) -> dict[Any, Any]:
        """Value of the axis -> the problems of it that are played in the round."""
        wanted = Counter(self.cells[place][1] for place in self.places if self.cells[place][0] == rung)
        seed = round.seed("problems", rung)
        draw = partial(round.domain.random_of_rung, rung=rung, seed=seed, exclude=round.held_out)
        found = of_axis(round.domain, draw, self.axis, wanted)
        return {value: iter(own) for value, own in found.items()}

    def hear(self, found: Sequence[Heard], answers: int) -> None:
        super().hear([one._replace(rung=self.places[one.slot]) for one in found], answers)

    def values(self) -> Mapping[int, float]:
        return {}
