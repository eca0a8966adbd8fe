#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/conf_text.h"
#include "lib/log.h"
#include "lib/resolv.h"

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void
skip(struct resolv *resolv, const char *text, size_t len)
{
	if (resolv->skipped++ == 0)
		snprintf(resolv->first_skipped, sizeof resolv->first_skipped, "%.*s",
		    (int)(len < RESOLV_SKIPPED_MAX ? len : RESOLV_SKIPPED_MAX), text);
}

static void
add_nameserver(struct resolv *resolv, const char *text, size_t len)
{
	char copy[ADDR_TEXT_MAX + 1];
	struct server server = { .port = 53 };
	const char *why;

	if (len >= sizeof copy) {
		skip(resolv, text, len);
		return;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (addr_parse(copy, &server.addr) < 0 || conf_addr_useless(&server.addr, &why)) {
		skip(resolv, text, len); /* fe80::1%eth0 too, because a zone has no meaning in
					  * another network namespace */
		return;
	}
	for (size_t i = 0; i < resolv->count; i++)
		if (server_equal(&resolv->servers[i], &server))
			return;
	if (resolv->count == RESOLV_SERVERS_MAX)
		skip(resolv, text, len);
	else
		resolv->servers[resolv->count++] = server;
}

/* The keyword must be at the start of the line and be followed by a blank. The rest after the
 * address is a comment. */
static void
parse_line(struct resolv *resolv, const char *line, size_t len)
{
	static const char keyword[] = "nameserver";
	size_t at = sizeof keyword - 1;

	size_t blanks = 0;
	while (blanks < len && is_blank(line[blanks]))
		blanks++;
	if (blanks > 0 && len - blanks > at && memcmp(line + blanks, keyword, at) == 0 &&
	    is_blank(line[blanks + at]))
		skip(resolv, line, len);
	if (len <= at || memcmp(line, keyword, at) != 0 || !is_blank(line[at]))
		return;
	while (at < len && is_blank(line[at]))
		at++;
	size_t end = at;
	while (end < len && !is_blank(line[end]) && line[end] != '#' && line[end] != ';')
		end++;
	if (end > at)
		add_nameserver(resolv, line + at, end - at);
}

void
resolv_parse(const char *text, size_t len, struct resolv *resolv)
{
	*resolv = (struct resolv){ 0 };
	for (size_t at = 0; at < len;) {
		const char *newline = memchr(text + at, '\n', len - at);
		size_t end = newline != NULL ? (size_t)(newline - text) : len;

		parse_line(resolv, text + at, end - at);
		at = end + 1;
	}
}

void
resolv_log_skipped(const struct resolv *resolv, const char *path)
{
	if (resolv->skipped == 0)
		return;
	char *quoted = conf_quote(resolv->first_skipped);
	log_warnx(
	    "%s: nameserver %s: skipped, because it is not a usable address, or comes after %d "
	    "others%s",
	    path, quoted, RESOLV_SERVERS_MAX,
	    resolv->skipped > 1 ? "; more lines are skipped" : "");
	free(quoted);
}
