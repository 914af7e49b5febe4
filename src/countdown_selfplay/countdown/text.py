"""From whatever a model returned to the text of its answers. Linear in the length of the text: `find`, never a
regex."""

from __future__ import annotations

OPEN, CLOSE = "<answer>", "</answer>"
THINK, END_THINK = "<think>", "</think>"


def completion_text(completion: object) -> str | None:
    """The text of a completion: a string, or the content of the last assistant message of a chat. A message's content
    may be a string or a list of parts with a "text" each. None for everything else (None, bytes, a tool call without
    content, an empty chat). Never raises."""
    if type(completion) is str:
        return completion
    if isinstance(completion, str):
        return str.__str__(completion)  # a subclass could have any `find` of its own
    if isinstance(completion, dict):
        completion = [completion]
    if not isinstance(completion, list | tuple):
        return None
    for message in list.__reversed__(list(completion)):
        if isinstance(message, dict) and dict.get(message, "role", "assistant") == "assistant":
            return _content_text(dict.get(message, "content"))
    return None


def _content_text(content: object) -> str | None:
    if isinstance(content, str):
        return str.__str__(content)
    if not isinstance(content, list | tuple):
        return None
    parts = [dict.get(part, "text") for part in content if isinstance(part, dict)]
    texts = [str.__str__(part) for part in parts if isinstance(part, str)]
    return "".join(texts) if texts else None


def outside_thinking(text: str) -> list[str]:
    """The stretches of `text` that are not thinking, in order. Thinking runs from `<think>` to the next `</think>`, or
    to the end if there is none. A first `</think>` without an opening closes the thinking that a prompt began (the
    `tinyzero` prompt ends in `<think>`)."""
    first_close = text.find(END_THINK)
    if first_close < 0:
        opened = text.find(THINK)
        return [text] if opened < 0 else [text[:opened]]
    opened = text.find(THINK, 0, first_close)
    stretches = [text[:opened]] if opened > 0 else []
    start = first_close + len(END_THINK)
    while (begin := text.find(THINK, start)) >= 0:
        stretches.append(text[start:begin])
        end = text.find(END_THINK, begin)
        if end < 0:
            return stretches
        start = end + len(END_THINK)
    stretches.append(text[start:])
    return stretches


def only_answer(text: str) -> str | None:
    """The answer of a text that holds no tags but those of one answer and, before it, of one stretch of thinking.
    Nearly every response is such a text. None for every other: what it holds is for the two functions above and below
    to say. Looks for single characters, several times faster than for whole tags."""
    close = text.rfind("<")
    begin = text.rfind("<", 0, close) if close > 0 else -1
    if begin < 0 or not text.startswith(CLOSE, close) or not text.startswith(OPEN, begin):
        return None
    before = text.rfind("<", 0, begin)
    if before >= 0:
        if not text.startswith(END_THINK, before):
            return None
        first = text.find("<", 0, before)
        if first >= 0 and not (text.startswith(THINK, first) and text.find("<", first + 1) == before):
            return None
    return text[begin + len(OPEN) : close]


def tagged_answers(text: str) -> list[str]:
    """The contents of all complete `<answer>` tags, in order; of nested tags the innermost, of unclosed ones none.
    Every close tag is paired with the last open tag since the previous close, so that a mention of the tag earlier in
    the text ("I will put it in <answer> tags") swallows nothing. Each character is looked at a constant number of
    times."""
    pieces = text.split(CLOSE)
    return [piece[at + len(OPEN) :] for piece in pieces[:-1] if (at := piece.rfind(OPEN)) >= 0]
