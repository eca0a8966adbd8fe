#include "kubedns/api/api_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "kubedns/api/resource_watch.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/version.h"
#include "lib/xalloc.h"

#define HEADLESS_LABEL "service.kubernetes.io/headless"

enum { FDS_MAX = 32 };

static bool
given(const char *s)
{
	return s != NULL && *s;
}

static struct api_credentials_source
source_of(const struct api_source_config *config)
{
	return (struct api_credentials_source){
		.kubecfg_file = config->kubecfg_file,
		.master_url = config->master_url,
		.serviceaccount_dir = config->serviceaccount_dir,
	};
}

int
api_source_check(const struct api_source_config *config)
{
	struct api_credentials cluster;
	struct api_credentials_source source = source_of(config);

	if (config->no_api)
		return 0;
	int error = api_credentials_find(&cluster, &source);
	if (error == 0)
		log_info("api %s (%s)", cluster.shown_url, cluster.origin);
	api_credentials_free(&cluster);
	return error;
}

static const char *
user_agent(void)
{
	static char text[128];
	struct utsname u;
	const char *arch = uname(&u) == 0 ? u.machine : "unknown";

	if (strcmp(arch, "x86_64") == 0)
		arch = "amd64";
	else if (strcmp(arch, "aarch64") == 0)
		arch = "arm64";
	snprintf(text, sizeof text, "kubedns/%s (linux/%.32s)", suite_version, arch);
	return text;
}

/* Selects the resources that the configuration needs, and which of their objects. */
static void
choose_resources(struct api_source *w, const struct api_source_config *config)
{
	struct resource_watch *streams = w->streams;

	streams[API_SERVICES].wanted = streams[API_SLICES].wanted = streams[API_NAMESPACES].wanted =
	    true;
	streams[API_PODS].wanted = config->pods;
	if (config->pods_node != NULL)
		resource_watch_select(
		    &streams[API_PODS], "fieldSelector", "spec.nodeName=", config->pods_node);
	streams[API_NODES].wanted = config->nodes;
	streams[API_CONFIGMAPS].wanted = given(config->config_map);
	w->namespaces_required = config->namespace_labels || config->visibility;
	w->pods_required = config->visibility;
	if (config->namespace_labels || config->all_labels)
		streams[API_NAMESPACES].keep = json_prune_namespace_labels;
	reflector_set_optional(streams[API_NAMESPACES].reflector, !w->namespaces_required);
	reflector_set_optional(streams[API_PODS].reflector, !w->pods_required);
	for (unsigned i = API_INGRESSES; i < w->kinds; i++) {
		streams[i].wanted = i == API_IMPORTS ? config->imports : config->external;
		/* An optional resource that is missing is requested rarely. This one is not
		 * optional, because its CRD may be installed at any time. */
		reflector_set_optional(streams[i].reflector, false);
	}
	if (config->external)
		streams[API_SERVICES].keep = json_prune_service_external;
	streams[API_SLICES].keep =
	    json_prune_slice_for(config->endpoint_pods, config->imports, config->places);
	if (given(config->endpointslice_selector)) {
		resource_watch_select(
		    &streams[API_SLICES], "labelSelector", "", config->endpointslice_selector);
	} else if (config->headless_slices) {
		/* The controllers that create slices set this label, without a value. */
		w->headless_slices = true;
		resource_watch_select(&streams[API_SLICES], "labelSelector", "", HEADLESS_LABEL);
		resource_watch_select(&streams[API_ENDPOINTS], "labelSelector", "", HEADLESS_LABEL);
	}
	api_hosts_maps_choose(w, config->hosts_namespaces);
	for (unsigned i = 0; i < w->count; i++)
		reflector_set_spread(streams[i].reflector, config->one_of_many);
	if (given(config->config_map)) {
		const char *ns = config->config_map_namespace;

		resource_watch_select_namespace(
		    &streams[API_CONFIGMAPS], given(ns) ? ns : "kube-system");
		resource_watch_select(&streams[API_CONFIGMAPS], "fieldSelector",
		    "metadata.name=", config->config_map);
	}
	/*
	 * If only one namespace is configured, only its objects are requested, and a Role in it is
	 * enough. If several are configured, the objects of all namespaces are read, and the
	 * objects of other namespaces are ignored.
	 */
	if (w->namespaces != NULL && w->namespaces[0] != NULL && w->namespaces[1] == NULL) {
		for (unsigned i = 0; i < w->kinds; i++) {
			if (api_resources[i].namespaced && i != API_CONFIGMAPS)
				resource_watch_select_namespace(&streams[i], w->namespaces[0]);
		}
		resource_watch_select(
		    &streams[API_NAMESPACES], "fieldSelector", "metadata.name=", w->namespaces[0]);
	}
}

static const char **
copy_list(const char *const *list)
{
	size_t n = 0;

	while (list != NULL && list[n] != NULL)
		n++;
	if (n == 0)
		return NULL;
	const char **copy = xcalloc(n + 1, sizeof *copy);
	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(list[i]);
	return copy;
}

/* Makes a new multi handle, which has no connections yet. */
static void
new_connections(struct api_source *w)
{
	w->multi = curl_multi_init();
	if (w->multi == NULL)
		log_fatalx("out of memory");
	w->stale = false;
}

struct api_source *
api_source_new(
    const struct api_source_config *config, event_sink sink, hosts_sink *hosts, void *arg)
{
	struct api_credentials_source source = source_of(config);
	struct api_source *w = xcalloc(1, sizeof *w);

	w->no_api = config->no_api;
	w->sink = sink;
	w->hosts = hosts;
	w->arg = arg;
	w->server.memory[0] = w->server.memory[1] = w->server.memory[2] = -1;
	if (!w->no_api && api_credentials_find(&w->server, &source) != 0) {
		api_credentials_free(&w->server);
		free(w);
		return NULL;
	}
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		log_fatalx("libcurl cannot be initialised");
	new_connections(w);
	w->user_agent = user_agent();
	w->namespaces = copy_list(config->namespaces);
	w->external = config->external;
	w->imports = config->imports;
	w->count = w->kinds = config->imports    ? API_COUNT
			      : config->external ? API_IMPORTS
						 : API_INGRESSES;
	for (unsigned i = 0; i < w->kinds; i++)
		resource_watch_init(&w->streams[i], w, i);
	if (!w->no_api) {
		choose_resources(w, config);
		log_info("api %s (%s)", w->server.shown_url, w->server.origin);
	}
	return w;
}

void
api_source_needs(const struct api_source *w, struct sandbox *s)
{
	if (!w->no_api)
		api_credentials_needs(&w->server, s);
}

void
api_source_free(struct api_source *w)
{
	if (w == NULL)
		return;
	for (unsigned i = 0; i < w->count; i++)
		resource_watch_clear(&w->streams[i]);
	api_exact_free(w);
	curl_multi_cleanup(w->multi);
	curl_global_cleanup();
	api_credentials_free(&w->server);
	for (const char **n = w->namespaces; n != NULL && *n != NULL; n++)
		free((char *)(uintptr_t)*n);
	free(w->namespaces);
	free(w->out);
	free(w);
}

/*
 * Returns the earliest time for the next request. While the server is unreachable, only one
 * resource at a time tries to reach it. The cost thus does not depend on the number of resources.
 * When the server returns, no resource has to wait for its own backoff.
 */
static int64_t
gate_ms(const struct api_source *w)
{
	if (!w->away)
		return 0;
	for (unsigned i = 0; i < w->count; i++) {
		if (reflector_running(w->streams[i].reflector) && !w->streams[i].reached)
			return CLOCK_NEVER;
	}
	return w->away_due_ms;
}

static int64_t
max_ms(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Returns the next deadline of the source itself. */
static int64_t
next_deadline(const struct api_source *w, int64_t now)
{
	int64_t next = w->no_api ? CLOCK_NEVER : api_source_ready_due_ms(w, now);
	int64_t gate = gate_ms(w);

	next = clock_earlier(next, api_exact_due_ms(w));
	bool token = api_credentials_has_token(&w->server);

	for (unsigned i = 0; i < w->count && !w->no_api; i++) {
		const struct resource_watch *s = &w->streams[i];
		const struct reflector *r = s->reflector;
		const char *why;
		int64_t at = CLOCK_NEVER;

		if (reflector_running(r))
			at = reflector_deadline_ms(r, &why);
		else if (s->wanted)
			at = !token ? w->server.token_due_ms : max_ms(reflector_due_ms(r), gate);
		next = clock_earlier(next, at);
	}
	return next;
}

int
api_source_wait(struct api_source *w, struct pollfd *fds, size_t count, int64_t deadline_ms)
{
	struct curl_waitfd extra[FDS_MAX];
	int64_t now_ms = clock_mono_ms();
	int ready = 0;

	if (count > FDS_MAX)
		log_fatalx("api_source_wait: %zu descriptors", count);
	unsigned n = 0;
	for (size_t i = 0; i < count; i++) {
		fds[i].revents = 0;
		if (fds[i].fd < 0)
			continue;
		extra[n].fd = fds[i].fd;
		extra[n].events = (short)((fds[i].events & POLLIN ? CURL_WAIT_POLLIN : 0) |
					  (fds[i].events & POLLOUT ? CURL_WAIT_POLLOUT : 0));
		extra[n++].revents = 0;
	}
	deadline_ms = clock_earlier(deadline_ms, next_deadline(w, now_ms));
	/* curl_multi_poll() does not accept -1 for "no timeout". */
	int wait_ms = deadline_ms == CLOCK_NEVER ? INT_MAX : clock_wait_ms(deadline_ms, now_ms);
	curl_multi_poll(w->multi, extra, n, wait_ms, NULL);
	n = 0;
	for (size_t i = 0; i < count; i++) {
		if (fds[i].fd < 0)
			continue;
		short got = extra[n++].revents;
		fds[i].revents = (short)((got & CURL_WAIT_POLLIN ? POLLIN : 0) |
					 (got & CURL_WAIT_POLLOUT ? POLLOUT : 0));
		ready += fds[i].revents != 0;
	}
	return ready;
}

/* Whether the server denies EndpointSlices but not Services. If the server denies both kinds, or
 * has been replaced, the denial proves nothing about EndpointSlices. */
static bool
slices_alone_denied(struct api_source *w)
{
	struct reflector *slices = w->streams[API_SLICES].reflector;

	if (reflector_denied_since_ms(w->streams[API_SERVICES].reflector))
		reflector_denial_restart(slices);
	return reflector_denied(slices);
}

/*
 * If EndpointSlices stay denied, watches Endpoints instead, until a listing of slices starts
 * (resource_watch.c).
 */
static void
choose_endpoints(struct api_source *w)
{
	struct resource_watch *slices = &w->streams[API_SLICES];
	struct resource_watch *endpoints = &w->streams[API_ENDPOINTS];

	if (!endpoints->wanted && reflector_running(endpoints->reflector))
		resource_watch_stop(endpoints);
	reflector_set_optional(slices->reflector, endpoints->wanted);
	if (endpoints->wanted || !slices_alone_denied(w))
		return;
	log_warnx("endpointslices: %s: using Endpoints instead (at most 1,000 addresses of a "
		  "Service); apply the ClusterRole of conf/kubernetes, which grants list and watch "
		  "of endpointslices.discovery.k8s.io",
	    reflector_denied_status(slices->reflector) == 403 ? "forbidden" : "not served");
	reflector_restart(endpoints->reflector);
	endpoints->wanted = true;
}

/* Lists slices again, without the selector. Must not be called from libcurl's callbacks, which
 * handle the events. */
static void
drop_headless_selector(struct api_source *w)
{
	static const enum api_resource_id both[] = { API_SLICES, API_ENDPOINTS };

	if (!w->headless_slices || !w->all_slices)
		return;
	w->headless_slices = false;
	for (unsigned i = 0; i < sizeof both / sizeof both[0]; i++) {
		struct resource_watch *s = &w->streams[both[i]];

		resource_watch_stop(s);
		reflector_restart(s->reflector);
		*s->selector = '\0';
	}
	log_info("endpointslices: watching all EndpointSlices from now on, because the ConfigMap "
		 "has federations");
}

static void
read_messages(struct api_source *w, int64_t now)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(w->multi, &left)) != NULL) {
		char *stream = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &stream);
		CURLcode code = message->data.result;
		if (code == CURLE_ABORTED_BY_CALLBACK) /* on_request() aborted the request because
						        * the connection was dead */
			code = CURLE_RECV_ERROR;
		resource_watch_finish((struct resource_watch *)(void *)stream, now, code);
	}
}

/* Returns why the server has sent a GOAWAY, as far as kubedns can tell. kube-apiserver also sends one
 * with each 401. */
static const char *
goaway_reason(const struct api_source *w)
{
	for (unsigned i = 0; i < w->count; i++)
		if (w->streams[i].problem_kind == API_PROBLEM_UNAUTHORIZED)
			return "the server closes the connection (HTTP/2 GOAWAY) after a 401";
	return "the server closes the connection (HTTP/2 GOAWAY); it may be stopping";
}

/* Ends live watches after a GOAWAY, because a server that is stopping would leave them silent. */
static void
leave_connection(struct api_source *w, int64_t now)
{
	const char *why = w->goaway ? goaway_reason(w) : NULL;

	for (unsigned i = 0; i < w->count && w->goaway; i++) {
		struct resource_watch *s = &w->streams[i];

		if (reflector_running(s->reflector) && s->status == 200 &&
		    !reflector_listing(s->reflector) && s->verb == API_VERB_WATCH)
			resource_watch_break(s, now, why);
	}
	w->goaway = false;
}

/*
 * Closes all connections after one of them was found stale. libcurl does not close a connection
 * that it considers alive, and would choose the stale one again and again. The requests on the
 * other connections start again with a probe.
 */
static void
leave_all_connections(struct api_source *w, int64_t now)
{
	if (!w->stale)
		return;
	for (unsigned i = 0; i < w->count; i++) {
		struct resource_watch *s = &w->streams[i];

		if (!reflector_running(s->reflector))
			continue;
		if (s->reached) {
			resource_watch_break(s, now, "no answers on this connection");
		} else { /* the request has not been sent yet */
			resource_watch_stop(s);
			reflector_doubt(s->reflector);
		}
	}
	api_exact_drop(w);
	curl_multi_cleanup(w->multi);
	new_connections(w);
}

/* All resources have their versions from the same database. If one resource's versions went back, the
 * versions of the others prove nothing either, so everything is listed again. */
static void
spread_new_epoch(struct api_source *w, int64_t now)
{
	bool back = w->exact_back;

	w->exact_back = false;
	for (unsigned i = 0; i < w->count; i++)
		back |= reflector_take_back(w->streams[i].reflector);
	for (unsigned i = 0; back && i < w->count; i++) {
		struct resource_watch *s = &w->streams[i];

		if (!s->wanted || !reflector_synced(s->reflector) ||
		    reflector_follows_back(s->reflector))
			continue;
		resource_watch_stop(s);
		reflector_go_back(s->reflector, now);
	}
	if (back)
		api_exact_drop(w);
}

bool
api_source_run(struct api_source *w)
{
	int running;

	w->emitted = false;
	curl_multi_perform(w->multi, &running);
	int64_t now = clock_mono_ms();
	if (w->no_api)
		return false;
	read_messages(w, now);
	leave_connection(w, now);
	leave_all_connections(w, now);
	api_credentials_token_refresh(&w->server, now, false);
	choose_endpoints(w);
	drop_headless_selector(w);
	spread_new_epoch(w, now);
	bool started = false;
	for (unsigned i = 0; i < w->count; i++) {
		struct resource_watch *s = &w->streams[i];
		const char *why = NULL;

		if (reflector_running(s->reflector) &&
		    now >= reflector_deadline_ms(s->reflector, &why))
			resource_watch_late(s, now, why);
		if (s->wanted && !reflector_running(s->reflector) &&
		    now >= reflector_due_ms(s->reflector) && now >= gate_ms(w) &&
		    api_credentials_has_token(&w->server)) {
			resource_watch_start(s, now);
			started = true;
		}
	}
	started |= api_exact_run(w, now);
	if (started)
		curl_multi_perform(w->multi, &running);
	api_source_check_ready(w, now);
	return w->emitted;
}

void
api_source_want_federations(struct api_source *w)
{
	if (!w->no_api)
		w->streams[API_NODES].wanted = true;
	w->all_slices = true;
}

/* --- --hosts-namespaces --- */

/* Watches the ConfigMaps of --hosts-namespaces. Each namespace has its own watch, which needs no
 * permission in another one. */

#define HOSTS_LABEL "kubedns/hosts=true"

void
api_hosts_maps_choose(struct api_source *w, const char *const *namespaces)
{
	for (; namespaces != NULL && *namespaces != NULL; namespaces++) {
		struct resource_watch *s = &w->streams[w->count++];

		resource_watch_init(s, w, API_COUNT);
		s->wanted = true;
		s->hosts_namespace = *namespaces;
		free(s->label);
		s->label = xasprintf("%s/%s", s->resource->name, *namespaces);
		resource_watch_select_namespace(s, *namespaces);
		resource_watch_select(s, "labelSelector", "", HOSTS_LABEL);
	}
}

/* --- readiness --- */

/* Decides when the data for the cluster's names is complete, and when the data for external and
 * clusterset zones is complete. Logs which kinds are still missing. */

/*
 * When the required resources are synced, the cluster's names wait at most this long for the
 * optional resources (namespaces, pods, nodes, ConfigMaps). A healthy server lists all of them
 * immediately.
 */
enum { OPTIONAL_GRACE_MS = 2000 };

/* Readiness waits at most this long for external and clusterset zones. The cluster's names do not
 * wait for these zones. The time is long enough to find out that a kind is missing or forbidden. */
enum { ZONES_GRACE_MS = 5000 };

static bool
is_settled(const struct resource_watch *s, int64_t now)
{
	int64_t denied_ms = reflector_denied_since_ms(s->reflector);

	return !s->wanted || reflector_synced(s->reflector) ||
	       (denied_ms && now - denied_ms >= API_SETTLE_MS);
}

/* Whether only external or clusterset zones use the resource. */
static bool
is_beside_cluster(const struct api_source *w, unsigned i)
{
	return i >= API_INGRESSES && i < w->kinds;
}

static void
check_ready(struct api_source *w, int64_t now)
{
	const struct resource_watch *s = w->streams;

	if (w->ready || w->no_api)
		return;
	if (!reflector_synced(s[API_SERVICES].reflector) ||
	    !(reflector_synced(s[API_SLICES].reflector) ||
		reflector_synced(s[API_ENDPOINTS].reflector)) ||
	    (w->namespaces_required && !reflector_synced(s[API_NAMESPACES].reflector)) ||
	    (w->pods_required && !reflector_synced(s[API_PODS].reflector)))
		return;
	if (!w->required_ms)
		w->required_ms = now;
	bool all = true;
	for (unsigned i = API_NAMESPACES; i < w->count; i++)
		all = all && (is_beside_cluster(w, i) || is_settled(&s[i], now));
	w->ready = all || now - w->required_ms >= OPTIONAL_GRACE_MS;
}

const char *
api_source_zones(const struct api_source *w)
{
	return !w->imports    ? "external zones"
	       : !w->external ? "the zone of --clusterset-domain"
			      : "external zones and that of --clusterset-domain";
}

/* Logs the kinds that the external and clusterset zones wait for. */
static void
say_external_missing(const struct api_source *w, int64_t now)
{
	for (unsigned i = API_INGRESSES; i < w->kinds; i++)
		if (!is_settled(&w->streams[i], now))
			log_warnx("%s: not listed yet: until they are listed, queries for names in "
				  "%s get SERVFAIL, and these zones are not transferred",
			    w->streams[i].resource->name, api_source_zones(w));
}

/*
 * Checks whether the external and clusterset zones are complete. Kinds that may not be read are
 * ignored. If the listing of a kind fails, the zones wait for that kind. Otherwise secondaries
 * would get an incomplete zone as the newest version.
 */
static void
check_external_ready(struct api_source *w, int64_t now)
{
	bool all = true;

	if (w->external_ready || !w->ready)
		return;
	for (unsigned i = API_INGRESSES; i < w->kinds; i++)
		all = all && is_settled(&w->streams[i], now);
	w->external_ready = all;
	if (all && w->external_said)
		log_info("%s: all their objects are listed", api_source_zones(w));
	if (all || w->external_said || now - w->required_ms < ZONES_GRACE_MS)
		return;
	w->external_said = true;
	say_external_missing(w, now);
}

/* Whether this resource's first list has been overdue for API_SILENT_MS, and the delay has not been
 * logged yet. */
static bool
is_news_of_silence(const struct resource_watch *s, int64_t now)
{
	int64_t since_ms = reflector_silent_since_ms(s->reflector);

	return s->wanted && !s->said_silent && !reflector_synced(s->reflector) && since_ms &&
	       now - since_ms >= API_SILENT_MS;
}

/* Logs list requests that the server has accepted but not answered. Such a request fails only after
 * a minute, and nothing would be logged until then. */
static void
say_silent(struct api_source *w, int64_t now)
{
	char *names = NULL;

	for (unsigned i = 0; i < w->count; i++) {
		struct resource_watch *s = &w->streams[i];

		if (!is_news_of_silence(s, now))
			continue;
		s->said_silent = true;
		char *more =
		    names == NULL ? xstrdup(s->label) : xasprintf("%s, %s", names, s->label);
		free(names);
		names = more;
	}
	if (names != NULL)
		log_warnx(
		    "api %s: no response for %d s to the request to list %s; still waiting: is the "
		    "server overloaded, or is there a proxy between kubedns and the server?",
		    w->server.shown_url, API_SILENT_MS / 1000, names);
	free(names);
}

void
api_source_check_ready(struct api_source *w, int64_t now)
{
	check_ready(w, now);
	check_external_ready(w, now);
	say_silent(w, now);
}

int64_t
api_source_ready_due_ms(const struct api_source *w, int64_t now)
{
	int64_t due_ms = CLOCK_NEVER;

	if (!w->ready && w->required_ms)
		due_ms = w->required_ms + OPTIONAL_GRACE_MS;
	else if (w->ready && !w->external_ready && !w->external_said)
		due_ms = w->required_ms + ZONES_GRACE_MS;
	for (unsigned i = 0; i < w->count; i++) {
		const struct resource_watch *s = &w->streams[i];
		const struct reflector *r = s->reflector;
		int64_t settled_ms = reflector_denied_since_ms(r) + API_SETTLE_MS,
			silent_ms = reflector_silent_since_ms(r);

		if (!(w->ready && w->external_ready) && reflector_denied_since_ms(r) &&
		    settled_ms > now && settled_ms < due_ms)
			due_ms = settled_ms;
		if (s->wanted && !s->said_silent && !reflector_synced(r) && silent_ms &&
		    silent_ms + API_SILENT_MS < due_ms)
			due_ms = silent_ms + API_SILENT_MS;
	}
	return due_ms;
}

bool
api_source_ready(const struct api_source *w)
{
	return w != NULL && w->ready;
}

bool
api_source_external_ready(const struct api_source *w)
{
	return w == NULL || w->no_api || w->external_ready;
}

bool
api_source_awaits_zones(const struct api_source *w)
{
	return w != NULL && w->ready && !api_source_external_ready(w) &&
	       clock_mono_ms() - w->required_ms < ZONES_GRACE_MS;
}

/* --- reports --- */

/* Reports on the source: readiness with reasons, and metrics. */

/* Returns how long a response has been overdue, or 0 if the delay is too short to be reported. */
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
		    reflector_synced(r) ? "synced, being listed again" : "listing", objects);
	else if (reflector_synced(r))
		fprintf(f, "synced");
	else if (!api_credentials_has_token(&s->watch->server))
		fprintf(f, "waiting for the token%s%s", reasons ? " " : "",
		    reasons ? s->watch->server.token_file : "");
	else
		fprintf(f, "not synced");
	if (s->problem != NULL)
		fprintf(f, "; %s", reasons ? s->problem : "failing");
	write_silence(f, s, reasons);
	fputc('\n', f);
}

/* Writes one line for each kind of degraded operation. */
static void
write_notes(FILE *f, const struct api_source *w)
{
	if (w != NULL && w->streams[API_ENDPOINTS].wanted)
		fputs("endpointslices: denied; using Endpoints, at most 1,000 addresses of a "
		      "Service: apply "
		      "the ClusterRole\n",
		    f);
	for (unsigned i = w != NULL ? w->kinds : 0; w != NULL && i < w->count; i++)
		if (reflector_denied(w->streams[i].reflector))
			fprintf(f,
			    "%s: denied, so their names are missing: grant list and watch of "
			    "configmaps in this namespace, as components/hosts does\n",
			    w->streams[i].label);
	if (w != NULL && w->ready && !w->external_ready)
		fprintf(f,
		    "%s: queries get SERVFAIL until kubedns has listed all objects with such "
		    "names\n",
		    api_source_zones(w));
	if (w != NULL && w->streams[API_NAMESPACES].wanted &&
	    reflector_denied(w->streams[API_NAMESPACES].reflector)) {
		if (w->namespaces_required)
			fprintf(f, "namespaces: denied, and %s needs them: apply the ClusterRole\n",
			    w->pods_required ? "--visibility" : "--namespace-labels");
		else
			fputs("namespaces: denied, so kubedns infers them from Services: apply the "
			      "ClusterRole\n",
			    f);
	}
	if (w != NULL && w->streams[API_PODS].wanted &&
	    reflector_denied(w->streams[API_PODS].reflector))
		fputs(w->pods_required ? "pods: denied, and --visibility needs them: grant list "
					 "and watch of pods\n"
				       : "pods: denied, so clients and names of pods are unknown: "
					 "grant list and watch of pods\n",
		    f);
}

char *
api_source_notes(const struct api_source *w)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
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

	if (f == NULL)
		log_fatal("out of memory");
	for (unsigned i = 0; w != NULL && i < w->count; i++) {
		if (w->streams[i].wanted)
			write_state(f, &w->streams[i], reasons);
	}
	write_notes(f, w);
	fclose(f);
	return text;
}

size_t
api_source_problems(
    const struct api_source *w, struct api_source_problem *problems, size_t capacity)
{
	size_t count = 0;

	for (unsigned i = 0; w != NULL && i < w->count && count < capacity; i++) {
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

size_t
api_source_versions(
    const struct api_source *w, struct api_source_version versions[API_SOURCE_VERSIONS_MAX])
{
	static const enum api_resource_id ids[] = { API_SERVICES, API_SLICES, API_ENDPOINTS,
		API_NAMESPACES };
	size_t count = 0;

	_Static_assert(sizeof ids / sizeof ids[0] <= API_SOURCE_VERSIONS_MAX, "all fit");
	for (size_t i = 0; w != NULL && !w->no_api && i < sizeof ids / sizeof ids[0]; i++) {
		const struct resource_watch *s = &w->streams[ids[i]];
		struct reflector_versions held = reflector_versions(s->reflector);

		if (s->wanted &&
		    (reflector_synced(s->reflector) || !reflector_denied(s->reflector)))
			versions[count++] =
			    (struct api_source_version){ s->label, held.first, held.last };
	}
	return count;
}

int64_t
api_source_failing_since_ms(const struct api_source *w)
{
	static const enum api_resource_id needed[] = { API_SERVICES, API_SLICES, API_ENDPOINTS };
	int64_t since_ms = 0;

	for (size_t i = 0; w != NULL && i < sizeof needed / sizeof needed[0]; i++) {
		const struct resource_watch *s = &w->streams[needed[i]];

		if (!s->wanted || s->problem == NULL || !reflector_synced(s->reflector) ||
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
	    "Requests to the API server, by HTTP status code; none: no response came.");
	for (unsigned i = 0; i < w->count; i++) {
		for (unsigned v = 0; v < API_VERB_COUNT; v++) {
			for (unsigned c = 0; c < API_CODE_COUNT; c++) {
				char code[12];

				if (c < API_CODE_OTHER)
					snprintf(code, sizeof code, "%d", api_codes[c]);
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
	metrics_family(
	    m, "kubedns_api_watch_events_total", METRIC_COUNTER, "Events received from watches.");
	for (unsigned i = 0; i < w->count; i++) {
		for (unsigned e = 0; e < API_EVENT_COUNT; e++)
			metrics_value(m, (double)w->streams[i].events[e], "resource",
			    w->streams[i].label, "type", api_event_names[e], NULL);
	}
	metrics_family(m, "kubedns_api_relists_total", METRIC_COUNTER,
	    "Lists of a resource that were started, by reason.");
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
	    "Unix time of the last watch event, including bookmarks; 0: none yet.");
	for (unsigned i = 0; i < w->count; i++)
		metrics_value(m, w->streams[i].last_event, "resource", w->streams[i].label, NULL);
	metrics_family(m, "kubedns_api_synced", METRIC_GAUGE,
	    "1 if the resource has been listed completely at least once.");
	for (unsigned i = 0; i < w->count; i++)
		metrics_value(m, reflector_synced(w->streams[i].reflector), "resource",
		    w->streams[i].label, NULL);
	metrics_family(m, "kubedns_api_failing", METRIC_GAUGE,
	    "1 from a failed request until a list is complete or a watch works.");
	for (unsigned i = 0; i < w->count; i++)
		metrics_value(
		    m, w->streams[i].problem != NULL, "resource", w->streams[i].label, NULL);
}

void
api_source_metrics(const struct api_source *w, struct metrics *m)
{
	if (w == NULL)
		return;
	write_requests(w, m);
	write_changes(w, m);
	write_gauges(w, m);
	metrics_family(m, "kubedns_api_objects_rejected_total", METRIC_COUNTER,
	    "Invalid objects that were ignored.");
	for (unsigned i = 0; i < w->count; i++)
		metrics_value(
		    m, (double)w->streams[i].rejected, "resource", w->streams[i].label, NULL);
	metrics_family(m, "kubedns_api_received_bytes_total", METRIC_COUNTER,
	    "Bytes of response bodies, as received from the network.");
	metrics_value(m, (double)w->received_bytes, NULL);
	metrics_family(m, "kubedns_api_endpoints_fallback", METRIC_GAUGE,
	    "1 while Endpoints are used because EndpointSlices are forbidden or not served.");
	metrics_value(m, w->streams[API_ENDPOINTS].wanted, NULL);
}
