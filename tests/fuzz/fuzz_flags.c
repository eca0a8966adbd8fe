/* A command line with every type of flag. Line feeds separate the arguments. Each argument is also
 * parsed as a duration. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/duration.h"
#include "lib/flags.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct options {
	char *string;
	bool boolean;
	long number, port;
	int64_t duration;
	struct flag_list list, repeat;
};

static const struct flag table[] = {
	{ "string", FLAG_STRING, offsetof(struct options, string), "x", "S", .help = "" },
	{ "bool", FLAG_BOOL, offsetof(struct options, boolean), NULL, NULL, .help = "" },
	{ "number", FLAG_INT, offsetof(struct options, number), "1", "N", .help = "" },
	{ "dns-port", FLAG_PORT, offsetof(struct options, port), "53", "N", .help = "" },
	{ "duration", FLAG_DURATION, offsetof(struct options, duration), "1s", "D", .help = "" },
	{ "list", FLAG_LIST, offsetof(struct options, list), "a,b", "L", .help = "" },
	{ "repeat", FLAG_REPEAT, offsetof(struct options, repeat), NULL, "R", .help = "" },
	{ "old", FLAG_IGNORED, 0, NULL, "X", .help = "" },
	{ .name = NULL },
};

enum { ARGS_MAX = 64 };

/* Whether the argument is --help or --version, which end the program. */
static bool
ends_program(const char *arg)
{
	return strstr(arg, "help") != NULL || strstr(arg, "version") != NULL ||
	       strcmp(arg, "-h") == 0 || strncmp(arg, "-h=", 3) == 0 || strncmp(arg, "--h", 3) == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *argv[ARGS_MAX + 2], *given[ARGS_MAX + 2];
	char program[] = "fuzz", *rest = text;
	struct options options;
	struct flags_common common = { .program = "fuzz", .summary = "" };
	int argc = 0;
	long long ms = 0;

	argv[argc++] = program;
	for (char *arg = NULL; argc <= ARGS_MAX && (arg = strsep(&rest, "\n")) != NULL;) {
		duration_parse(arg, &ms);
		if (!ends_program(arg))
			argv[argc++] = arg;
	}
	argv[argc] = NULL;
	memcpy(given, argv, sizeof argv);
	if (flags_parse(table, &options, &common, argc, argv) == 0 &&
	    (options.port < 0 || options.port > 65535 || options.duration < 0 ||
		common.rest > argc))
		abort();
	flags_free(table, &options, &common);
	/* the value own-loopback is expanded in a copy of the argument */
	for (int i = 1; i < argc; i++)
		if (argv[i] != given[i])
			free(argv[i]);
	free(text);
	return 0;
}
