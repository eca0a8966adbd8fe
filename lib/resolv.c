#include <stdbool.h>
#include <string.h>

#include "lib/conf.h"
#include "lib/resolv.h"

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void
add_nameserver(struct resolv *resolv, const char *text, size_t len)
{
	char copy[ADDR_TEXT_MAX + 1];
	struct server server = { .port = 53 };
	const char *why;

	if (len >= sizeof copy) {
		resolv->skipped++;
		return;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (addr_parse(copy, &server.addr) < 0 || conf_addr_useless(&server.addr, &why)) {
		resolv->skipped++; /* counts fe80::1%eth0 too, because a zone has no meaning in
				    * another network namespace */
		return;
	}
	for (size_t i = 0; i < resolv->count; i++)
		if (server_equal(&resolv->servers[i], &server))
			return;
	if (resolv->count == RESOLV_SERVERS_MAX)
		resolv->skipped++;
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
