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

/* Notes a line that is not used. `why` is static. */
static void
skip(struct resolv *resolv, const char *address, size_t len, const char *why)
{
	if (resolv->skipped++ > 0)
		return;
	resolv->first_why = why;
	snprintf(resolv->first_skipped, sizeof resolv->first_skipped, "%.*s",
	    (int)(len < RESOLV_SKIPPED_MAX ? len : RESOLV_SKIPPED_MAX), address);
}

/* Parses an address. Returns NULL, or a static reason why it cannot be used. */
static const char *
parse_address(const char *text, size_t len, struct addr *addr)
{
	char copy[ADDR_TEXT_MAX + 1];
	const char *why;

	/* A zone has no meaning in another network namespace. */
	if (memchr(text, '%', len) != NULL)
		return "an address with a zone cannot be used";
	if (len >= sizeof copy)
		return "not an address";
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (addr_parse(copy, addr) < 0)
		return "not an address";
	return conf_addr_useless(addr, &why) ? why : NULL;
}

static void
add_nameserver(struct resolv *resolv, const char *text, size_t len)
{
	struct server server = { .port = 53 };
	const char *why = parse_address(text, len, &server.addr);

	if (why != NULL) {
		skip(resolv, text, len, why);
		return;
	}
	for (size_t i = 0; i < resolv->count; i++)
		if (server_equal(&resolv->servers[i], &server))
			return;
	if (resolv->count == RESOLV_SERVERS_MAX)
		skip(resolv, text, len, "15 other servers come before it");
	else
		resolv->servers[resolv->count++] = server;
}

/* The keyword must be at the start of the line and be followed by a blank. The rest after the
 * address is a comment. */
static void
parse_line(struct resolv *resolv, const char *line, size_t len)
{
	static const char keyword[] = "nameserver";
	size_t start = 0, keyword_len = sizeof keyword - 1;

	while (start < len && is_blank(line[start]))
		start++;
	size_t at = start + keyword_len;
	if (len <= at || memcmp(line + start, keyword, keyword_len) != 0 || !is_blank(line[at]))
		return;
	while (at < len && is_blank(line[at]))
		at++;
	size_t end = at;
	while (end < len && !is_blank(line[end]) && line[end] != '#' && line[end] != ';')
		end++;
	if (end > at && start > 0)
		skip(resolv, line + at, end - at, "the line begins with a blank");
	else if (end > at)
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
	log_warnx("%s: nameserver %s: skipped: %s%s", path, quoted, resolv->first_why,
	    resolv->skipped > 1 ? "; more lines are skipped" : "");
	free(quoted);
}
