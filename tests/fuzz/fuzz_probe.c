/* A probe's specification. The label of an accepted specification must be safe in paths and metric
 * names. The text of an accepted specification must parse to the same specification again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "lib/xalloc.h"
#include "sidecar/probes/probe_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xstrndup((const char *)data, size), why[SPEC_WHY_MAX] = "",
	     metric[SPEC_LABEL_MAX + 1];
	char server[SERVER_TEXT_MAX], name[DNAME_TEXT_MAX], type[12];
	struct probe_spec spec, again;

	if (spec_parse(&spec, text, why) < 0) {
		if (why[0] == '\0')
			abort();
		free(text);
		return 0;
	}
	if (strpbrk(spec.label, "/<>\"'&% \n") != NULL || spec.interval_s == 0 ||
	    spec.server.port == 0)
		abort();
	spec_metric_name(spec.label, metric);
	if (metric[strspn(
		metric, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] != '\0')
		abort();
	dname_to_text(spec.name.wire, name);
	if (strchr(name, ',') == NULL) {
		char *canonical =
		    xasprintf("%s,%s,%s,%u,%s", spec.label, server_format(&spec.server, server),
			name, spec.interval_s, type_name(spec.type, type));

		if (spec_parse(&again, canonical, why) < 0 ||
		    strcmp(spec.label, again.label) != 0 ||
		    !server_equal(&spec.server, &again.server) ||
		    !dname_equal(spec.name.wire, again.name.wire) || spec.type != again.type ||
		    spec.interval_s != again.interval_s)
			abort();
		free(canonical);
	}
	free(text);
	return 0;
}
