"""Docstrings, messages and section rules are wrapped by hand: the wounds that a wrapper leaves are kept out."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "benchmarks", "examples", "tests", "tools")
SOURCES = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.py"))]

WOUNDED = '''"""A sentence that is cut
short
by a wrapper, with a quote left over "
"here.

Headings:
    such as the one above, "and what is
    quoted over two lines", are whole.
"""
# -- writing
# ----------
# -- whole ----------
MESSAGE = (
    f"{ROOT}, and this piece is whole: "
    "chopped "
    "here, while these two words "
    "end a line:\\n"
    "and these the text."
)
'''


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
            piece = re.search(r"""(["'])((?:(?!\1).)* )\1$""", lines[number - 1])
            if piece and len(piece[2].split()) <= 2:
                yield number, "a piece of one or two words in a message"


def wounds(source: str) -> list[tuple[int, str]]:
    tree = ast.parse(source)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline) if "# --" in source else ()
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    cut = [token.start[0] for token in comments if re.match("# --(?!.*[^-] -{3})", token.string)]
    rules = [(line, "a section rule that is not `# -- title ---` on one line") for line in cut]
    return sorted({*docstring_wounds(tree), *message_wounds(tree, source.splitlines()), *rules})


def test_each_wound_is_found_and_what_is_whole_is_not():
    found = [(line, what.split()[1]) for line, what in wounds(WOUNDED)]
    assert found == [(2, "line"), (3, "quote"), (10, "section"), (11, "section"), (15, "piece")]


def test_no_sentence_message_or_rule_is_cut():
    found = {path: wounds(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert not [f"{path.relative_to(ROOT)}:{line}: {what}" for path in SOURCES for line, what in found[path]]
