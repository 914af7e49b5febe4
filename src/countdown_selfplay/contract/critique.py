"""Prompts of the Critic-Discernment Game (Wang et al. 2025) for any question in text."""

from __future__ import annotations

from collections.abc import Sequence

Message = dict[str, str]

MARKER = "The first mistake can be found in:"
"""Start of the part of a critique that the prover sees (section 3.1; figure 6)."""
SENTENCE = "This critic is not critical."
NOT_CRITICAL = f"\\boxed{{{SENTENCE}}}"
"""Phrase by which a reply rejects a critique (figure 7, appendix B)."""


def critique_prompt(question: str, answer: str) -> list[Message]:
    """Build the prompt of figure 6 as one user turn. The helpful and the misleading critic are both told that the
    answer is wrong. The authors' code makes the first sentence a system message, and puts blank lines before "[Wrong
    Answer]", "Please review" and "After"."""
    return _user(
        "Please critic the answer carefully.\nYour task is to evaluate a question-answer pair.\n"
        "Carefully review the question and critically assess a wrong answer.\n"
        f"[Question]\n```\n{question}\n```\n[Wrong Answer]\n```\n{answer}\n```\n"
        "Please review the wrong answer step by step, quoting each sentence and analyzing it individually. "
        "Use the following format for your response:\n"
        "Step: [Quoted Sentence]\nAnalysis: [Your Explanation]\n"
        "Step: [Quoted Sentence]\nAnalysis: [Your Explanation]\n"
        "After step-by-step analysis, conclude by quoting the original sentence which **first** causes the wrong "
        "answer and providing a concise yet complete explanation of the error:\n"
        f"\"**Critic** {MARKER} 'Quoted wrong statement here.' The issue is: 'Explanation of the mistake here.'\""
    )


def _user(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def read_marked(text: str) -> str | None:
    """Return the part of a critique from MARKER on; None if MARKER is absent, repeated, or not followed by text."""
    _, marker, after = text.partition(MARKER)
    if not marker or MARKER in after or not after.strip():
        return None
    return (marker + after).strip()


def revise_prompt(question: list[Message], answer: str, critique: str, answer_in: str = "\\boxed{}") -> list[Message]:
    """Build the prompt of figure 7: the question, the answer and the critique. `answer_in`: format in which to give a
    revised answer. The authors' code breaks the line before the critique."""
    request = (
        f'Please check with this critic. "{critique}"\n'
        "Evaluate whether this critic is valid. Keep in mind that this critic might be misleading or irrelevant.\n"
        f'If you find the critic incorrect, conclude with: "{NOT_CRITICAL}"\n'
        "If you determine the critic to be valid, revise starting from the incorrect step, and present your revised "
        f"answer within {answer_in}."
    )
    return [*question, {"role": "assistant", "content": answer}, *_user(request)]


RIGHT_STEP, WRONG_STEP = "\\boxed{right}", "\\boxed{wrong}"
"""Conclusions of a reply to `step_prompt`."""


def step_prompt(question: str, answer: str, step: str) -> list[Message]:
    """Build a prompt that asks whether a step is right. The wording is new: the authors' figure 9 repeats figure 5."""
    return _user(
        "Please examine one step of a solution carefully.\n"
        f"[Question]\n{question}\n[Solution]\n```\n{answer}\n```\n[Step]\n```\n{step}\n```\n"
        f'If this step contains an error, conclude with: "{WRONG_STEP}"\n'
        f'If this step is right, conclude with: "{RIGHT_STEP}"'
    )


def reads_wrong(text: str) -> bool | None:
    """Return whether the last box of a reply to `step_prompt` says "wrong", or None without a box."""
    right, wrong = (str(text).rfind(word) for word in (RIGHT_STEP, WRONG_STEP))
    return None if right == wrong else wrong > right


def first_error_prompt(question: str, steps: Sequence[str]) -> list[Message]:
    """Build the prompt of figure 8, which asks for the number of the first wrong step; steps are numbered from 1."""
    solution = "\n\n".join(f"Step {number}: {step}" for number, step in enumerate(steps, start=1))
    return _user(
        f"Question:\n{question}\nWrong Response:\n{solution}\nIdentify the first step that contains an error. "
        "Please provide the step number in the format: Step \\boxed{X}"
    )


def recheck_prompt(question: list[Message], answer: str, answer_in: str = "\\boxed{}") -> list[Message]:
    """Build the prompt of figure 10, which asks the prover to check its answer again, without a critique."""
    request = f"Please check your answer step by step again. Put your final answer within {answer_in}."
    return [*question, {"role": "assistant", "content": answer}, *_user(request)]
