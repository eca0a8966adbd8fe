#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/corefile_lex.h"
#include "lib/xalloc.h"

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f' ||
	       c == '\0';
}

/* Reads the quoted word at `*at` and moves `*at` behind the closing quote. A backslash escapes only
 * a quote. Two backslashes stay two backslashes, and the second backslash escapes nothing. */
static struct word
quoted_word(const char *text, size_t len, size_t *at, unsigned line)
{
	size_t end = *at, n = 0;
	unsigned lines = 0;
	bool escaped = false;

	for (; end < len && (escaped || text[end] != '"'); end++)
		escaped = !escaped && text[end] == '\\';
	char *out = xmalloc(end - *at + 1);
	for (escaped = false; *at < end; ++*at) {
		char c = text[*at];

		lines += c == '\n';
		if (!escaped && c == '\\') {
			escaped = true;
			continue;
		}
		if (escaped && c != '"')
			out[n++] = '\\';
		if (c != '\0')
			out[n++] = c;
		escaped = false;
	}
	if (*at < len)
		++*at;
	out[n] = '\0';
	return (struct word){ .text = out, .line = line, .lines = lines };
}

static struct word
plain_word(const char *text, size_t len, size_t *at, unsigned line)
{
	size_t begin = *at;

	while (*at < len && !is_blank(text[*at]))
		++*at;
	return (struct word){ .text = xstrndup(text + begin, *at - begin), .line = line };
}

int
words_read(struct words *words, const char *text, size_t len, unsigned file, size_t max)
{
	size_t at = 0, capacity = words->count;
	unsigned line = 1;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		at = 3;
	while (at < len) {
		if (is_blank(text[at])) {
			line += text[at++] == '\n';
			continue;
		}
		if (text[at] == '#') {
			while (at < len && text[at] != '\n')
				at++;
			continue;
		}
		if (words->count == max)
			return -E2BIG;
		if (words->count == capacity) {
			capacity = capacity ? 2 * capacity : 64;
			words->items = xreallocarray(words->items, capacity, sizeof *words->items);
		}
		struct word word;
		if (text[at] == '"') {
			at++;
			word = quoted_word(text, len, &at, line);
		} else {
			word = plain_word(text, len, &at, line);
		}
		word.file = file;
		line += word.lines;
		words->items[words->count++] = word;
	}
	return 0;
}

void
words_free(struct words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->items[i].text);
	free(words->items);
	*words = (struct words){ 0 };
}
