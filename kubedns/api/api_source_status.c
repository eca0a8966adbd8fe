/* Reports on the watch: readiness with reasons, and metrics. */
#include <stdio.h>
#include <stdlib.h>

#include "kubedns/api/resource_watch.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/metrics.h"

/* For how long the server owes an answer; 0: not long enough to be reported. */
static int64_t
silent_for_ms(const struct resource_watch *s)
{
	int64_t since_ms = reflector_silent_since_ms(s->reflector),
		silent_ms = clock_mono_ms() - since_ms;

	return since_ms && silent_ms >= API_SILENT_MS ? silent_ms : 0;
}

static void
write_silence(FILE *f, const struct resource_watch *s, bool reasons)
{
	int64_t silent_ms = silent_for_ms(s);

	if (!silent_ms)
		return;
	fprintf(f, "; no answer%s%s for %lld s", reasons ? " from " : "",
	    reasons ? s->watch->server.shown_url : "", (long long)silent_ms / 1000);
}

static void
write_state(FILE *f, const struct resource_watch *s, bool reasons)
{
	const struct reflector *r = s->reflector;
	unsigned long long objects = (unsigned long long)s->objects;
	fprintf(f, "%s: ", s->label);
	if (reflector_listing(r))
		fprintf(f, "%s, %llu objects so far",
		    reflector_synced(r) ? "synced, being listed anew" : "listing", objects);
	else if (reflector_synced(r))
		fprintf(f, "synced");
	else if (!api_credentials_has_token(&s->watch->server))
		fprintf(f, "waiting for the token%s%s", reasons ? " " : "",
		    reasons ? s->watch->server.token_file : "");
	else
		fprintf(f, "not synced");
	if (s->problem)
		fprintf(f, "; %s", reasons ? s->problem : "failing");
	write_silence(f, s, reasons);
	fputc('\n', f);
}

/* What is degraded. */
static void
write_notes(FILE *f, const struct api_source *w)
{
	if (w && w->streams[API_ENDPOINTS].wanted)
		fputs("endpointslices: denied; using Endpoints, at most 1,000 addresses of a "
		      "Service: apply "
		      "the ClusterRole\n",
		    f);
	for (unsigned i = w ? w->kinds : 0; w && i < w->count; i++)
		if (reflector_denied(w->streams[i].reflector))
			fprintf(f,
			    "%s: denied, so they have no names: list and watch of configmaps "
			    "in this namespace, as components/hosts has\n",
			    w->streams[i].label);
	if (w && w->ready && !w->external_ready)
		fprintf(f, "%s: answered SERVFAIL: not all that has names there has been listed\n",
		    api_source_zones(w));
	if (w && w->streams[API_NAMESPACES].wanted &&
	    reflector_denied(w->streams[API_NAMESPACES].reflector)) {
		if (w->namespaces_required)
			fprintf(f, "namespaces: denied, and %s needs them: apply the ClusterRole\n",
			    w->pods_required ? "--visibility" : "--namespace-labels");
		else
			fputs("namespaces: denied; inferred from Services: apply the ClusterRole\n",
			    f);
	}
	if (w && w->streams[API_PODS].wanted && reflector_denied(w->streams[API_PODS].reflector))
		fputs(w->pods_required
			  ? "pods: denied, and --visibility needs them: list and watch of pods\n"
			  : "pods: denied, so no client and no pod's name is known: list and watch "
			    "of pods\n",
		    f);
}

char *
api_source_notes(const struct api_source *w)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	if (!f)
		log_fatal("out of memory");
	write_notes(f, w);
	fclose(f);
	return text;
}

char *
api_source_status(const struct api_source *w, bool reasons)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	if (!f)
		log_fatal("out of memory");
	for (unsigned i = 0; w && i < w->count; i++) {
		if (w->streams[i].wanted)
			write_state(f, &w->streams[i], reasons);
	}
	write_notes(f, w);
	fclose(f);
	return text;
}

size_t
api_source_problems(const struct api_source *w, struct api_source_problem *problems, size_t room)
{
	size_t count = 0;

	for (unsigned i = 0; w && i < w->count && count < room; i++) {
		const struct resource_watch *s = &w->streams[i];
		enum api_problem kind = s->problem_kind;
		if (!s->wanted)
			continue;
		if (kind == API_PROBLEM_NONE && silent_for_ms(s))
			kind = API_PROBLEM_SILENT;
		if (kind == API_PROBLEM_NONE && !reflector_synced(s->reflector) &&
		    !api_credentials_has_token(&w->server))
			kind = API_PROBLEM_NO_TOKEN;
		if (kind != API_PROBLEM_NONE)
			problems[count++] = (struct api_source_problem){ s->label, kind };
	}
	return count;
}

int64_t
api_source_failing_since_ms(const struct api_source *w)
{
	static const enum api_resource_id needed[] = { API_SERVICES, API_SLICES, API_ENDPOINTS };
	int64_t since_ms = 0;

	for (size_t i = 0; w && i < sizeof(needed) / sizeof(needed[0]); i++) {
		const struct resource_watch *s = &w->streams[needed[i]];
		if (!s->wanted || !s->problem || !reflector_synced(s->reflector) ||
		    reflector_denied(s->reflector))
			continue;
		if (since_ms == 0 || s->problem_since_ms < since_ms)
			since_ms = s->problem_since_ms;
	}
	return since_ms;
}

static void
write_requests(const struct api_source *w, struct metrics *m)
{
	static const char *const verbs[API_VERB_COUNT] = {
		[API_VERB_LIST] = "list", [API_VERB_WATCH] = "watch"
	};
	metrics_family(m, "kubedns_api_requests_total", METRIC_COUNTER,
	    "Requests to the API by their answer; none: no answer came.");
	for (unsigned i = 0; i < w->count; i++) {
		for (unsigned v = 0; v < API_VERB_COUNT; v++) {
			for (unsigned c = 0; c < API_CODE_COUNT; c++) {
				char code[12];
				if (c < API_CODE_OTHER)
					snprintf(code, sizeof(code), "%d", api_codes[c]);
				metrics_value(m, (double)w->streams[i].requests[v][c], "resource",
				    w->streams[i].label, "verb", verbs[v], "code",
				    c < API_CODE_OTHER    ? code
				    : c == API_CODE_OTHER ? "other"
							  : "none",
				    NULL);
			}
		}
	}
}

static void
write_changes(const struct api_source *w, struct metrics *m)
{
	metrics_family(m, "kubedns_api_watch_events_total", METRIC_COUNTER, "Events of watches.");
	for (unsigned i = 0; i < w->count; i++) {
		for (unsigned e = 0; e < API_EVENT_COUNT; e++)
			metrics_value(m, (double)w->streams[i].events[e], "resource",
			    w->streams[i].label, "type", api_event_names[e], NULL);
	}
	metrics_family(m, "kubedns_api_relists_total", METRIC_COUNTER,
	    "Listings begun, by why they had to be.");
	for (unsigned i = 0; i < w->count; i++) {
		for (unsigned r = 0; r < RELIST_COUNT; r++)
			metrics_value(m, (double)reflector_relists(w->streams[i].reflector, r),
			    "resource", w->streams[i].label, "reason", relist_reason_name(r), NULL);
	}
}

static void
write_gauges(const struct api_source *w, struct metrics *m)
{
	metrics_family(m, "kubedns_api_last_event_timestamp_seconds", METRIC_GAUGE,
	    "When the last event of a watch came, bookmarks included; 0: none yet.");
	for (unsigned i = 0; i < w->count; i++)
		metrics_value(m, w->streams[i].last_event, "resource", w->streams[i].label, NULL);
	metrics_family(m, "kubedns_api_synced", METRIC_GAUGE,
	    "Whether the resource has been listed whole at least once.");
	for (unsigned i = 0; i < w->count; i++)
		metrics_value(m, reflector_synced(w->streams[i].reflector), "resource",
		    w->streams[i].label, NULL);
	metrics_family(m, "kubedns_api_failing", METRIC_GAUGE,
	    "Whether the last request for the resource failed.");
	for (unsigned i = 0; i < w->count; i++)
		metrics_value(
		    m, w->streams[i].problem != NULL, "resource", w->streams[i].label, NULL);
}

void
api_source_metrics(const struct api_source *w, struct metrics *m)
{
	if (!w)
		return;
	write_requests(w, m);
	write_changes(w, m);
	write_gauges(w, m);
	metrics_family(m, "kubedns_api_objects_rejected_total", METRIC_COUNTER,
	    "Objects that made no sense and were left out.");
	for (unsigned i = 0; i < w->count; i++)
		metrics_value(
		    m, (double)w->streams[i].rejected, "resource", w->streams[i].label, NULL);
	metrics_family(m, "kubedns_api_received_bytes_total", METRIC_COUNTER,
	    "Bytes of answers' bodies, as they came over the network.");
	metrics_value(m, (double)w->received_bytes, NULL);
	metrics_family(m, "kubedns_api_endpoints_fallback", METRIC_GAUGE,
	    "1 while Endpoints are used because EndpointSlices are forbidden or not served.");
	metrics_value(m, w->streams[API_ENDPOINTS].wanted, NULL);
}
