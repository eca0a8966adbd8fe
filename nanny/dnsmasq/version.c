#include "nanny/dnsmasq/version.h"

#include <stdio.h>
#include <string.h>

#include "lib/log.h"
#include "lib/spelling.h"
#include "nanny/process.h"

unsigned
dnsmasq_version_parse(const char *text)
{
	static const char head[] = "Dnsmasq version ";
	unsigned major, minor;

	if (strncmp(text, head, sizeof head - 1) != 0 ||
	    sscanf(text + sizeof head - 1, "%2u.%2u", &major, &minor) != 2)
		return 0;
	return major * 100 + minor;
}

unsigned
dnsmasq_version(const char *exec)
{
	char text[4096];

	process_say(exec, "--version", text, sizeof text);
	return dnsmasq_version_parse(text);
}

void
dnsmasq_package_read(FILE *record, char version[PACKAGE_VERSION_MAX])
{
	static const char field[] = "Version: ";
	char line[256];

	version[0] = '\0';
	while (fgets(line, sizeof line, record) != NULL) {
		if (strncmp(line, field, sizeof field - 1) != 0)
			continue;
		const char *value = line + sizeof field - 1;
		size_t len = strcspn(value, " \n");
		if (len < PACKAGE_VERSION_MAX) {
			memcpy(version, value, len);
			version[len] = '\0';
		}
		return;
	}
}

void
dnsmasq_package_version(char version[PACKAGE_VERSION_MAX])
{
	FILE *record = fopen("/var/lib/dpkg/status.d/dnsmasq-base", "re");

	version[0] = '\0';
	if (record == NULL)
		return;
	dnsmasq_package_read(record, version);
	fclose(record);
}

/* --- arguments that this version does not support --- */

enum { HELP_MAX = 128 * 1024, NAME_MAX_LEN = 64 };

/* Length of the option's name, without its two dashes and its value. */
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

/* Finds the listed option with the most similar spelling and copies it to `word`. Returns false if
 * no option is similar enough. */
static bool
nearest(const char *help, const char *option, char word[NAME_MAX_LEN])
{
	struct spelling s = spelling_of(option + 2, name_len(option));
	/* static, because spelling_try stores pointers to the names */
	static char names[512][NAME_MAX_LEN];
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
		log_warnx("dnsmasq %s: version %u.%02u does not support %.*s, which needs version "
			  "%u.%02u: install a newer dnsmasq, or remove the argument",
		    exec, version / 100, version % 100, len, option, since / 100, since % 100);
	else if (nearest(help, option, word))
		log_warnx("dnsmasq %s: version %u.%02u does not support %.*s: did you mean --%s?",
		    exec, version / 100, version % 100, len, option, word);
	else
		log_warnx("dnsmasq %s: version %u.%02u does not support %.*s: remove it (%s --help "
			  "lists all arguments)",
		    exec, version / 100, version % 100, len, option, exec);
}

void
dnsmasq_unknown_args_warn(const char *exec, unsigned version, char *const *argv)
{
	static char help[HELP_MAX];

	if (version == 0 || process_say(exec, "--help", help, sizeof help) == 0)
		return; /* dnsmasq cannot be run; its failed start is logged later */
	for (size_t i = 1; argv[i] != NULL; i++)
		if (strncmp(argv[i], "--", 2) == 0 && argv[i][2] != '\0' &&
		    !dnsmasq_unknown_args_lists(help, argv[i]))
			warn(exec, version, help, argv[i]);
}
