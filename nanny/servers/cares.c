#include "nanny/servers/cares.h"

#include <ares.h>
#include <stdlib.h>

#include "lib/xalloc.h"

int
cares_init(ares_channel *ares, struct ares_options *options, int mask)
{
#ifdef ARES_OPT_QUERY_CACHE
	options->qcache_max_ttl = 0;
	mask |= ARES_OPT_QUERY_CACHE;
#endif
	return ares_init_options(ares, options, mask);
}

struct request {
	cares_callback *done;
	void *arg;
};

static struct request *
request_new(cares_callback *done, void *arg)
{
	struct request *request = xmalloc(sizeof *request);

	*request = (struct request){ done, arg };
	return request;
}

static void
request_done(struct request *request, int status, const uint8_t *reply, size_t len)
{
	request->done(request->arg, status, reply, len);
	free(request);
}

#if ARES_VERSION >= 0x011c00 /* 1.28 */

static void
record_done(void *arg, ares_status_t status, size_t timeouts, const ares_dns_record_t *record)
{
	unsigned char *wire = NULL;
	size_t len = 0;

	(void)timeouts;
	if (record != NULL) {
		ares_status_t written = ares_dns_write(record, &wire, &len);

		if (written != ARES_SUCCESS)
			status = written;
	}
	request_done(arg, (int)status, wire, len);
	ares_free_string(wire);
}

void
cares_query(ares_channel ares, const char *name, uint16_t type, cares_callback *done, void *arg)
{
	ares_query_dnsrec(ares, name, ARES_CLASS_IN, (ares_dns_rec_type_t)type, record_done,
	    request_new(done, arg), NULL);
}

#else

static void
bytes_done(void *arg, int status, int timeouts, unsigned char *reply, int len)
{
	(void)timeouts;
	request_done(arg, status, reply, len > 0 ? (size_t)len : 0);
}

void
cares_query(ares_channel ares, const char *name, uint16_t type, cares_callback *done, void *arg)
{
	ares_query(ares, name, 1 /* IN */, type, bytes_done, request_new(done, arg));
}

#endif
