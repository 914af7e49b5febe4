"""`domain: detachment`: problems are theorems of propositional logic, answers are proofs by condensed detachment."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from itertools import chain, zip_longest
from typing import Any

from ...contract.domain import BaseDomain, Checked, Row
from ...contract.game import Proposal
from ...countdown.problem import heldout_key
from ...countdown.verifier import completion_text, tagged_answers
from ...errors import ConfigError, DataError
from ...options import is_whole
from .checker import AXIOM_TEXTS, Verdict, check
from .formulas import MOST_SYMBOLS, MOST_VARIABLES, Formula, is_instance, is_tautology, read
from .guide import DetachmentHelping
from .theorems import LONGEST, hardest_at, matches, simplest, tree_of

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
_PROOF, _FORMULA = "DD211", "CpCqp"


@dataclass(frozen=True)
class DetachmentDomain(BaseDomain[Formula]):
    """Domain of theorems whose shortest proofs have `shortest_proof` to `longest_proof` symbols, and of proposals with
    any proof. Rungs are lengths of shortest proofs, exact up to 15 symbols (theorems.py); longer ones are of the rung
    `longest_proof` + 2. Training excludes instances of held-out theorems, and theorems with a held-out instance
    (`held_out_theorems`), so that no proof of one side proves a problem of the other.

    prompt: one of STYLES. symbols, variables: largest numbers of a theorem."""

    shortest_proof: int = 5
    longest_proof: int = 15
    symbols: int = 24
    variables: int = 6
    prompt: str = "compact"

    columns = ("theorem",)
    facts = ("in_range", "solvable")
    asks = ({},)

    def __post_init__(self) -> None:
        numbers = {"shortest_proof": (1, LONGEST), "longest_proof": (1, LONGEST), "symbols": (3, MOST_SYMBOLS)}
        for name, (low, high) in (numbers | {"variables": (1, MOST_VARIABLES)}).items():
            value = getattr(self, name)
            if not is_whole(value) or not low <= value <= high:
                raise ConfigError(f"`{name}` ({value}) of detachment must be a whole number from {low} to {high}.")
        if self.shortest_proof % 2 == 0 or self.longest_proof % 2 == 0 or self.shortest_proof > self.longest_proof:
            raise ConfigError(
                f"`shortest_proof` ({self.shortest_proof}) and `longest_proof` ({self.longest_proof}) of detachment "
                "are lengths of proofs, which are odd, the first not above the second; set them to 5 and 15, say."
            )
        if self.prompt not in STYLES:
            raise ConfigError(f"`prompt` ({self.prompt}) of detachment must be one of {', '.join(STYLES)}.")
        if not any(_playable(self, rung) for rung in self.rungs):
            raise ConfigError(
                f"No theorem with a shortest proof of {self.shortest_proof} to {self.longest_proof} signs has at most "
                f"{self.symbols} signs and {self.variables} variables; raise `symbols` or `variables`."
            )

    def problem(self, row: Mapping[str, Any], index: int = 0) -> Formula:
        given = read(row.get("theorem"))
        if given.problem is None:
            raise DataError(
                f"row {index}, column 'theorem': {str(row.get('theorem'))[:60]!r} is not a formula ({given.reason}); "
                "write one in Polish notation, such as CpCqp."
            )
        return given.problem

    def key(self, problem: Formula) -> str:
        """Return Polish notation with its variables in the order p, q, r, ..."""
        return str(problem)

    def prove_row(self, problem: Formula) -> Row:
        text = str(problem)
        asked = f"{_NOTATION} {_PROOFS}\nWrite a proof of {text} between answer tags: <answer>DD211</answer>"
        return {"prompt": f"{text}:" if self.prompt == "compact" else _chat(asked), "theorem": text}

    def verify(self, texts: Sequence[str], problems: Sequence[Formula]) -> list[Verdict]:
        return [check(self._written(text), problem) for text, problem in zip(texts, problems, strict=True)]

    def propose_row(self, target: Formula | None = None) -> Row:
        """Return a row that requests a theorem, with `target` one that helps to prove it."""
        if self.prompt == "compact":
            return {"prompt": "?" if target is None else f"{target}?"}
        wanted = _THEOREM.format(symbols=self.symbols)
        if target is None:
            asked = f"Please write a theorem. {wanted}"
        else:
            asked = (
                f"Here is a theorem: {target}\nPlease write a lemma or a related theorem that is useful for proving "
                f"the above theorem. {wanted} {_HELPFUL}"
            )
        form = "Write the formula alone, without a proof, between answer tags: <answer>Cpp</answer>"
        return {"prompt": _chat(f"{_NOTATION} {_PROOFS}\n{asked}\n{form}")}

    def parse(self, texts: Sequence[object]) -> list[Proposal]:
        return [read(self._written(text)) for text in texts]

    def _written(self, text: object) -> str:
        """Return the content of a completion: all of it, in a chat its last answer between tags."""
        content = completion_text(text) or ""
        return content if self.prompt == "compact" else (tagged_answers(content) or [""])[-1]

    def check(
        self, problems: Sequence[Formula], requests: Sequence[Mapping[str, Any] | None] | None = None
    ) -> list[Checked]:
        """Check size, provability (by truth table, because the axioms are complete), and that the theorem is not held
        out: an instance of a held-out theorem has another key and the same proof."""
        checks = []
        for problem in problems:
            inside = self.outside(problem) is None
            provable = inside and is_tautology(problem) is True
            reason = "unsolvable" if inside else "out_of_range"
            if provable:
                reason = "held_out" if self.is_held_out(problem) else "ok"
            checks.append(Checked(reason, {"in_range": inside, "solvable": provable}))
        return checks

    def outside(self, problem: Formula) -> str | None:
        if problem.symbols > self.symbols:
            return f"it has {problem.symbols} signs, more than `symbols` ({self.symbols})"
        if problem.variables > self.variables:
            return f"it has {problem.variables} variables, more than `variables` ({self.variables})"
        return None

    @property
    def rungs(self) -> tuple[int, ...]:
        return tuple(range(self.shortest_proof, self.longest_proof + 1, 2))

    def rung(self, problem: Formula) -> int:
        """Return the length of its shortest proof; `longest_proof` + 2 if it is longer."""
        proof = simplest(problem, self.longest_proof)
        return self.longest_proof + 2 if proof is None else len(proof[1])

    def axes(self, problem: Formula) -> dict[str, Any]:
        """The length of its shortest proof, and how many signs it has, in bands of four."""
        least = (len(str(problem)) - 1) // 4 * 4 + 1
        return {"rung": self.rung(problem), "signs": f"{least}-{least + 3}"}

    def is_held_out(self, problem: Formula) -> bool:
        return of_held_out_side(problem) or related_to_held_out(problem)

    def random(self, n: int, seed: int, exclude: Iterable[str] = ()) -> list[Formula]:
        """Return theorems of all rungs in proportion to their numbers."""
        return self._made(n, self.rungs, False, seed, exclude)

    def random_of_rung(self, n: int, rung: int, seed: int, exclude: Iterable[str] = ()) -> list[Formula]:
        return self._made(n, (rung,), False, seed, exclude)

    def held_out(self, n: int) -> list[Formula]:
        return self._made(n, self.rungs, True, 0, ())

    def held_out_of_rung(self, n: int, rung: int) -> list[Formula]:
        return self._made(n, (rung,), True, 0, ())

    def _made(self, n: int, rungs: Sequence[int], held_out: bool, seed: int, exclude: Iterable[str]) -> list[Formula]:
        """Return at most n theorems of one side, taken from the rungs in turn."""
        excluded, of_rung = frozenset(exclude), []
        for rung in rungs:
            left = [f for f in _playable(self, rung) if str(f) not in excluded]
            left = [f for f in left if (f in held_out_theorems() if held_out else not of_held_out_side(f))]
            random.Random(f"detachment|{seed}|{rung}").shuffle(left)
            of_rung.append(left)
        return [f for f in chain.from_iterable(zip_longest(*of_rung)) if f is not None][:n]

    @cached_property
    def longest(self) -> Formula:
        negations = "N" * ((self.symbols - 3) // 2)
        return read(f"C{negations}p{negations}p").problem

    @property
    def helping(self) -> DetachmentHelping:
        return DetachmentHelping()

    def stop_strings(self, role: str) -> list[str] | None:
        return None if self.prompt == "compact" else ["</answer>"]

    def cut_by(self, role: str, stops: Sequence[str]) -> str | None:
        bare = _PROOF if role.split("/")[0] == "prover" else _FORMULA
        text = bare if self.prompt == "compact" else f"<answer>{bare}</answer>"
        ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
        return None if self._written(text[: min(ends, default=len(text))]) == bare else text

    def to_dict(self) -> dict[str, Any]:
        return {"domain": "detachment", "axioms": AXIOM_TEXTS, **asdict(self)}


@cache
def of_held_out_side(problem: Formula) -> bool:
    """Return whether a theorem is held out, by a hash of the most general theorem that its shortest proof concludes,
    or of itself without a short proof."""
    proof = simplest(problem, LONGEST)
    return heldout_key(f"detachment{problem if proof is None else proof[0]}")


@cache
def held_out_theorems() -> dict[Formula, str]:
    """Return the held-out theorems that share no proof with a training theorem, in either direction. The others are
    neither measured nor trained on."""
    every = {f: proof for length in range(1, LONGEST + 1, 2) for f, proof in hardest_at(length).items()}
    tree, shared = tree_of(every), set[Formula]()
    for formula in every:
        for general, _ in matches(tree, formula):
            if of_held_out_side(formula) != of_held_out_side(general):
                shared |= {formula, general}
    return {f: proof for f, proof in every.items() if of_held_out_side(f) and f not in shared}


@cache
def _held_out_tree() -> dict[Any, Any]:
    return tree_of(held_out_theorems())


@cache
def related_to_held_out(problem: Formula) -> bool:
    """Return whether it is an instance of a held-out theorem, or has one. A theorem with a short proof and a held-out
    instance is held out, as is the one that its proof concludes."""
    if next(matches(_held_out_tree(), problem), None) is not None:
        return True
    return simplest(problem) is None and any(is_instance(held_out, problem) for held_out in held_out_theorems())


@cache
def _playable(domain: DetachmentDomain, rung: int) -> list[Formula]:
    """Return the theorems of a rung within the domain's sizes, in the order of their texts."""
    return sorted((f for f in hardest_at(rung) if domain.outside(f) is None), key=str)


def _chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]
