#include "sidecar/verdict/judgement.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sidecar/containers/nanny_config.h"
#include "sidecar/format.h"

struct finding *
finding_add(struct judgement *j, enum level level, int64_t since_ns, const char *fmt, ...)
{
	static struct finding surplus;
	struct verdict *verdict = j->verdict;
	va_list ap;

	if (level != LEVEL_NOTE && level > verdict->level)
		verdict->level = level;
	struct finding *finding = &surplus;
	if (verdict->count < FINDINGS_MAX)
		finding = &verdict->findings[verdict->count++];
	else
		verdict->more++;
	*finding = (struct finding){ .level = level, .cause = j->cause, .since_ns = since_ns };
	va_start(ap, fmt);
	vsnprintf(finding->what, sizeof finding->what, fmt, ap);
	va_end(ap);
	return finding;
}

void
finding_brief(struct finding *finding, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(finding->brief, sizeof finding->brief, fmt, ap);
	va_end(ap);
}

void
finding_explain(const struct judgement *j, struct finding *finding, const char *meaning,
    const char *todo, enum command command)
{
	snprintf(finding->meaning, sizeof finding->meaning, "%s", meaning);
	snprintf(finding->todo, sizeof finding->todo, "%s", todo);
	snprintf(finding->command, sizeof finding->command, "%s",
	    surroundings_command(j->view->surroundings, command));
}

void
finding_past(struct judgement *j, struct finding *finding)
{
	finding->past = true;
	j->past++;
}

const char *
in_pod(const struct judgement *j, const char *pod, const char *elsewhere)
{
	return j->view->surroundings == SURROUNDINGS_POD ? pod : elsewhere;
}

enum topology
topology_of(const struct view *view)
{
	const struct kubedns_view *kubedns = view->kubedns;
	bool front = false;

	if (kubedns != NULL && kubedns->seen)
		return kubedns->has_resolver && server_equal(&kubedns->resolver, &view->dnsmasq)
			   ? TOPOLOGY_FRONT
			   : TOPOLOGY_CLASSIC;
	/* kubedns has not answered yet, so the servers of the probes show the topology. */
	for (size_t i = 0; i < view->probe_count; i++) {
		const struct server *server = &view->probes[i].spec.server;

		if (server_equal(server, &view->dnsmasq))
			return TOPOLOGY_CLASSIC;
		front |= server->port == 53;
	}
	return front ? TOPOLOGY_FRONT : TOPOLOGY_UNKNOWN;
}

const char *
verdict_ago(const struct view *view, int64_t then_ns, char *text)
{
	return format_duration((double)(view->now_ns - then_ns) / 1e9, text);
}

bool
runs_unbound(const struct view *view)
{
	return view->nanny != NULL && strcmp(config_engine(view->nanny->config), "unbound") == 0;
}

bool
is_client_path(const struct view *view, const struct probe *probe)
{
	bool dnsmasq = server_equal(&probe->spec.server, &view->dnsmasq);

	if (topology_of(view) == TOPOLOGY_FRONT)
		return !dnsmasq;
	return dnsmasq || probe->spec.server.port == 53;
}

bool
is_answering(enum cause cause)
{
	return cause_is_alive(cause) || cause == CAUSE_NXDOMAIN || cause == CAUSE_NO_RECORDS;
}

bool
clients_get_none(const struct judgement *j)
{
	const struct tally *tally = &j->tally;

	if (tally->asked == 0)
		return false;
	return tally->client > 0 ? tally->client_answered == 0 : tally->answered == 0;
}
