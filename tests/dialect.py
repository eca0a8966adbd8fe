"""Checks the dialect of C in docs/contributing.md: sizeof, the blank line after declarations, and pointers compared with NULL.

	dialect.py FILE...                  prints violations; exit status 1 if there are any
	dialect.py --fix FILE...            fixes the first two kinds
	dialect.py --pointers FLAGS... -- FILE...  prints pointers used as truth values; clang-query reads FILE with FLAGS

Each run first checks itself with examples. It must report every wrong example and leave every right example unchanged.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

NOT_A_TYPE = {"return", "goto", "else", "case", "default", "break", "continue", "do", "sizeof", "if", "while", "for", "switch", "typedef", "asm"}
QUALIFIERS = r"(?:(?:static|const|volatile|register|_Thread_local|_Alignas\([^)]*\)|unsigned|signed|extern)\s+)*"
DECLARATION = re.compile(rf"\s*{QUALIFIERS}(?:(?:struct|union|enum)\s+)?(\w+)(?:\s+const)?(?:\s+|\s*\*[\s*]*(?:const\s+|restrict\s+)*)\(?\**(\w+)")
INTEGER = r"(?:unsigned |signed )?(?:char|short|int|long(?: long)?)|unsigned|signed"
TYPE = re.compile(rf"^(?:const\s+)?(?:(?:struct|union|enum)\s+\w+|{INTEGER}|float|double|bool|void|\w+_t|json_object|FILE|DIR)"
                  r"(?:\s+(?:const|int|long))*[\s*]*(?:const\s*)?(?:\[[^\]]*\])?$")
# Operands that need no parentheses after sizeof. `a + b` and a cast need them.
UNARY = re.compile(r"^[*&]*(?:\w+|\"[^\"]*\")(?:\.\w+|->\w+|\[[^\[\]]*\])*$")
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|.|\n', re.S)

POINTER = ("expr(hasType(hasCanonicalType(pointerType())), unless(ignoringParenImpCasts(stringLiteral())),"
           " unless(ignoringParenImpCasts(conditionalOperator()))).bind(\"pointer\")")
OURS = 'isExpansionInFileMatching("(^|/)(kubedns|nanny|sidecar|migrate|treecache|lib|tests)/|dialect_example")'
QUERY = ["set output diag", "set traversal AsIs", "set bind-root false",
         f'match unaryOperator({OURS}, hasOperatorName("!"), hasUnaryOperand({POINTER}))',
         f'match implicitCastExpr({OURS}, hasCastKind("CK_PointerToBoolean"), hasSourceExpression({POINTER}))',
         *(f'match binaryOperator({OURS}, hasAnyOperatorName("&&", "||"), {side}({POINTER}))' for side in ("hasLHS", "hasRHS")),
         *(f"match {kind}({OURS}, hasCondition({POINTER}))" for kind in ("ifStmt", "whileStmt", "doStmt", "forStmt", "conditionalOperator"))]
# Library macros that test pointers in other ways.
MACRO = re.compile(r"[A-Z_]{4,}|\w+_foreach|cds_\w+")


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


def clang_query():
    """Returns the clang-query of the installed clang-tidy. In Debian, the program's name contains the version."""
    beside = pathlib.Path(shutil.which("clang-tidy") or "/").resolve().with_name("clang-query")
    return beside if beside.exists() else shutil.which("clang-query")


def pointer_findings(path, flags):
    """Returns {(file, line, text)} of the pointers that a source and its headers use as truth values."""
    if not (tool := clang_query()):
        sys.exit("dialect: clang-query is missing: install clang-tools")
    with tempfile.NamedTemporaryFile("w", suffix=".query") as query:
        query.write("\n".join(QUERY) + "\n")
        query.flush()
        ran = subprocess.run([tool, "-f", query.name, path, "--", *flags], capture_output=True, text=True)
    if ran.returncode or "error:" in ran.stderr or ran.stdout.count("match") < len(QUERY) - 3:
        sys.exit(f"dialect: clang-query {path}: {ran.stderr or ran.stdout}")
    found = set()
    for name, line, column in re.findall(r'^(/?\S+?):(\d+):(\d+): note: "pointer" binds here', ran.stdout, re.M):
        text = pathlib.Path(name).read_bytes().split(b"\n")[int(line) - 1]
        if not MACRO.match(text[int(column) - 1:].decode()):
            found.add((name, int(line), text.decode().strip()))
    return found


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
POINTERS = """\
#include <stdbool.h>
#include <stddef.h>
bool
f(char *p, int n)
{
	while (p)
		p = n ? p : NULL;
	for (; p; p++)
		n = !p;
	do
		n = p ? 1 : 2;
	while (p);
	if (p)
		n = n && p;
	if (p || n)
		n = p != NULL || p == NULL || !n;
	return p;
}
"""


def check_itself():
    assert [line for line, _ in findings(WRONG)] == [5, 5, 5, 5, 12], findings(WRONG)
    assert findings(RIGHT) == [], findings(RIGHT)
    assert findings(fixed(WRONG)) == [] and fixed(RIGHT) == RIGHT
    assert fixed(WRONG).count("\n") == WRONG.count("\n") + 2


def check_pointers():
    with tempfile.TemporaryDirectory() as folder:
        example = pathlib.Path(folder, "dialect_example.c")
        example.write_text(POINTERS)
        lines = sorted(line for _, line, _ in pointer_findings(example, ["-std=c17"]))
    assert lines == [6, 8, 9, 11, 12, 13, 14, 15, 17], lines


def main(args):
    if args[:1] == ["--pointers"]:
        flags, paths = args[1:args.index("--")], args[args.index("--") + 1:]
        if not paths:
            return check_pointers()
        found = set().union(*(pointer_findings(path, flags) for path in paths))
        for name, line, text in sorted(found):
            print(f"{name}:{line}: compare the pointer with NULL: {text}")
        return bool(found)
    check_itself()
    bad = False
    for path in map(pathlib.Path, args[args[:1] == ["--fix"]:]):
        text = path.read_text()
        if args[0] == "--fix":
            if fixed(text) != text:
                path.write_text(fixed(text))
            continue
        for line, what in findings(text):
            print(f"{path}:{line}: {what} (tests/dialect.py --fix)")
            bad = True
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
