/* dnsmasq's arguments, one per line. For any arguments, argv must end with our servers file. Our
 * servers file then takes precedence over another servers file that was not filtered out. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nanny/dnsmasq/own_args.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size), *given[64], *rest = text, *why;
	size_t count = 0;
	struct args args;

	while (rest != NULL && count < 64)
		given[count++] = strsep(&rest, "\n");
	if (args_parse(&args, "/dnsmasq", given, count, &why) < 0)
		free(why);
	else {
		own_args_add(&args, "/F", false);
		if (args.port == 0 || strcmp(args.argv[args.argc - 1], "--servers-file=/F") != 0 ||
		    args.argv[args.argc] != NULL)
			abort();
		args_free(&args);
	}
	free(text);
	return 0;
}
