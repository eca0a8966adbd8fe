/*
 * The ConfigMap key hosts. The parser must return pairs or a reason. A lookup must find the names
 * of accepted pairs. The pairs must be the same after they are written and parsed again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/local_names.h"
#include "lib/conf_hosts.h"
#include "lib/wire.h"
#include "lib/xalloc.h"
#include "treecache/treecache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *
written(const struct conf_hosts *hosts)
{
	char *text = xmalloc(hosts->count * (ADDR_TEXT_MAX + DNAME_MAX + 2) + 1), *to = text;
	char name[DNAME_TEXT_MAX];

	for (size_t i = 0; i < hosts->count; i++) {
		addr_format(&hosts->items[i].addr, to);
		to = stpcpy(to + strlen(to), " ");
		to = stpcpy(to, dname_to_text(hosts->items[i].name.wire, name));
		to = stpcpy(to, "\n");
	}
	*to = '\0';
	return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_hosts hosts, again;
	char *why;

	if (conf_hosts_parse((const char *)data, size, &hosts, &why) < 0) {
		if (why == NULL || hosts.count > 0 || strlen(why) > 400)
			abort();
		free(why);
		return 0;
	}
	struct local_names *names = local_names_of_hosts(&hosts, true, 30, 7);
	if ((names == NULL) != (hosts.count == 0))
		abort();
	for (size_t i = 0; i < hosts.count; i++) {
		const struct conf_host *host = &hosts.items[i];
		const struct own_name *own =
		    local_names_find(names, host->name.wire, host->name.len);

		if (own == NULL ||
		    own_name_rrset(own, host->addr.family == AF_INET ? TYPE_A : TYPE_AAAA) == NULL)
			abort();
	}
	if (hosts.count > 0) {
		char *text = written(&hosts);

		if (conf_hosts_parse(text, strlen(text), &again, &why) < 0 ||
		    again.count != hosts.count ||
		    memcmp(again.items, hosts.items, hosts.count * sizeof *hosts.items) != 0)
			abort();
		free(text);
		conf_hosts_free(&again);
	}
	free(names);
	conf_hosts_free(&hosts);
	return 0;
}
