/*
 * CoreDNS's `transfer`, and the older option `transfer` of `kubernetes`. Both name clients that may
 * transfer the zones, and secondaries to notify. This file also reads CoreDNS's `tsig`, which
 * contains the keys for transfers.
 */
#include <stdlib.h>
#include <string.h>

#include "migrate/module_flags.h"
#include "migrate/plugins.h"

/* Whether the word is `addr/length`. A flag contains the word unchanged. */
static bool
is_prefix(const char *word)
{
	char text[ADDR_TEXT_MAX], *end;
	const char *slash = strchr(word, '/');
	struct addr addr;

	if (slash == NULL || (size_t)(slash - word) >= sizeof text || slash[1] < '0' ||
	    slash[1] > '9')
		return false;
	memcpy(text, word, (size_t)(slash - word));
	text[slash - word] = '\0';
	if (addr_parse(text, &addr) < 0)
		return false;
	unsigned long length = strtoul(slash + 1, &end, 10);
	return *end == '\0' && length <= (addr.family == AF_INET ? 32U : 128U);
}

/* Reads an address of `to`, and adds a flag for each program that needs the address. Returns false
 * if the word is not an address. */
static bool
read_to(struct scope *scope, const char *word)
{
	char text[ADDR_TEXT_MAX];
	struct server server;
	const char *why;

	if (is_prefix(word)) {
		report_flag(scope->report, PROGRAM_KUBEDNS, "--transfer-to=%s", word);
		return true;
	}
	if (server_parse(word, 53, &server, &why) < 0)
		return false;
	addr_format(&server.addr, text);
	report_flag(scope->report, PROGRAM_KUBEDNS, "--transfer-to=%s", text);
	if (server.port == 53)
		report_flag(scope->report, PROGRAM_KUBEDNS, "--transfer-notify=%s", text);
	else
		report_flag(scope->report, PROGRAM_KUBEDNS,
		    server.addr.family == AF_INET6 ? "--transfer-notify=[%s]:%u"
						   : "--transfer-notify=%s:%u",
		    text, (unsigned)server.port);
	return true;
}

void
plugin_transfer_to(struct scope *scope, const struct corefile_line *line, size_t at)
{
	bool everybody = false, wrong = at >= line->count;

	if (!module_has_flag("transfer-to")) {
		report_line(scope->report, line, VERDICT_NONE, NO_MODULE, "transfer-to");
		return;
	}
	for (size_t i = at; i < line->count; i++) {
		if (strcmp(line->words[i], "*") == 0)
			everybody = true;
		else
			wrong = !read_to(scope, line->words[i]) || wrong;
	}
	if (wrong)
		report_line(scope->report, line, VERDICT_NONE, "needs addresses");
	else if (everybody)
		report_line(scope->report, line, VERDICT_CHANGES,
		    "name the secondaries: --transfer-to=CIDR,... lists the addresses that may "
		    "transfer the zones; it cannot allow everyone");
	else
		report_line(scope->report, line, VERDICT_CARRIED,
		    "--transfer-to, and --transfer-notify for addresses: AXFR, IXFR and NOTIFY");
}

/* transfer [ZONE...] { to ADDRESS... } */
void
plugin_transfer(struct scope *scope, const struct corefile_directive *d)
{
	report_line(scope->report, &d->head, VERDICT_CHANGES,
	    "all our zones, to the addresses in the lines below; in the classic topology "
	    "secondaries use port 10053 of the pod, not 53: docs/transfer.md");
	for (size_t i = 0; i < d->body_count; i++) {
		const struct corefile_line *line = &d->body[i];

		if (strcmp(line->words[0], "to") == 0)
			plugin_transfer_to(scope, line, 1);
		else
			report_line(scope->report, line, VERDICT_NONE,
			    "unknown option; see transfer's manual");
	}
}

/* tsig [ZONE...] { secret NAME KEY... } */
void
plugin_tsig(struct scope *scope, const struct corefile_directive *d)
{
	static const struct report_option options[] = {
		{ "secret", VERDICT_CHANGES,
		    "a line NAME ALGORITHM SECRET in the file of --transfer-key, which a Secret "
		    "puts into the pod (docs/transfer.md#keys); use the secondary's ALGORITHM, "
		    "hmac-sha256 or longer" },
		{ "secrets", VERDICT_CHANGES,
		    "write each key of this file as a line NAME ALGORITHM SECRET into the file of "
		    "--transfer-key, which a Secret puts into the pod (docs/transfer.md#keys)" },
		{ "require", VERDICT_CHANGES,
		    "with --transfer-key, AXFR and IXFR must be signed; other queries need not "
		    "be" },
	};

	report_line(scope->report, &d->head, VERDICT_CHANGES,
	    "--transfer-key=FILE, only for zone transfers, their SOA queries and NOTIFY "
	    "(docs/transfer.md); without it transfers are not signed");
	for (size_t i = 0; i < d->body_count; i++)
		if (!report_option(
			scope->report, &d->body[i], options, sizeof options / sizeof *options))
			report_line(scope->report, &d->body[i], VERDICT_NONE,
			    "unknown option; see tsig's manual");
}
