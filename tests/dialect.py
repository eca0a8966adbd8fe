"""Finds and fixes two rules of C in docs/contributing.md: sizeof, and the blank line after declarations.

	dialect.py --fix FILE...            fixes the files; `make report` prints the places

Each run first checks itself with examples. It must report every wrong example and leave every right example unchanged.
"""

import pathlib
import re
import sys

NOT_A_TYPE = {"return", "goto", "else", "case", "default", "break", "continue", "do", "sizeof", "if", "while", "for", "switch", "typedef", "asm"}
QUALIFIERS = r"(?:(?:static|const|volatile|register|_Thread_local|_Alignas\([^)]*\)|unsigned|signed|extern)\s+)*"
DECLARATION = re.compile(rf"\s*{QUALIFIERS}(?:(?:struct|union|enum)\s+)?(\w+)(?:\s+const)?(?:\s+|\s*\*[\s*]*(?:const\s+|restrict\s+)*)\(?\**(\w+)")
INTEGER = r"(?:unsigned |signed )?(?:char|short|int|long(?: long)?)|unsigned|signed"
TYPE = re.compile(rf"^(?:const\s+)?(?:(?:struct|union|enum)\s+\w+|{INTEGER}|float|double|bool|void|\w+_t|json_object|FILE|DIR)"
                  r"(?:\s+(?:const|int|long))*[\s*]*(?:const\s*)?(?:\[[^\]]*\])?$")
# Operands that need no parentheses after sizeof. `a + b` and a cast need them.
UNARY = re.compile(r"^[*&]*(?:\w+|\"[^\"]*\")(?:\.\w+|->\w+|\[[^\[\]]*\])*$")
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|.|\n', re.S)


def blanked(text):
    """Blanks out comments, strings and characters, so that only the code's own brackets and semicolons remain."""
    out = []
    for token in TOKEN.findall(text):
        if token.startswith(("/*", "//")):
            out.append(re.sub(r"[^\n]", " ", token))
        else:
            out.append(token[0] + "_" * (len(token) - 2) + token[0] if len(token) > 1 else token)
    return "".join(out)


def is_declaration(line):
    found = DECLARATION.match(line)
    return found and found[1] not in NOT_A_TYPE and not found[1].isdigit() and found[2] != "const"


def opens_statements(line):
    """True if the line opens a block of statements. False if it opens the members of a type or an initialiser."""
    return (re.search(r"(?:\)|else|do|^|case .*:|default:)\s*\{\s*$", line) and not re.search(r"[=(,]\s*\{\s*$", line)
            and not re.match(r"\s*(?:struct|union|enum)\b[^()]*\{\s*$", line))


def after(code, at):
    """Returns the number of the line after the statement that begins in line `at`."""
    depth = 0
    for number in range(at, len(code)):
        depth += sum((c in "([{") - (c in ")]}") for c in code[number])
        if depth <= 0 and code[number].rstrip().endswith(";"):
            return number + 1
    return len(code)


def without_blank(lines, code):
    """Returns the lines with a missing blank line before them: statements that directly follow the declarations of a block."""
    missing = []
    for opening, line in enumerate(code):
        if not opens_statements(line):
            continue
        at, end = opening + 1, None
        while True:
            while at < len(code) and lines[at] != "" and not code[at].strip():
                at += 1  # a comment before a declaration
            if at >= len(code) or not is_declaration(code[at]):
                break
            at = end = after(code, at)
        if end is not None and end < len(lines) and lines[end] != "" and not re.match(r"\s*[}#]", lines[end]):
            missing.append(end)
    return missing


def parenthesised(text, code):
    """Yields (begin, end, operand) for each sizeof whose operand is an expression in parentheses."""
    for found in re.finditer(r"\bsizeof\s*\(", code):
        if text[text.rfind("\n", 0, found.start()) + 1:].lstrip().startswith("#"):
            continue  # a parameter of a macro must keep its parentheses
        depth, end = 1, found.end()
        while depth:
            depth += (code[end] == "(") - (code[end] == ")")
            end += 1
        operand = text[found.end():end - 1]
        if not TYPE.match(operand) and UNARY.match(operand) and code[end] not in "[.":
            yield found.start(), end, operand


def findings(text):
    """Returns [(line, problem)] for a file."""
    code = blanked(text)
    found = [(text.count("\n", 0, begin) + 1, f"sizeof({operand}): write sizeof {operand}") for begin, _, operand in parenthesised(text, code)]
    found += [(line + 1, "no blank line after the declarations that open the block") for line in without_blank(text.split("\n"), code.split("\n"))]
    return sorted(found)


def fixed(text):
    out, at = [], 0
    for begin, end, operand in parenthesised(text, blanked(text)):
        out += [text[at:begin], "sizeof ", operand]
        at = end
    text = "".join(out) + text[at:]
    lines = text.split("\n")
    missing = set(without_blank(lines, blanked(text).split("\n")))
    return "\n".join("\n" + line if number in missing else line for number, line in enumerate(lines))


WRONG = """\
void
f(struct s *p, char *q)
{
	int n = g();
	h(sizeof(n), sizeof(*p), sizeof(p->name[0]));
	for (;;) {
		/* a comment */
		static const struct t table[] = {
			{ .a = 1 },
		};
		json_object *o;
		/* another */
		h(n);
	}
}
"""
RIGHT = """\
struct s {
	int n;
	struct {
		int m;
	};
};

int
f(struct s *p)
{
	int n = sizeof(struct s) + sizeof(uint8_t) + sizeof(void *) + sizeof *p + sizeof(n + 1);

	h("sizeof(p)"); /* sizeof(p) */
	if (n) {
		return n;
	}
	for (;;) {
		int only;
	}
	static const struct s list[] = {
		{ 1 },
	};
}
"""


def check_itself():
    assert [line for line, _ in findings(WRONG)] == [5, 5, 5, 5, 12], findings(WRONG)
    assert findings(RIGHT) == [], findings(RIGHT)
    assert findings(fixed(WRONG)) == [] and fixed(RIGHT) == RIGHT
    assert fixed(WRONG).count("\n") == WRONG.count("\n") + 2


if __name__ == "__main__":
    if sys.argv[1:2] != ["--fix"]:
        sys.exit(__doc__)
    check_itself()
    for source in map(pathlib.Path, sys.argv[2:]):
        before = source.read_text()
        if fixed(before) != before:
            source.write_text(fixed(before))
