"""Prompts of self-guided self-play (SGS 2026, appendix E) for problems that help to solve a target and for their
reviews, with Countdown problems in place of lemmas; and helping problems from the exact solver."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..contract.domain import Helping
from ..options import is_whole
from ..registry import Registry
from . import guide
from .guide import Review, rubric_in_moves
from .moves import solving_moves
from .problem import Problem, ProblemSpec, Rules
from .prompts import COMPLETION_PREFIX, Prompt, by_style, chat, compact, problem_json, problem_tag, propose_any
from .verifier import completion_text, tagged_answers, verify

_HELPFUL = (
    "It should be possible to use the problem to help solve the above problem. "
    "The problem should be simpler to solve than the target problem. "
    "It should NOT be identical to the target problem. "
    "It should NOT be equivalent through reordering its numbers."
)
"""Text of SGS 2026, appendix E.1, adapted: the order of numbers replaces the names of variables and premises."""

_FREE = (
    "The problem should be non-trivial, but not too difficult to solve. Choose random numbers and a random target. "
    "The problem should be interesting, not just a sum of all numbers or a number with its own value as the target."
)
"""Text of SGS 2026, appendix E.2, adapted."""


_AS_JSON = (
    "Output the final problem as JSON between answer tags, the problem WITHOUT any solution: "
    '<answer>{"target": <integer>, "numbers": [<integer>, ...]}</answer>'
)


def _limits(spec: ProblemSpec) -> str:
    counts = [str(count) for count in sorted(set(spec.operands))]
    several = f"{', '.join(counts[:-1])} or {counts[-1]}" if len(counts) > 1 else counts[0]
    return (
        f"A countdown arithmetic problem has {several} positive integers from {spec.number_low} to {spec.number_high} "
        f"and a target from {spec.target_low} to {spec.target_high} that can be reached by using every number exactly "
        "once with the operations +, -, *, / and parentheses."
    )


def help_json(target: Problem | None, spec: ProblemSpec) -> Prompt:
    """Render a chat prompt that requests JSON, for a target problem (SGS 2026, appendix E.1) or without one (E.2)."""
    question = f"Please generate a countdown arithmetic problem. {_limits(spec)} {_FREE}\n"
    if target is not None:
        question = (
            f"Here is a countdown arithmetic problem:\n{problem_json(target)}\n"
            "Please generate a problem that is a step of it or a related problem and that is useful for solving the "
            f"above problem. {_limits(spec)} {_HELPFUL}\n"
        )
    return chat(f"{question}{_AS_JSON}")


def help_completion(target: Problem | None, spec: ProblemSpec) -> Prompt:
    """Render the sentences of `help_json` as raw text that ends in `<problem> numbers=[`."""
    if target is None:
        return f"{_limits(spec)} {_FREE}\n{COMPLETION_PREFIX}"
    return (
        f"{_limits(spec)} Here is such a problem, the target problem:\n{problem_tag(target)}\n"
        "Below it stands a problem that is a step of it or a related problem and that is useful for solving the above "
        f"problem. {_HELPFUL}\n{COMPLETION_PREFIX}"
    )


def help_compact(target: Problem | None, spec: ProblemSpec) -> Prompt:
    """Render the tiny model's prompt: `propose like 3 5 7 = 22 :`, and `propose like :` without a target."""
    return "propose like :" if target is None else f"propose like {compact(target)}"


def help_any(target: Problem | None, spec: ProblemSpec) -> Prompt:
    """Render `help_compact`, or without a target `propose :`, the prompt for a problem of any size."""
    return propose_any() if target is None else help_compact(target, spec)


HELP_PROMPTS: Registry[Callable[[Problem | None, ProblemSpec], Prompt]] = Registry(
    "conjecturer prompt", by_style(help_json, help_completion, help_compact, help_any)
)
"""Prompts for a problem that helps to solve a target problem (None: without a target)."""


_VARIANT = (
    "It should be a new problem that is related to the problem above or a variant of it. "
    "It should NOT be identical to the problem above, nor equivalent through reordering its numbers."
)


def variant_json(problem: Problem, solution: str, spec: ProblemSpec) -> Prompt:
    """Render a chat prompt that shows a solved problem with its solution and requests a variant of it as JSON."""
    return chat(
        f"Here is a countdown arithmetic problem:\n{problem_json(problem)}\nHere is a solution of it:\n{solution}\n"
        f"Please generate another problem. {_limits(spec)} {_VARIANT}\n{_AS_JSON}"
    )


def variant_completion(problem: Problem, solution: str, spec: ProblemSpec) -> Prompt:
    """Render the sentences of `variant_json` as raw text that ends in `<problem> numbers=[`."""
    return (
        f"{_limits(spec)} Here is such a problem, and a solution of it:\n{problem_tag(problem)}\n{solution}\n"
        f"Below it stands another problem. {_VARIANT}\n{COMPLETION_PREFIX}"
    )


def variant_compact(problem: Problem, solution: str, spec: ProblemSpec) -> Prompt:
    """Render the tiny model's prompt: `propose like 3 5 7 = 22 : 3 * 5 + 7 :`."""
    return f"propose like {compact(problem)} {solution} :"


VARIANT_PROMPTS: Registry[Callable[[Problem, str, ProblemSpec], Prompt]] = Registry(
    "conjecturer prompt", by_style(variant_json, variant_completion, variant_compact)
)
"""Prompts that show a solved problem and its solution (STP, self-play theorem proving)."""


def review_compact(target: Problem, problem: Problem) -> Prompt:
    """Render the tiny model's prompt: `score 3 5 = 15 like 3 5 7 = 22 :`, with the answer `5 0 0`."""
    return f"score {' '.join(map(str, problem.numbers))} = {problem.target} like {compact(target)}"


def review_chat(target: Problem, problem: Problem) -> Prompt:
    """Render the review prompt of SGS 2026, appendix E.3, as a chat."""
    return chat(_REVIEW.format(target=problem_json(target), problem=problem_json(problem)))


def review_raw(target: Problem, problem: Problem) -> Prompt:
    """Render the text of `review_chat` as a raw prompt, for a model without a chat template."""
    return _REVIEW.format(target=problem_json(target), problem=problem_json(problem)) + "\n"


_REVIEW = """You are a math expert. Here is a seed countdown arithmetic problem (every number is used exactly once, \
with +, -, *, / and parentheses, to reach the target):
{target}
Here is a problem that is supposed to be useful for solving the above problem. It can be useful in that either it is \
a step that can be directly used to help solve the above problem, or it is a related problem that plausibly requires \
similar techniques to solve.
{problem}
Please rate the relevance of the problem to the seed problem on a scale of 0 to 5, where 0 is "not at all related" \
and 5 is "very useful for solving the seed problem." If the problem is trivial, you should give it a low score.
Here is a rubric for how to score the problem:
- 0: The problem is not at all related to the seed problem and is trivial to solve. OR the problem is identical \
(including equivalent by reordering its numbers) to the seed problem.
- 1: The problem is not at all related to the seed problem.
- 2: The problem is related to the seed problem in that it has similar numbers or the same target, but is not \
directly useful for solving the seed problem.
- 3: The problem is related to the seed problem and may be useful for solving the seed problem.
- 4: The problem is directly useful for solving the seed problem. That is if the problem was solved, the seed \
problem would be easier to solve.
- 5: The problem is very useful for solving the seed problem, and solving the problem will dramatically reduce the \
difficulty of the original seed problem.
Next decide how redundant the numbers are. Rate this as 0 or 1:
- 0: There are no redundant numbers.
- 1: There are redundant numbers. That is numbers that are not needed to reach the target, such as two that cancel \
or a 1 that only multiplies.
Next decide if the solution is overly complex. Rate this on a score of 0 to 4:
- 0: Minimally complex. A single step that is maximally clear and easy to apply to other problems.
- 1: Low complexity. Two or three steps that form a cohesive whole.
- 2: Moderate complexity. Several steps that are all on-theme.
- 3: High complexity. Unrelated steps, or deep nesting that obscures the main idea.
- 4: Very high complexity. Many largely unrelated steps, or a deeply nested structure that is hard to parse.
Think briefly. The final thing you output should be the three scores as JSON between answer tags: \
<answer>{{"relevance": <0 to 5>, "redundancy": <0 or 1>, "complexity": <0 to 4>}}</answer>"""

REVIEW_PROMPTS: Registry[Callable[[Problem, Problem], Prompt]] = Registry(
    "conjecturer prompt", by_style(review_chat, review_raw, review_compact)
)
"""Prompts for a reviewer model, called as (target, problem)."""


def review_text(review: Review, style: str) -> str:
    """Format a review as a reviewer's answer: `5 0 0` if the prompt `style` is compact, else JSON in answer tags."""
    scores = {"relevance": review.relevance, "redundancy": review.redundancy, "complexity": review.complexity}
    bare = style.startswith("compact")
    return " ".join(map(str, scores.values())) if bare else f"<answer>{json.dumps(scores)}</answer>"


def read_review(text: object, style: str) -> Review | None:
    """Return the review in a reviewer's answer, or None for any other text or a score out of range. Never raises."""
    content = completion_text(text) or ""
    try:
        if style.startswith("compact"):
            scores = [int(word) for word in content.split()] if re.fullmatch(r"[ 0-9]{5,9}", content.strip()) else []
        else:
            review = json.loads(tagged_answers(content)[-1])
            scores = [review[name] for name in ("relevance", "redundancy", "complexity")]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    whole = len(scores) == 3 and all(map(is_whole, scores))
    fits = whole and all(0 <= n <= most for n, most in zip(scores, (5, 1, 4), strict=True))
    return Review(*scores) if fits else None


@dataclass(frozen=True)
class CountdownHelping(Helping):
    """Exact rubric, and prompts for a reviewer model. value_high: largest result of a move; None: whole answers."""

    rules: Rules
    conjecturer_prompt: str
    value_high: int | None = None

    def review(self, target: Problem, problem: Problem, solution: str | None = None) -> Review:
        """Review `problem` as a step towards `target`. solution: a prover's right answer, which is verified again."""
        if self.value_high is not None:
            moves = None if solution is None else solving_moves(solution, problem, self.rules, self.value_high)
            return rubric_in_moves(target, problem, self.value_high, moves)
        expression = None if solution is None else verify(solution, problem, self.rules).expression
        return guide.rubric(target, problem, self.rules, expression)

    def review_row(self, target: Problem, problem: Problem, solution: str | None = None) -> dict[str, Any]:
        return {"prompt": REVIEW_PROMPTS[self.conjecturer_prompt](target, problem)}

    def read_review(self, text: str) -> Review | None:
        return read_review(text, self.conjecturer_prompt)
