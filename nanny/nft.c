#include "nanny/nft.h"

#include <dlfcn.h>
#include <errno.h>
#include <nftables/libnftables.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/xalloc.h"

#define LIBRARY "libnftables.so.1"

struct nft {
	void *library;
	struct nft_ctx *context;
	struct nft_ctx *(*make)(uint32_t flags);
	void (*free)(struct nft_ctx *context);
	int (*buffer_output)(struct nft_ctx *context);
	int (*buffer_error)(struct nft_ctx *context);
	const char *(*error)(struct nft_ctx *context);
	int (*run)(struct nft_ctx *context, const char *commands);
	char reason[256];
};

/* POSIX's way around the conversion from an object's pointer to a function's. */
static bool
find(const struct nft *nft, const char *name, void *function)
{
	void *symbol = dlsym(nft->library, name);
	memcpy(function, &symbol, sizeof symbol);
	if (symbol == NULL)
		log_errorx("%s has no %s: a libnftables of another kind", LIBRARY, name);
	return symbol != NULL;
}

struct nft *
nft_open(void)
{
	struct nft *nft = xcalloc(1, sizeof *nft);
	nft->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (nft->library == NULL)
		log_errorx("%s: install libnftables1", dlerror());
	else if (find(nft, "nft_ctx_new", &nft->make) && find(nft, "nft_ctx_free", &nft->free) &&
		 find(nft, "nft_ctx_buffer_output", &nft->buffer_output) &&
		 find(nft, "nft_ctx_buffer_error", &nft->buffer_error) &&
		 find(nft, "nft_ctx_get_error_buffer", &nft->error) &&
		 find(nft, "nft_run_cmd_from_buffer", &nft->run) &&
		 (nft->context = nft->make(NFT_CTX_DEFAULT)) == NULL)
		log_errorx("%s: no context", LIBRARY);
	if (nft->context != NULL && nft->buffer_output(nft->context) == 0 &&
	    nft->buffer_error(nft->context) == 0)
		return nft;
	nft_close(nft);
	return NULL;
}

void
nft_close(struct nft *nft)
{
	if (nft == NULL)
		return;
	if (nft->context != NULL)
		nft->free(nft->context);
	if (nft->library != NULL)
		dlclose(nft->library);
	free(nft);
}

int
nft_run(struct nft *nft, const char *commands, const char **why)
{
	if (nft->run(nft->context, commands) == 0)
		return 0;
	const char *text = nft->error(nft->context);
	size_t len = strcspn(text, "\n");
	snprintf(nft->reason, sizeof nft->reason, "%.*s", (int)len, text);
	if (why != NULL)
		*why = nft->reason;
	return -EIO;
}
