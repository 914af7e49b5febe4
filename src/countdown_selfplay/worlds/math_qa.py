"""Mathematical questions with verified answers: GSM8K, MATH, or any file of questions and answers (Wang et al.)."""

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from annotated_types import Gt

from ..contract import critique as paper
from ..contract.domain import BaseDomain, Critique
from ..errors import ConfigError, DataError
from ..registry import Count
from .math_answers import MAX_ANSWER, balanced, last_box, plain, reading, values_of
from .workers import Pooled, PoolVerdict, Reason, Unchecked

_SCAN = 8192  # trailing characters of a completion in which an answer is searched
_SIMPLE = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True)
class Question:
    """Problem: text and right answer."""

    text: str
    answer: str


@dataclass(frozen=True)
class MathVerdict(PoolVerdict):
    """Judgement of one completion."""

    answer: str | None = None
    """Content of the last box."""
    n_answers: int = 0

    @property
    def score(self) -> float:
        return float(self.correct)

    @property
    def vote(self) -> str | None:
        """Identity of an answer for a majority: the text of the box without redundant spaces."""
        return None if self.answer is None else plain(self.answer)


@dataclass
class MathQA(Pooled, BaseDomain[Question], Critique):
    r"""Domain of rows with `question` and `answer` (GSM8K's, where the answer follows ####), or `problem` and `answer`
    or `solution` (MATH's, in the last \boxed{}). Answers are in \boxed{}, of which the last one counts, and are
    compared by math-verify (extra `math`) in separate processes. It has no proposals: games are propose_and_solve on
    its data set, and critic_discernment.

    workers: number of processes. deadline: seconds per answer."""

    workers: Count = 2
    deadline: Annotated[float, Gt(0)] = 10.0

    columns = ("question", "problem", "answer", "solution")
    checker = "countdown_selfplay.worlds.math_check:check"

    def problem(self, row: Mapping[str, Any], index: int = 0) -> Question:
        name = next((name for name in ("question", "problem") if row.get(name)), None)
        if name is None:
            raise DataError(
                f"row {index}, column 'question': absent or empty; a row has `question` (or `problem`) and `answer`."
            )
        if not isinstance(row[name], str):
            raise DataError(f"row {index}, column '{name}': {str(row[name])[:60]} must be a text.")
        return Question(row[name].strip(), _gold(row, index))

    def key(self, problem: Question) -> str:
        """Return the question's words: equal questions have equal keys."""
        return " ".join(problem.text.split())

    def prove_row(self, problem: Question) -> dict[str, Any]:
        """Render figure 5."""
        return {"prompt": question_prompt(problem.text), "question": problem.text, "answer": problem.answer}

    def verify(self, texts: Sequence[str], problems: Sequence[Question]) -> list[MathVerdict]:
        """Return the verdicts; equal texts are compared here, the others in the pool, each pair once."""
        verdicts = [read_answer(text) for text in texts]
        pairs = {
            i: pair
            for i, problem in enumerate(problems)
            if verdicts[i].reason is Reason.WRONG and (pair := values_of(problem.answer, str(verdicts[i].answer)))
        }
        unequal = list(dict.fromkeys(pair for pair in pairs.values() if pair[0] != pair[1]))
        equal = dict(zip(unequal, self._checked([list(pair) for pair in unequal]), strict=True))
        for i, pair in pairs.items():
            one = equal.get(pair, True)
            if isinstance(one, Unchecked):
                verdicts[i] = replace(verdicts[i], reason=Reason(one.reason))
            elif one:
                verdicts[i] = replace(verdicts[i], reason=Reason.CORRECT)
        return verdicts

    def unreadable(self, problems: Sequence[Question]) -> list[int]:
        """Return the indices of problems whose answer math-verify cannot read: only the same text is right there."""
        texts = list(dict.fromkeys(p.answer for p in problems if not _SIMPLE.fullmatch(plain(p.answer))))
        readable = dict(zip(texts, self._checked([[reading(answer).text] for answer in texts]), strict=True))
        known = (True, Unchecked(Reason.BATCH_TIMED_OUT))  # unknown for these
        return [i for i, problem in enumerate(problems) if readable.get(problem.answer, True) not in known]

    def _checked(self, items: Sequence[list[str]]) -> list[Any]:
        """Return the results of math_check.check, from the pool."""
        if items and importlib.util.find_spec("math_verify") is None:
            raise ConfigError(
                "The domain 'math_qa' compares answers with math-verify, which is not installed; "
                "`pip install 'countdown-selfplay[math]'`."
            )
        return self.checked(items)

    def stop_strings(self, role: str) -> list[str] | None:
        return None

    def to_dict(self) -> dict[str, Any]:
        return {"domain": "math_qa", "checker": "math-verify", "deadline": self.deadline}

    @property
    def critique(self) -> Critique:
        return self

    def critique_row(self, problem: Question, answer: str) -> dict[str, Any]:
        """Render figure 6."""
        return self._row(problem, paper.critique_prompt(problem.text, answer))

    def read_critique(self, text: str, answer: str) -> str | None:
        """Return the critique from its only marker on (appendix A)."""
        return paper.read_marked(text)

    def revise_row(self, problem: Question, answer: str, critique: str) -> dict[str, Any]:
        """Render figure 7, whose first turn is the bare question."""
        return self._row(problem, paper.revise_prompt([{"role": "user", "content": problem.text}], answer, critique))

    def rejections(self, text: str) -> int:
        """Count the boxed sentences of figure 7."""
        return str(text).count(paper.NOT_CRITICAL)

    def hints_rejection(self, text: str) -> bool:
        """Return whether the sentence occurs, boxed or not."""
        return paper.SENTENCE in str(text)

    def steps(self, problem: Question, answer: str) -> list[str]:
        """Return the parts between blank lines (appendix A)."""
        return [part.strip() for part in re.split(r"\n\s*\n", answer) if part.strip()]

    def step_row(self, problem: Question, answer: str, step: str) -> dict[str, Any]:
        """Render a question in our wording: the paper's figure 9 repeats figure 5."""
        return self._row(problem, paper.step_prompt(problem.text, answer, step))

    def calls_wrong(self, text: str) -> bool | None:
        return paper.reads_wrong(text)

    def annotate_row(self, problem: Question, steps: Sequence[str]) -> dict[str, Any]:
        """Render figure 8: a larger model, or a person, names the first wrong step."""
        return self._row(problem, paper.first_error_prompt(problem.text, steps))

    def recheck_row(self, problem: Question, answer: str) -> dict[str, Any]:
        """Render figure 10, whose first turn is the bare question."""
        return self._row(problem, paper.recheck_prompt([{"role": "user", "content": problem.text}], answer))

    def _row(self, problem: Question, prompt: list[paper.Message]) -> dict[str, Any]:
        return self.prove_row(problem) | {"prompt": prompt}


def question_prompt(question: str) -> list[paper.Message]:
    """Render figure 5, with the dollar signs, the headings' #### and the line break before "Where" of
    the authors' data."""
    body = (
        "Solve the following math problem efficiently and clearly:\n"
        "Regardless of the approach, always conclude with: Therefore, the final answer is: $\\boxed{answer}$. "
        "I hope it is correct.\n"
        "Where [answer] is just the final number or expression that solves the problem.\n"
        f"Here is the question you need to answer:\n#### Question: {question}"
    )
    return [{"role": "user", "content": body}]


def read_answer(text: str) -> MathVerdict:
    """Return a verdict on the content of the last box; WRONG means "not yet compared"."""
    answer, count, too_long = last_box(str(text)[-_SCAN:].replace(paper.NOT_CRITICAL, ""))
    if too_long:
        return MathVerdict(Reason.TOO_LONG, n_answers=count)
    return MathVerdict(Reason.NO_ANSWER if answer is None else Reason.WRONG, answer, count)


def _gold(row: Mapping[str, Any], index: int) -> str:
    """Return the right answer in a row of one of the schemas."""
    given = row.get("answer")
    if given is None and row.get("solution") is not None:
        boxed = read_answer(str(row["solution"]))
        if boxed.answer is None:
            raise DataError(f"row {index}, column 'solution': it holds no complete \\boxed{{}} with the answer.")
        return boxed.answer
    text = "" if given is None else str(given).rpartition("####")[2].strip()
    if not text:
        raise DataError(f"row {index}, column 'answer': absent or empty; a question needs the answer that is right.")
    if len(text) > MAX_ANSWER or not re.search(r"\w", text) or not balanced(text):
        raise DataError(
            f"row {index}, column 'answer': {text[:60]!r} cannot be read as an answer; it must be a number or an "
            f"expression of at most {MAX_ANSWER} characters with balanced braces, behind #### if there is a solution."
        )
    return text
