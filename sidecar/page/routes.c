/* The HTTP paths and their handlers. Each handler fills in a new view for its response. No handler waits. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/http.h"
#include "lib/xalloc.h"
#include "lib/clock.h"
#include "sidecar/loop.h"
#include "sidecar/metrics.h"
#include "sidecar/page/page.h"
#include "sidecar/page/status.h"

static void
show_metrics(const struct http_request *request, struct http_response *response, void *arg)
{
	struct view view;
	enum metrics_format format = metrics_negotiate(request->accept);

	sidecar_view(arg, &view);
	response->content_type = metrics_content_type(format);
	response->body = sidecar_metrics(&view, format, &response->len);
}

/* Handles the health check. The response itself shows that the loop is running. */
static void
show_healthz(const struct http_request *request, struct http_response *response, void *arg)
{
	(void)request, (void)arg;
	http_text(response, 200, "ok\n");
}

static void
show_healthcheck(const struct http_request *request, struct http_response *response, void *arg)
{
	struct sidecar *sidecar = arg;
	const char *label = request->path + strlen("/healthcheck/");
	bool ok;

	for (size_t i = 0; i < sidecar->probe_count; i++) {
		if (strcmp(sidecar->probes[i].spec.label, label) != 0)
			continue;
		response->body = status_healthcheck(&sidecar->probes[i], &ok);
		response->len = strlen(response->body);
		response->status = ok ? 200 : 503;
		response->content_type = "application/json";
		return;
	}
	http_text(response, 404, "no probe has this label\n");
}

static bool
may_ask(const struct sidecar *sidecar, const struct http_request *request)
{
	return request->local || sidecar->options->debug_remote;
}

static void
show_status(const struct http_request *request, struct http_response *response, void *arg)
{
	struct view view;

	sidecar_view(arg, &view);
	view.may_ask = may_ask(arg, request);
	response->content_type = "application/json";
	response->body = status_json(&view, &response->len);
}

static void
show_text(const struct http_request *request, struct http_response *response, void *arg)
{
	struct view view;

	sidecar_view(arg, &view);
	view.may_ask = may_ask(arg, request);
	response->body = status_text(&view, &response->len);
}

/* Sends a file of the page. The files change only with the program. The paths of the files have no version, so the response tells browsers
 * to revalidate. */
static void
send_file(struct http_response *response, const struct page_file *file)
{
	response->content_type = file->content_type;
	response->csp = file->csp;
	response->len = (size_t)(file->end - file->content);
	response->body = xstrndup(file->content, response->len);
}

static void
show_file(const struct http_request *request, struct http_response *response, void *arg)
{
	(void)arg;
	send_file(response, page_file(request->path));
}

/* Whether a browser opens this address, for example from a shared link. The browser then gets the page, and the page's script requests the
 * JSON. */
static bool
wants_page(const struct http_request *request)
{
	return http_query(request, "format") == NULL && request->accept != NULL &&
	       strstr(request->accept, "text/html") != NULL;
}

static void
show_ask(const struct http_request *request, struct http_response *response, void *arg)
{
	static const char *const errors[] = {
		[QUESTION_BOX_BAD_NAME] =
		    "That is not a DNS name: labels have 1 to 63 bytes, names 255 at most.",
		[QUESTION_BOX_BAD_TYPE] =
		    ("That is not a record type. Examples: A, AAAA, SRV, TXT, TYPE65."),
		[QUESTION_BOX_BUSY] =
		    "Too many queries at the same time. Try again in a few seconds.",
	};
	struct sidecar *sidecar = arg;
	struct boxed_question *entry = NULL;

	if (wants_page(request)) {
		send_file(response, page_file(PAGE_PATH));
		return;
	}
	const char *name = http_query(request, "name"), *type = http_query(request, "type");
	enum question_box_result result =
	    question_box_ask(&sidecar->question_box, name != NULL ? name : "", type, &entry);
	if (entry == NULL)
		response->status = result == QUESTION_BOX_BUSY ? 503 : 400;
	else
		response->status = entry->done ? 200 : 202;
	response->content_type = "application/json";
	response->body = question_json(entry, errors[result], &response->len);
}

/* The first path is --prometheus-path, so that it takes precedence over the sidecar's own paths. */
static struct http_route routes[] = {
	{ NULL, show_metrics, false },
	{ "/healthz", show_healthz, false },
	{ "/healthcheck/", show_healthcheck, false },
	{ "/status.json", show_status, false },
	{ "/status.txt", show_text, false },
	{ "/ask", show_ask, true },
	{ "/page.css", show_file, false },
	{ "/page.js", show_file, false },
	{ "/icon.svg", show_file, false },
	{ PAGE_PATH, show_file, false },
	{ NULL, NULL, false },
};

int
sidecar_http_start(struct sidecar *sidecar)
{
	const struct sidecar_options *options = sidecar->options;
	struct http_config config = {
		.address = options->prometheus_addr,
		.port = (uint16_t)options->prometheus_port,
		.routes = routes,
		.arg = sidecar,
		.debug_remote = options->debug_remote,
	};

	routes[0].path = options->prometheus_path;
	return http_start(&sidecar->http, &config);
}

void
sidecar_http_stop(struct sidecar *sidecar)
{
	http_stop(sidecar->http);
	sidecar->http = NULL;
}
