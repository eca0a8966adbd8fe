/* Keys that are lines of words: what their parsers share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf_internal.h"
#include "lib/xalloc.h"

int
conf_refuse_word(char **why, unsigned line, const char *word, const char *reason)
{
	char *quoted = conf_quote(word);
	*why = xasprintf("line %u: %s: %s", line, quoted, reason);
	free(quoted);
	return -EINVAL;
}

int
conf_lines(const char *text, size_t len, conf_line_reader *read, void *arg, char **why)
{
	unsigned number = 0;
	int rc = 0;

	*why = NULL;
	const char *nul = memchr(text, '\0', len);
	if (nul != NULL)
		return conf_refuse_at(why, text, (size_t)(nul - text), "NUL byte");
	char *copy = xstrndup(text, len), *rest = copy, *line;
	while (rc == 0 && (line = strsep(&rest, "\n")) != NULL) {
		number++;
		if (number == 1 && strcmp(line, "null") == 0)
			continue;
		rc = read(arg, number, line);
	}
	free(copy);
	return rc;
}
