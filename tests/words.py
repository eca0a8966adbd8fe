"""Refuses words that the project's texts do not use. tests/words.txt lists these words, each with its replacement. Exit status 1: a file
contains such a word.

words.py FILE...
"""

import re
import sys
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


def main(paths):
    words, bad = refused(), False
    for path in paths:
        for line, phrase in findings(Path(path).read_text(encoding="utf-8"), words):
            print(f'{path}:{line}: "{phrase}": write: {words[phrase]}')
            bad = True
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
