/* dnsmasq's arguments, one a line: whatever they are, argv ends with our servers file, which
 * dnsmasq takes if another slips by. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nanny/dnsmasq/args.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *given[64], *rest = text, *why;
	size_t count = 0;
	struct args args;

	while (rest != NULL && count < 64)
		given[count++] = strsep(&rest, "\n");
	if (args_build(&args, "/dnsmasq", given, count, "/F", false, &why) < 0)
		free(why);
	else {
		if (args.port == 0 || strcmp(args.argv[args.argc - 1], "--servers-file=/F") != 0 ||
		    args.argv[args.argc] != NULL)
			abort();
		args_free(&args);
	}
	free(text);
	return 0;
}
