#include "kubedns/run/confine.h"

#include "kubedns/api/api_source.h"
#include "kubedns/serve/worker.h"
#include "kubedns/config/settings.h"
#include "lib/log.h"

enum { DNS_PORT = 53 };

/* Adds what the core needs. */
static void
add_needs(struct sandbox *s, const struct status *status)
{
	const struct options *o = status->options;
	size_t count;
	const struct server *upstreams = settings_upstreams(status->settings, &count);

	if (*o->configmap.dir != '\0')
		sandbox_read_replaced(s, o->configmap.dir);
	if (*o->source.objects_dir != '\0')
		sandbox_read_replaced(s, o->source.objects_dir);
	sandbox_connect(s, DNS_PORT);
	for (size_t i = 0; i < count; i++)
		sandbox_connect(s, upstreams[i].port);
	if (o->upstream.has_resolver)
		sandbox_connect(s, o->upstream.resolver.port);
	if (o->upstream.has_search_resolver)
		sandbox_connect(s, o->upstream.search_resolver.port);
	for (size_t i = 0; i < o->upstream.until_synced.count; i++)
		sandbox_connect(s, o->upstream.until_synced.servers[i].port);
	api_source_needs(status->watch, s);
}

void
confine(const struct status *status, enum sandbox_mode mode)
{
	struct sandbox *s = sandbox_new(mode);
	unsigned keeps = SANDBOX_KEEP_THREADS;

	add_needs(s, status);
	if (status->options->listen.share_port)
		keeps |= SANDBOX_KEEP_LISTEN; /* to listen later */
	if (workers_held(status->workers))
		keeps |= SANDBOX_KEEP_LOW_PORTS; /* to bind the port again later */
	keeps |= modules_confine(&status->options->modules, s);
	sandbox_enter(s, keeps);
}

void
confine_check_upstreams(const struct settings *settings)
{
	size_t count;
	const struct server *upstreams = settings_upstreams(settings, &count);
	char text[SERVER_TEXT_MAX];

	for (size_t i = 0; i < count; i++)
		if (!sandbox_may_connect(upstreams[i].port))
			log_warnx("upstream %s: the sandbox does not allow TCP port %u: answers "
				  "that are too long for UDP fail until kubedns is restarted",
			    server_format(&upstreams[i], text), upstreams[i].port);
}
