"""Prompts of the two roles: `compact`, one token per symbol for small models, and `chat`, in words."""

from ...contract.domain import Row
from .checker import AXIOM_TEXTS
from .formulas import Formula

STYLES = ("compact", "chat")

_NOTATION = (
    "Formulas of propositional logic are written in Polish notation: CAB is the implication from A to B, NA is the "
    "negation of A, and p, q, r, ... are variables."
)
_PROOFS = (
    "The axioms are "
    + ", ".join(f"{sign} = {text}" for sign, text in AXIOM_TEXTS.items())
    + ". A proof is one of these digits, or D followed by two proofs: Dxy is condensed detachment (modus ponens with "
    "the most general substitution), where x proves an implication and y its premise. DD211 proves Cpp."
)
_THEOREM = (
    "Its main result must be a tautology of at most {symbols} signs. It should be interesting: neither an instance of "
    "an axiom nor longer than it needs to be."
)
_HELPFUL = (
    "It should be possible to use the theorem to help prove the above theorem. The theorem should be simpler to prove "
    "than the target theorem. It should NOT be identical to the target theorem. It should NOT be equivalent through "
    "renaming its variables."
)
"""SGS 2026, appendix E.1, for theorems of this logic."""


def prove(theorem: Formula, style: str) -> Row:
    text = str(theorem)
    if style == "compact":
        return {"prompt": f"{text}:", "theorem": text}
    question = f"{_NOTATION} {_PROOFS}\nWrite a proof of {text} between answer tags: <answer>DD211</answer>"
    return {"prompt": _chat(question), "theorem": text}


def propose(target: Formula | None, style: str, symbols: int) -> Row:
    """Return a row that requests a theorem, or one that helps with `target`."""
    if style == "compact":
        return {"prompt": "?" if target is None else f"{target}?"}
    wanted = _THEOREM.format(symbols=symbols)
    question = f"{_NOTATION} {_PROOFS}\n"
    if target is None:
        question += f"Please write a theorem. {wanted}"
    else:
        question += (
            f"Here is a theorem: {target}\nPlease write a lemma or a related theorem that is useful for proving the "
            f"above theorem. {wanted} {_HELPFUL}"
        )
    return {
        "prompt": _chat(
            f"{question}\nWrite the formula alone, without a proof, between answer tags: <answer>Cpp</answer>"
        )
    }


def _chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]
