#include "nanny/dnsmasq/unknown_args.h"

#include <string.h>

#include "lib/log.h"
#include "lib/spelling.h"
#include "nanny/dnsmasq/version.h"

enum { HELP_MAX = 128 * 1024, NAME_MAX_LEN = 64 };

/* Bytes of the option's name behind its two dashes. */
static size_t
name_len(const char *option)
{
	return strcspn(option + 2, "=");
}

bool
dnsmasq_unknown_args_lists(const char *help, const char *option)
{
	size_t len = name_len(option) + 2;

	for (const char *at = help; (at = strstr(at, "--")) != NULL; at++)
		if ((at == help || at[-1] == ' ') && strncmp(at, option, len) == 0)
			return true;
	return false;
}

unsigned
dnsmasq_unknown_args_since(const char *option)
{
	static const struct {
		const char *name;
		unsigned version;
	} known[] = {
		{ "max-tcp-connections", 290 },
		{ "filter-rr", 290 },
		{ "fast-dns-retry", 288 },
		{ "use-stale-cache", 288 },
		{ "port-limit", 288 },
		{ "filter-A", 287 },
		{ "filter-AAAA", 287 },
		{ "nftset", 287 },
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strlen(known[i].name) == name_len(option) &&
		    strncmp(option + 2, known[i].name, name_len(option)) == 0)
			return known[i].version;
	return 0;
}

/* The listed option whose spelling is nearest, in `word`; false: none is near. */
static bool
nearest(const char *help, const char *option, char word[NAME_MAX_LEN])
{
	struct spelling s = spelling_of(option + 2, name_len(option));
	static char names[512][NAME_MAX_LEN]; /* spelling_try keeps pointers */
	size_t count = 0;

	for (const char *at = help; (at = strstr(at, "--")) != NULL && count < 512; at += 2) {
		size_t len = strcspn(at + 2, "=, \n[");

		if (len == 0 || len >= NAME_MAX_LEN)
			continue;
		memcpy(names[count], at + 2, len);
		names[count][len] = '\0';
		spelling_try(&s, names[count++]);
	}
	if (s.word == NULL)
		return false;
	strcpy(word, s.word);
	return true;
}

static void
warn(const char *exec, unsigned version, const char *help, const char *option)
{
	unsigned since = dnsmasq_unknown_args_since(option);
	char word[NAME_MAX_LEN];
	int len = (int)name_len(option) + 2;

	if (since > version)
		log_warnx("dnsmasq %s is version %u.%02u and does not know %.*s, which came with "
			  "%u.%02u: take a newer dnsmasq, or leave it out",
		    exec, version / 100, version % 100, len, option, since / 100, since % 100);
	else if (nearest(help, option, word))
		log_warnx("dnsmasq %s %u.%02u does not know %.*s; --%s is meant?", exec,
		    version / 100, version % 100, len, option, word);
	else
		log_warnx("dnsmasq %s %u.%02u does not know %.*s: leave it out (%s --help lists "
			  "what it knows)",
		    exec, version / 100, version % 100, len, option, exec);
}

void
dnsmasq_unknown_args_warn(const char *exec, unsigned version, char *const *argv)
{
	static char help[HELP_MAX];

	if (version == 0 || dnsmasq_say(exec, "--help", help, sizeof help) == 0)
		return; /* it cannot be run: starting it will log why */
	for (size_t i = 1; argv[i] != NULL; i++)
		if (strncmp(argv[i], "--", 2) == 0 && argv[i][2] != '\0' &&
		    !dnsmasq_unknown_args_lists(help, argv[i]))
			warn(exec, version, help, argv[i]);
}
