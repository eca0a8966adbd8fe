#include "kubedns/api/api_source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "kubedns/api/resource_watch.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/percent.h"
#include "lib/version.h"
#include "lib/xalloc.h"

#define HEADLESS_LABEL "service.kubernetes.io/headless"

enum { FDS_MAX = 32 };

static bool
given(const char *s)
{
	return s && *s;
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
	snprintf(text, sizeof(text), "kubedns/%s (linux/%.32s)", suite_version, arch);
	return text;
}

void
resource_watch_select(
    struct resource_watch *s, const char *parameter, const char *prefix, const char *value)
{
	char *plain = xasprintf("%s%s", prefix, value);
	char *escaped = percent_encode(plain);
	char *more = xasprintf("%s&%s=%s", s->selector, parameter, escaped);
	free(escaped);
	free(plain);
	free(s->selector);
	s->selector = more;
}

void
resource_watch_select_namespace(struct resource_watch *s, const char *namespace)
{
	char *escaped = percent_encode(namespace);
	const struct api_resource *of = s->resource;
	free(s->place);
	s->place = xasprintf("%s/namespaces/%s/%s", of->group_path, escaped, of->name);
	if (s->other) {
		free(s->other);
		s->other = xasprintf("%s/namespaces/%s/%s", of->other_path, escaped, of->name);
	}
	free(escaped);
}

/* Chooses what the configuration needs: the resources, and which of their objects. */
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
	if (config->namespace_labels)
		streams[API_NAMESPACES].keep = json_prune_namespace_labels;
	reflector_set_optional(streams[API_NAMESPACES].reflector, !w->namespaces_required);
	reflector_set_optional(streams[API_PODS].reflector, !w->pods_required);
	for (unsigned i = API_INGRESSES; i < w->kinds; i++) {
		streams[i].wanted = i == API_IMPORTS ? config->imports : config->external;
		/* Not rarely: a CRD may come at any time. */
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
		/* Set by the controllers that make them, without a value. */
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
	/* A single namespace is asked for alone, and a Role in it is enough; for several, objects
	 * of all namespaces are read and the others dropped. */
	if (w->namespaces && w->namespaces[0] && !w->namespaces[1]) {
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
	while (list && list[n])
		n++;
	if (n == 0)
		return NULL;
	const char **copy = xcalloc(n + 1, sizeof(*copy));
	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(list[i]);
	return copy;
}

/* The source begins without a connection. */
static void
new_connections(struct api_source *w)
{
	w->multi = curl_multi_init();
	if (!w->multi)
		log_fatalx("out of memory");
	w->stale = false;
}

struct api_source *
api_source_new(
    const struct api_source_config *config, event_sink sink, hosts_sink *hosts, void *arg)
{
	struct api_credentials_source source = source_of(config);
	struct api_source *w = xcalloc(1, sizeof(*w));
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
	if (!w)
		return;
	for (unsigned i = 0; i < w->count; i++)
		resource_watch_clear(&w->streams[i]);
	curl_multi_cleanup(w->multi);
	curl_global_cleanup();
	api_credentials_free(&w->server);
	for (const char **n = w->namespaces; n && *n; n++)
		free((char *)(uintptr_t)*n);
	free(w->namespaces);
	free(w->out);
	free(w);
}

/*
 * When the next request may start at the earliest. While the server cannot be reached, one resource
 * tries for all of them: the cost does not depend on their number, and none of them has a backoff
 * of its own to sit out when the server is back.
 */
static int64_t
gate_ms(const struct api_source *w)
{
	if (!w->away)
		return 0;
	for (unsigned i = 0; i < w->count; i++) {
		if (reflector_running(w->streams[i].reflector) && !w->streams[i].reached)
			return INT64_MAX;
	}
	return w->away_due_ms;
}

static int64_t
max_ms(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The watch's own next deadline. */
static int64_t
next_deadline(const struct api_source *w, int64_t now)
{
	int64_t next = w->no_api ? INT64_MAX : api_source_ready_due_ms(w, now);
	int64_t gate = gate_ms(w);
	bool token = api_credentials_has_token(&w->server);
	for (unsigned i = 0; i < w->count && !w->no_api; i++) {
		const struct resource_watch *s = &w->streams[i];
		const struct reflector *r = s->reflector;
		const char *why;
		int64_t at = INT64_MAX;
		if (reflector_running(r))
			at = reflector_deadline_ms(r, &why);
		else if (s->wanted)
			at = !token ? w->server.token_due_ms : max_ms(reflector_due_ms(r), gate);
		next = at < next ? at : next;
	}
	return next;
}

static int
wait_time(const struct api_source *w, int timeout_ms)
{
	int64_t now = clock_mono_ms(), next = next_deadline(w, now),
		wait = next == INT64_MAX ? INT32_MAX : next - now;
	if (wait < 0)
		wait = 0;
	if (timeout_ms >= 0 && wait > timeout_ms)
		wait = timeout_ms;
	return wait > INT32_MAX ? INT32_MAX : (int)wait;
}

int
api_source_wait(struct api_source *w, struct pollfd *fds, size_t count, int timeout_ms)
{
	struct curl_waitfd extra[FDS_MAX];
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
	curl_multi_poll(w->multi, extra, n, wait_time(w, timeout_ms), NULL);
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

/* Whether the server denies EndpointSlices, but not Services: one that denies both, or has changed,
 * does not tell. */
static bool
slices_alone_denied(struct api_source *w)
{
	struct reflector *slices = w->streams[API_SLICES].reflector;
	if (reflector_denied_since_ms(w->streams[API_SERVICES].reflector))
		reflector_denial_restart(slices);
	return reflector_denied(slices);
}

/*
 * Watches Endpoints in place of EndpointSlices that stay denied, until a listing of slices begins
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

/* Lists slices anew, without the selector; not from libcurl's callbacks, in which events arrive. */
static void
drop_headless_selector(struct api_source *w)
{
	static const enum api_resource_id both[] = { API_SLICES, API_ENDPOINTS };

	if (!w->headless_slices || !w->all_slices)
		return;
	w->headless_slices = false;
	for (unsigned i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
		struct resource_watch *s = &w->streams[both[i]];
		resource_watch_stop(s);
		reflector_restart(s->reflector);
		*s->selector = '\0';
	}
	log_info("endpointslices: all are watched from now on, since there are federations");
}

static void
read_messages(struct api_source *w, int64_t now)
{
	CURLMsg *message;
	int left;
	while ((message = curl_multi_info_read(w->multi, &left))) {
		char *stream = NULL;
		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &stream);
		CURLcode code = message->data.result;
		if (code == CURLE_ABORTED_BY_CALLBACK) /* by on_request: the connection was dead */
			code = CURLE_RECV_ERROR;
		resource_watch_finish((struct resource_watch *)(void *)stream, now, code);
	}
}

/* Ends live watches after a GOAWAY: the server is stopping, and would leave them silent. */
static void
leave_connection(struct api_source *w, int64_t now)
{
	for (unsigned i = 0; i < w->count && w->goaway; i++) {
		struct resource_watch *s = &w->streams[i];
		if (reflector_running(s->reflector) && s->status == 200 &&
		    !reflector_listing(s->reflector) && s->verb == API_VERB_WATCH)
			resource_watch_break(s, now, "the server is stopping");
	}
	w->goaway = false;
}

/*
 * Gives up all connections after one of them was stale: libcurl closes none that it believes alive, and
 * would choose the stale one again and again. The requests on the others begin anew, with a probe.
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
			resource_watch_break(s, now, "a connection brings no answers");
		} else { /* not sent yet */
			resource_watch_stop(s);
			reflector_doubt(s->reflector);
		}
	}
	curl_multi_cleanup(w->multi);
	new_connections(w);
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
