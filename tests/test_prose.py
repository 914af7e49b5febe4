# Tests: docs/glossary.md
"""No text is cut by a wrapper, and no banned phrase grows; `python tests/test_prose.py` counts them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "benchmarks", "examples", "studies", "tests", "tools")
SOURCES = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.py"))]

# Phrase -> plainer words, a hint for the reader of a failure. "there is no" and "stands for" are fine.
BANNED = {
    r"for the sake of": "for",
    r"by lot": "at random",
    r"whoever": "the user, the process, ...",
    r"of (?:one's|its|their) own": "separate, own",
    r"anew": "again",
    r"for nothing": "provided, free",
    r"(?:stands?|stood|standing)(?! for)": "is, is listed, is written",
    r"(?:go|goes|going|went) back": "roll back, return",
    r"asked for": "requested",
    r"(?:in|is|with|to|are) one sentence": "a clear error",
    r"made good": "repaired, restored",
    r"(?<!there )(?:is|are|was|were) no (?!longer|more|less|fewer|worse|better|wider)\w+": "is not a",
    r"what (?:is|are|was|were|has|had|comes|lies|lasts|counts|differs)": "a noun",
    r"(?<=, )for (?:it|they|nobody|there|otherwise)": "because",
    r"befell": "an uninterrupted run",
    r"fault with": "reports",
}
# An edited page holds none of them. On the other pages, and in the texts of src/, the number may only fall.
ALLOWED = {
    "README.md": 2,
    "docs/critic_game.md": 1,
    "docs/gallery.md": 2,  # the title of a chart
    "docs/pools.md": 2,
    "docs/results": 6,
    "docs/sgs.md": 1,
    "docs/symbolic.md": 1,
    "src": 34,
}


def docstring_wounds(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Of every text that is a statement of its own: docstrings, and the strings under fields."""
    alone = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    for text in (value for value in alone if isinstance(value, ast.Constant)):
        rows = str(text.value).splitlines()
        for i, (row, after) in enumerate(zip(rows, [*rows[1:], ""], strict=True)):
            heads = i > 0 and len(re.match(" *", after)[0]) > len(re.match(" *", row)[0])  # such as "Args:"
            if 1 <= len(row.split()) <= 2 and after.strip() and not heads:
                yield text.lineno + i, "a line of one or two words inside a paragraph"
            if row.rstrip().endswith('"') and "\n".join(rows[: i + 1]).count('"') % 2:
                yield text.lineno + i, "a quote that closes nothing"


def message_wounds(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Of implicit concatenations, which ruff formats as a piece a line; one that ends in a line break is whole."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for text in ast.walk(tree):
        if not isinstance(text, ast.Constant | ast.JoinedStr) or id(text) in inner:
            continue
        if re.match("[rf]*(\"{3}|'{3})", lines[text.lineno - 1][text.col_offset :]):
            continue
        for number in range(text.lineno, text.end_lineno):
            row = lines[number - 1]
            piece = row.endswith((' "', " '")) and re.search(r"""(["'])((?:(?!\1).)* )\1$""", row)
            if piece and len(piece[2].split()) <= 2:
                yield number, "a piece of one or two words in a message"


def wounds(source: str) -> list[tuple[int, str]]:
    tree = ast.parse(source)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline) if "# --" in source else ()
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    cut = [token.start[0] for token in comments if re.match("# --(?!.*[^-] -{3})", token.string)]
    rules = [(line, "a section rule that is not `# -- title ---` on one line") for line in cut]
    return sorted({*docstring_wounds(tree), *message_wounds(tree, source.splitlines()), *rules})


def test_no_sentence_message_or_rule_is_cut():
    found = {path: wounds(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert not [f"{path.relative_to(ROOT)}:{line}: {what}" for path in SOURCES for line, what in found[path]]


def spoken(path: Path) -> str:
    """The prose of a page without its code, or the texts of a module without its docstrings, on one line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = re.sub(r"^```.*?^```$|`[^`]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    else:
        tree = ast.parse(text)
        silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in silent)
        text = "\n".join(node.value for node in texts if isinstance(node.value, str))
    return re.sub(r"\s+", " ", text)


def banned(path: Path) -> dict[str, int]:
    """Phrase -> how often it is in the file, without those that are not."""
    text = spoken(path)
    counts = {phrase: len(re.findall(rf"(?<![\w-]){phrase}(?![\w-])", text, re.IGNORECASE)) for phrase in BANNED}
    return {phrase: count for phrase, count in counts.items() if count}


def readable() -> list[Path]:
    """README and pages; modules with messages and help texts."""
    pages = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages += sorted((ROOT / "skills").rglob("*.md"))
    return [*pages, *sorted((ROOT / "src").rglob("*.py"))]


def counted() -> dict[str, dict[str, int]]:
    """Page, "docs/results" for all pages of results, or "src" for all modules -> phrase -> count."""
    found: dict[str, dict[str, int]] = {}
    for path in readable():
        name = str(path.relative_to(ROOT))
        name = next((group for group in ("src", "docs/results") if name.startswith(group)), name)
        for phrase, count in banned(path).items():
            found.setdefault(name, {}).setdefault(phrase, 0)
            found[name][phrase] += count
    return found


def test_banned_phrases_are_not_on_edited_pages_and_grow_nowhere():
    found = counted()
    over = {name: counts for name, counts in found.items() if sum(counts.values()) > ALLOWED.get(name, 0)}
    assert not over, "BANNED has plainer words; `python tests/test_prose.py` prints all counts"


if __name__ == "__main__":
    found = counted()
    for name, counts in found.items():
        print(f"{sum(counts.values()):4d}  {name}")
    for phrase in BANNED:
        print(f"{sum(counts.get(phrase, 0) for counts in found.values()):4d}  {phrase}")
