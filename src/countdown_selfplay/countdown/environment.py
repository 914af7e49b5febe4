"""Countdown as an environment of TRL's trainers: `environment_factory=CountdownEnvironment` of GRPOTrainer.

TRL builds an environment per rollout, calls `reset` with the row's columns, offers every public method as a tool, and
finally calls `get_reward`, which sees only the tools' arguments: an answer without a tool call scores `score_invalid`.
This module does not import TRL."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .moves import play
from .planted import VALUE_HIGH
from .problem import DEFAULT_RULES, Problem, Rules, problem_from_row
from .verifier import Verdict, verify

OVER = "The game is over: the first answer counts."


def asked_to_submit(problem: Problem) -> str:
    """Render the question for a whole expression, with all rules."""
    return (
        f"Use each of the numbers {', '.join(map(str, problem.numbers))} exactly once, with + - * / and parentheses, "
        f"to make {problem.target}. Call `submit` once with the expression, such as (1 + 2) / 3."
    )


def asked_to_move(problem: Problem) -> str:
    """Render the question for an answer in moves, with all rules."""
    return (
        f"Numbers: {', '.join(map(str, problem.numbers))}. Target: {problem.target}. A move takes two of the numbers "
        "and puts the result of one operation (+, -, * or /) in their place; every result must be a positive integer. "
        "Call `move` with one move, such as 6 * 4 = 24, until one number is left: the target."
    )


class _Environment:
    """Base class of the environments. rules: the verifier's, used without answer tags. ask: function that renders the
    question, which `reset` returns and TRL appends to the last message of the row's prompt."""

    def __init__(self, rules: Rules, ask: Callable[[Problem], str]) -> None:
        self._rules, self._ask = replace(rules, answer_format="bare"), ask
        self._problem: Problem | None = None
        self._verdict: Verdict | None = None

    def reset(self, **row: Any) -> str:
        """Return the question of a row with `numbers` (or `nums`) and `target`. Raises DataError for another row."""
        self._problem, self._verdict = problem_from_row(row), None
        self._state = list(self._problem.numbers)
        return self._ask(self._problem)

    def get_reward(self) -> float:
        """Return the verifier's score of the answer, or the rules' `score_invalid` if there is no verdict."""
        return float(self._rules.score_invalid if self._verdict is None else self._verdict.score)

    def _asked(self) -> Problem:
        if self._problem is None:
            raise RuntimeError("`reset` comes first: it says what the problem is.")
        return self._problem


class CountdownEnvironment(_Environment):
    """Environment for answers as one expression, given by the tool `submit`; only the first call counts."""

    def __init__(self, rules: Rules = DEFAULT_RULES, ask: Callable[[Problem], str] = asked_to_submit) -> None:
        super().__init__(rules, ask)

    def submit(self, expression: str) -> str:
        """
        Submit the expression that makes the target. Only the first one counts.

        Args:
            expression: The expression, such as (1 + 2) / 3.

        Returns:
            The verdict, such as "correct" or "wrong_value", and the value of the expression.
        """
        if self._verdict is not None:
            return OVER
        self._verdict = verify(str(expression), self._asked(), self._rules)
        worth = "" if self._verdict.value is None else f", {self._verdict.value}"
        return f"{self._verdict.reason}{worth}"


class CountdownMovesEnvironment(_Environment):
    """Environment for answers in moves, each a call of the tool `move`; an illegal move ends the game. value_high:
    largest result of a move."""

    def __init__(
        self,
        rules: Rules = DEFAULT_RULES,
        ask: Callable[[Problem], str] = asked_to_move,
        value_high: int = VALUE_HIGH,
    ) -> None:
        super().__init__(rules, ask)
        self._value_high = value_high

    def move(self, move: str) -> str:
        """
        Make one move: an operation on two of the numbers that are left. An illegal move ends the game.

        Args:
            move: The move, such as 6 * 4 = 24.

        Returns:
            The numbers that are left, or how the game ended.
        """
        if self._verdict is not None:
            return OVER
        target = self._asked().target
        state = play(str(move), self._state, target, self._rules, self._value_high)
        if isinstance(state, Verdict):
            self._verdict = state
            return str(state.reason)
        self._state = state
        return f"Numbers left: {', '.join(map(str, state))}. Target: {target}."
