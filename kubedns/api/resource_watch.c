#include "kubedns/api/resource_watch.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/api/api_error.h"
#include "kubedns/api/response_objects.h"
#include "lib/clock.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	RECEIVE_BUFFER = 64 << 10,
	WAKE_JITTER_MS = 500,
};

void
resource_watch_emit(struct resource_watch *s, enum event_type type, const struct object *object)
{
	if (s->hosts_namespace != NULL)
		s->watch->hosts(s->watch->arg, s->hosts_namespace, type, object);
	else
		s->watch->sink(s->watch->arg, s->resource->object, type, object);
	s->watch->emitted = true;
}

static void
count_received(struct resource_watch *s)
{
	curl_off_t now = 0;
	curl_easy_getinfo(s->easy, CURLINFO_SIZE_DOWNLOAD_T, &now);
	if (now > s->received)
		s->watch->received_bytes += (uint64_t)(now - s->received);
	s->received = now;
}

static void
count_request(struct resource_watch *s)
{
	unsigned code = 0;
	while (code < API_CODE_OTHER && api_codes[code] != s->status)
		code++;
	s->requests[s->verb][s->status ? code : API_CODE_NONE]++;
}

static void
clear_problem(struct resource_watch *s)
{
	struct api_source *w = s->watch;
	if (w->server_problem)
		log_info("api %s: answers", w->server.shown_url);
	w->server_problem = CURLE_OK;
	if (s->problem && s->problem_local)
		log_info(
		    "%s: %s works again", s->label, s->verb == API_VERB_WATCH ? "watch" : "list");
	free(s->problem);
	s->problem = NULL;
	s->problem_kind = API_PROBLEM_NONE;
	s->problem_since_ms = 0;
}

/* Takes the words for what is wrong. */
static void
set_problem(struct resource_watch *s, enum api_problem kind, char *text, bool local)
{
	free(s->problem);
	s->problem = text;
	s->problem_kind = kind;
	s->problem_local = local;
	if (s->problem_since_ms == 0)
		s->problem_since_ms = clock_mono_ms();
}

/*
 * Whether the request got no connection, so that no resource can. A failed certificate check does
 * not count: a server was reached, and has paid for a handshake.
 */
static bool
is_unreached(const struct resource_watch *s, CURLcode code)
{
	return !s->reached && !s->status && code != CURLE_PEER_FAILED_VERIFICATION;
}

/* Of several requests that fail at the same time only the first raises the backoff. */
static void
server_is_away(struct api_source *w, int64_t now_ms)
{
	if (w->away && now_ms < w->away_due_ms)
		return;
	w->away = true;
	w->away_due_ms = now_ms + backoff_failed(&w->away_backoff, now_ms, BACKOFF_AWAY_MAX_MS);
}

/*
 * There is a connection, and the request goes out. If this is the second time, libcurl has found
 * the kept connection dead and repeats the request on a new one by itself. A watch may not be
 * repeated: the server at the other end may be behind the one that the probe asked.
 */
static int
on_request(void *arg, char *to, char *from, int to_port, int from_port)
{
	struct resource_watch *s = arg;
	(void)to;
	(void)from;
	(void)to_port;
	(void)from_port;
	if (s->reached && reflector_phase(s->reflector) == REFLECTOR_WATCH)
		return CURL_PREREQFUNC_ABORT;
	s->reached = true;
	s->watch->away = false;
	backoff_good(&s->watch->away_backoff, clock_mono_ms());
	return CURL_PREREQFUNC_OK;
}

/* The server can be reached again: the resources that wait for that start soon. */
static void
wake_others(const struct resource_watch *s)
{
	struct resource_watch *streams = s->watch->streams;
	int64_t soon = clock_mono_ms() + backoff_jitter(WAKE_JITTER_MS);
	for (unsigned i = 0; i < s->watch->count; i++) {
		if (streams[i].unanswered)
			reflector_bring_forward(streams[i].reflector, soon);
	}
}

/* The status line and all headers are there. */
static void
headers_arrived(struct resource_watch *s)
{
	long status = 0;
	curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200 || s->status)
		return;
	s->status = (int)status;
	count_request(s);
	if (status != 200)
		return;
	wake_others(s);
	response_objects_begin(s);
	if (!reflector_answered(s->reflector, clock_mono_ms()) || !s->wanted)
		return;
	s->objects = 0;
	if (s->id == API_SLICES && s->watch->streams[API_ENDPOINTS].wanted) {
		/* Its events must not mix with ours; the request is ended by the next turn. */
		s->watch->streams[API_ENDPOINTS].wanted = false;
		log_info("endpointslices: allowed again; Endpoints are no longer used");
	}
	resource_watch_emit(s, EVENT_LISTING, NULL);
}

static size_t
on_header(char *line, size_t size, size_t count, void *arg)
{
	if (size * count <= 2 && (*line == '\r' || *line == '\n'))
		headers_arrived(arg);
	return size * count;
}

static size_t
on_body(char *bytes, size_t size, size_t count, void *arg)
{
	struct resource_watch *s = arg;
	size_t len = size * count;
	count_received(s);
	if (s->status == 200)
		reflector_progress(s->reflector, clock_mono_ms(), len);
	int error = response_objects_take(s, bytes, len);
	if (s->status == 200 && !s->malformed && !error && s->problem)
		clear_problem(s);
	s->missing = s->missing && s->status != 200;
	return error ? CURL_WRITEFUNC_ERROR : len;
}

static void
clear_request(struct resource_watch *s)
{
	response_objects_forget(s);
	s->status = 0;
	s->reached = false;
	s->received = 0;
	s->curl_error[0] = '\0';
}

void
resource_watch_start(struct resource_watch *s, int64_t now_ms)
{
	struct api_source *w = s->watch;
	const char *verb = NULL;
	char *query = reflector_query(s->reflector, now_ms, &verb);
	char *url = xasprintf("%s%s?%s%s", w->server.url, s->place, query, s->selector);
	clear_request(s);
	s->said_silent = false;
	s->verb = *verb == 'w' ? API_VERB_WATCH : API_VERB_LIST;
	curl_easy_reset(s->easy);
	curl_easy_setopt(s->easy, CURLOPT_URL, url);
	curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
	curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, s->curl_error);
	curl_easy_setopt(s->easy, CURLOPT_PREREQFUNCTION, on_request);
	curl_easy_setopt(s->easy, CURLOPT_PREREQDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(s->easy, CURLOPT_HEADERDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(s->easy, CURLOPT_BUFFERSIZE, (long)RECEIVE_BUFFER);
	api_request_setup(s);
	s->fresh = false;
	log_debug("%s: %s %s", s->label, verb, url);
	if (curl_multi_add_handle(w->multi, s->easy) != CURLM_OK)
		log_fatalx("out of memory");
	free(query);
	free(url);
}

/* Sets what is wrong with this resource; logs it when it is new. */
static void
set_own_problem(struct resource_watch *s, enum api_problem kind, char *text)
{
	if (!s->problem || strcmp(s->problem, text) != 0)
		log_warnx("api %s: %s: %s", s->watch->server.shown_url, s->label, text);
	set_problem(s, kind, text, true);
}

/*
 * Sets what is wrong with the server as a whole, and logs it once for all resources, even if the
 * details differ at each attempt.
 */
static void
set_server_problem(struct resource_watch *s, CURLcode code)
{
	struct api_source *w = s->watch;
	set_problem(s, api_problem_of_transport(s, code), api_error_transport(s, code), false);
	if (w->server_problem != code)
		log_warnx("api %s: %s", w->server.shown_url, s->problem);
	w->server_problem = code;
}

/* The resource's CRD is not there: no fault, and it is found when it comes. */
static void
report_missing(struct resource_watch *s)
{
	bool last = !s->other || s->is_other; /* no other version may be there */

	if (last && !s->missing)
		log_info("%s.%s: not served here, so none are read until they are",
		    s->resource->name, s->resource->group);
	s->missing = s->missing || last;
	clear_problem(s);
}

/* Logs how a request ended. */
static void
report_end(struct resource_watch *s, CURLcode code, bool clean)
{
	bool refused = s->status == 400 || s->status == 422;
	if (refused && reflector_phase(s->reflector) == REFLECTOR_WATCHLIST)
		log_info("%s: no watch list here (%d); listing in pages", s->label, s->status);
	else if (s->status == 410 || s->too_large)
		log_info("%s: %s", s->label, s->why && *s->why ? s->why : "version expired");
	else if (s->status == 404 && s->resource->may_be_missing)
		report_missing(s);
	else if (s->status && s->status != 200)
		set_own_problem(s, api_problem_of_status(s->status), api_error_status(s));
	else if (s->error_code)
		log_info("%s: watch ended by the server: %d %s", s->label, s->error_code, s->why);
	else if (s->malformed)
		set_own_problem(s, API_PROBLEM_OTHER,
		    xasprintf("%s: malformed answer: %s; keeping what is known, trying again",
			s->verb == API_VERB_WATCH ? "watch" : "list", s->why));
	else if (code == CURLE_OPERATION_TIMEDOUT && s->reached)
		set_own_problem(s, API_PROBLEM_SILENT, xstrdup(s->curl_error));
	else if (code != CURLE_OK)
		set_server_problem(s, code);
	else if (clean)
		clear_problem(s);
}

/* After a 404: the group's other version is asked at once, then, missing too, both now and then. */
static void
try_other_version(struct resource_watch *s, int64_t now_ms)
{
	char *place = s->place;

	s->place = s->other;
	s->other = place;
	s->is_other = !s->is_other;
	if (s->is_other)
		reflector_bring_forward(s->reflector, now_ms);
}

/*
 * Whether the request was sent on a connection that there was already, and got no answer. libcurl may go
 * on taking that for good: one whose peer has ended its side, and reads on, it may never find dead.
 */
static bool
connection_is_stale(const struct resource_watch *s)
{
	long made = 0;
	curl_easy_getinfo(s->easy, CURLINFO_NUM_CONNECTS, &made);
	return s->reached && !s->status && made == 0;
}

void
resource_watch_finish(struct resource_watch *s, int64_t now_ms, CURLcode code)
{
	struct api_source *w = s->watch;
	curl_off_t after_s = 0;
	count_received(s);
	if (!s->status)
		count_request(s);
	s->unanswered = !s->status;
	bool own = code == CURLE_WRITE_ERROR && (s->malformed || s->error_code);
	response_objects_end(s, code == CURLE_OK);
	curl_easy_getinfo(s->easy, CURLINFO_RETRY_AFTER, &after_s);
	struct reflector_end end = {
		.status = s->status,
		.unreached = is_unreached(s, code),
		.broken = code != CURLE_OK && !own,
		.malformed = s->malformed,
		.error_code = s->error_code,
		.too_large = s->too_large,
		.token = s->token,
		.retry_after_ms = after_s > 0 ? (int64_t)after_s * 1000 : -1,
		.new_token =
		    s->status == 401 && api_credentials_token_refresh(&w->server, now_ms, true),
	};
	if (end.unreached)
		server_is_away(w, now_ms);
	w->stale = w->stale || (end.broken && connection_is_stale(s));
	report_end(s, own ? CURLE_OK : code, !end.broken && !end.malformed);
	if (reflector_ended(s->reflector, now_ms, &end) && s->wanted) {
		resource_watch_emit(s, EVENT_SYNCED, NULL);
		log_info(
		    "%s: synced, %llu objects by list", s->label, (unsigned long long)s->objects);
	}
	if (end.status == 404 && s->other)
		try_other_version(s, now_ms);
	for (unsigned i = 0; i < w->count && (end.broken || !end.status); i++)
		reflector_doubt(w->streams[i].reflector);
	curl_multi_remove_handle(w->multi, s->easy);
	api_request_clear(s);
}

/* The next request uses a new connection. */
static void
end_request(struct resource_watch *s, int64_t now_ms, CURLcode code, const char *why)
{
	snprintf(s->curl_error, sizeof(s->curl_error), "%s", why);
	s->fresh = true;
	resource_watch_finish(s, now_ms, code);
}

void
resource_watch_break(struct resource_watch *s, int64_t now_ms, const char *why)
{
	end_request(s, now_ms, CURLE_ABORTED_BY_CALLBACK, why);
}

void
resource_watch_late(struct resource_watch *s, int64_t now_ms, const char *why)
{
	end_request(s, now_ms, CURLE_OPERATION_TIMEDOUT, why);
}

void
resource_watch_stop(struct resource_watch *s)
{
	if (!reflector_running(s->reflector))
		return;
	reflector_dropped(s->reflector);
	curl_multi_remove_handle(s->watch->multi, s->easy);
	framer_clear(&s->framer);
	api_request_clear(s);
}

void
resource_watch_init(struct resource_watch *s, struct api_source *w, enum api_resource_id id)
{
	const struct api_resource *resource =
	    id == API_COUNT ? &api_hosts_maps_resource : &api_resources[id];

	*s = (struct resource_watch){
		.watch = w, .id = id, .resource = resource, .keep = resource->keep
	};
	s->label = xstrdup(resource->name);
	s->place = xasprintf("%s/%s", s->resource->group_path, s->resource->name);
	if (s->resource->other_path)
		s->other = xasprintf("%s/%s", s->resource->other_path, s->resource->name);
	s->selector = xstrdup("");
	s->easy = curl_easy_init();
	if (!s->easy)
		log_fatalx("out of memory");
	response_objects_init(s);
	s->reflector = reflector_new(!s->resource->required);
}

void
resource_watch_clear(struct resource_watch *s)
{
	resource_watch_stop(s);
	response_objects_clear(s);
	curl_easy_cleanup(s->easy);
	reflector_free(s->reflector);
	free(s->label);
	free(s->place);
	free(s->other);
	free(s->selector);
	free(s->problem);
}
