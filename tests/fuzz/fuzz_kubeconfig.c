/* A kubeconfig file. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/kubeconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kubeconfig config;
	char *why = NULL;
	size_t len;

	if (size == 0)
		return 0;
	char *copy = malloc(size + 1);
	memcpy(copy, data, size);
	copy[size] = '\0';
	FILE *in = fmemopen(copy, size, "r");
	if (in == NULL)
		abort();
	if (kubeconfig_read(in, "/etc/kubedns/config", &config, &why) == 0) {
		if (why != NULL || config.server == NULL || config.context == NULL)
			abort();
	} else if (why == NULL) {
		abort();
	}
	free(why);
	kubeconfig_free(&config);
	fclose(in);
	char *decoded = kubeconfig_base64(copy, &len);
	if (decoded != NULL && len > size)
		abort();
	free(decoded);
	free(copy);
	return 0;
}
