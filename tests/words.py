"""Finds words that the project's texts do not use. tests/words.txt lists these words, each with its replacement."""

import re
from pathlib import Path

LIST = Path(__file__).with_name("words.txt")
# The separator between two words of a phrase: blanks, or a line break with the comment marks of C, Python, roff and Markdown.
BETWEEN = r"(?:[ \t]|\n[ \t]*(?:\*|//|#+|>|\.\\\")?[ \t]*)+"


def refused():
    """{phrase: replacement}"""
    lines = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def findings(text, words):
    """(line, phrase) of each refused phrase, in the order of the text."""
    phrases = "|".join(BETWEEN.join(map(re.escape, w.split())) for w in sorted(words, key=len, reverse=True))
    for found in re.finditer(rf"(?<![\w-])(?:{phrases})(?![\w-])", text, re.I):
        yield text.count("\n", 0, found.start()) + 1, re.sub(BETWEEN, " ", found[0]).lower()
