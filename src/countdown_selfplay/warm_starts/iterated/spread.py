"""Distributed play: the main process plays the game, all processes generate."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...distributed.processes import Processes
from ...evaluation.episodes import Player
from ...evaluation.sampling import Completion


@dataclass(frozen=True)
class Spread:
    """Roster of players that every process holds. The main process alone runs game and domain, whose results may
    depend on time (a checker with a limit), so that processes cannot diverge."""

    processes: Processes
    roster: Mapping[str, Player]

    def draw(
        self, role: str, prompts: list[Any], n: int, seed: int, stops: list[str] | None
    ) -> list[list[Completion]]:
        """Sample `n` completions per prompt. The main process calls it, inside `led`."""
        request = role, prompts, n, seed, stops
        self.processes.together(lambda: request)
        return self.roster[role].draw(*request, self.processes)

    @contextmanager
    def led(self) -> Iterator[None]:
        """Play on the main process inside the block; afterwards the others leave `serve`, with its error if
        it has one."""
        try:
            yield
        except Exception as error:
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        def over() -> None:
            if error is not None:
                raise error

        self.processes.together(over)

    def serve(self) -> None:
        """Generate, on the other processes, until the main one has played."""
        while (request := self._asked()) is not None:
            role, prompts, n, seed, stops = request
            self.roster[role].draw(role, prompts, n, seed, stops, self.processes)

    def _asked(self) -> Any:
        return self.processes.together(lambda: None)  # which the main process's call answers
