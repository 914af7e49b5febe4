"""Propositional logic by condensed detachment: formulas, an exact checker of proofs, all theorems by proof length.

Proofs are texts over D, 1, 2 and 3, as in Metamath's pmproofs (C. A. Meredith's notation): `Dxy` detaches the theorem
of y from that of x. Pure and without dependencies; `domain: detachment` plays it."""

from pathlib import Path

from .checker import Verdict, check, conclusion
from .formulas import Formula, is_instance, is_tautology, read
from .theorems import most_general, shortest_proof

DETACHMENT_PATHS: dict[str, Path] = {
    role: Path(__file__).parent / "weights" / role for role in ("prover", "conjecturer")
}
"""Folders of the two embedded models of this domain, whose tokenizer has one token per symbol."""

__all__ = [
    "DETACHMENT_PATHS", "Formula", "Verdict", "check", "conclusion", "is_instance", "is_tautology", "most_general",
    "read", "shortest_proof",
]  # fmt: skip
