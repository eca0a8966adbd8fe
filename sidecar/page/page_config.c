/*
 * The page's section about configuration: what is in force, what was refused and why, from the
 * nanny's /config.
 */
#include <string.h>

#include "sidecar/containers/nanny_config.h"
#include "sidecar/page/page.h"

enum { STUBS_SHOWN = 40, ADDRESSES_SHOWN = 8 };

/* Prints what a stub server's name was resolved to. `server` is "name:port"; the configuration
 * lists names without the port. */
static void
resolved(struct html *html, struct json_object *config, const char *server)
{
	for (size_t i = 0; i < config_count(config, "names"); i++) {
		struct json_object *name = config_item(config, "names", i, json_type_object);
		const char *host = config_string(name, "name");
		size_t len = strlen(host);
		if (len == 0 || strncmp(server, host, len) != 0 || server[len] != ':')
			continue;
		size_t count = config_count(name, "addresses");
		if (count == 0)
			html_raw(html, " <span class=\"bad\">not resolved</span>");
		for (size_t k = 0; k < count && k < ADDRESSES_SHOWN; k++)
			html_wrap(html, k == 0 ? " <small>is " : " <small>",
			    config_string(
				config_item(name, "addresses", k, json_type_object), "address"),
			    "</small>");
		return;
	}
}

static void
servers(struct html *html, struct json_object *config, struct json_object *array)
{
	size_t count = json_object_array_length(array);

	html_raw(html, count == 0 ? "<td class=\"bad\">none" : "<td>");
	for (size_t i = 0; i < count; i++) {
		struct json_object *server = json_object_array_get_idx(array, i);
		if (!json_object_is_type(server, json_type_string))
			continue;
		const char *text = json_object_get_string(server);
		html_wrap(html, i > 0 ? "<br><code>" : "<code>", text, "</code>");
		resolved(html, config, text);
	}
	html_raw(html, "</td></tr>\n");
}

static void
upstreams(struct html *html, struct json_object *config)
{
	struct json_object *upstreams = config_member(config, "upstreams", json_type_object);
	struct json_object *list = config_member(upstreams, "servers", json_type_array);

	if (list == NULL)
		return;
	html_wrap(html, "<tr><th scope=\"row\">every other name <small>",
	    config_string(upstreams, "source"), "</small></th>");
	servers(html, config, list);
}

static void
stubs(struct html *html, struct json_object *config)
{
	struct json_object *keys = config_member(config, "keys", json_type_object);
	struct json_object *key = config_member(keys, "stubDomains", json_type_object);
	struct json_object *in_force = config_member(key, "inForce", json_type_object);
	size_t shown = 0;

	if (in_force == NULL)
		return;
	json_object_object_foreach(in_force, domain, list)
	{
		if (!json_object_is_type(list, json_type_array))
			continue;
		if (shown == STUBS_SHOWN)
			break;
		shown++;
		html_wrap(html, "<tr><th scope=\"row\"><code>", domain, "</code></th>");
		servers(html, config, list);
	}
	double count = config_number(key, "count"); /* the nanny lists the first of many */
	size_t all = (size_t)json_object_object_length(in_force);
	if (count > (double)all)
		all = (size_t)count;
	if (shown < all)
		html_rawf(html, "<tr><td colspan=\"2\">and %zu more stub domains</td></tr>\n",
		    all - shown);
}

static void
refusals(struct html *html, struct json_object *config)
{
	struct config_refusal refusal;

	for (size_t i = 0; config_refusal_get(config, i, &refusal); i++) {
		html_wrap(html, "<p class=\"refused degraded\"><strong>Refused: ", refusal.key,
		    "</strong> ");
		html_text(html, refusal.reason);
		html_raw(html, refusal.had_good
				   ? " <small>The last good value is in force.</small></p>\n"
				   : " <small>There was no good value before it.</small></p>\n");
	}
	const char *loop =
	    config_string(config_member(config, "upstreams", json_type_object), "refused");
	if (loop[0] != '\0')
		html_wrap(html, "<p class=\"refused degraded\"><strong>Not asked:</strong> ", loop,
		    "</p>\n");
}

static void
in_force(struct html *html, struct json_object *config)
{
	const char *at = config_string(config, "confirmedAt");

	html_wrap(html, "<div class=\"top\"><h3>In force</h3><p class=\"now\">",
	    config_confirmed(config) ? "confirmed" : "not confirmed", "</p></div>\n");
	if (at[0] != '\0')
		html_wrap(html, "<p class=\"what\">by dnsmasq, <time>", at, "</time></p>\n");
	refusals(html, config);
	html_raw(html, "<table><caption>Who is asked for which names</caption><thead><tr><th "
		       "scope=\"col\">domain</th>"
		       "<th scope=\"col\">servers</th></tr></thead><tbody>\n");
	stubs(html, config);
	upstreams(html, config);
	html_raw(html, "</tbody></table>\n");
}

void
page_config(struct html *html, const struct view *view)
{
	const struct nanny_view *nanny = view->nanny;
	struct config_refusal refusal;

	if (nanny == NULL || !nanny->seen || nanny->config == NULL)
		return;
	bool refused = config_refusal_get(nanny->config, 0, &refusal);
	html_wrap(html,
	    "<section id=\"config\" data-part aria-labelledby=\"h-config\">\n"
	    "<h2 id=\"h-config\">Configuration <small>",
	    view->surroundings == SURROUNDINGS_POD ? "ConfigMap kube-dns"
						   : "upstreams and stub domains",
	    "</small></h2>\n");
	html_wrap(html, "<article class=\"card ",
	    !nanny->up ? "stale"
	    : refused  ? "degraded"
		       : "well",
	    "\">\n");
	if (!nanny->up)
		html_wrap(html, "<p class=\"off\">The nanny does not answer: ", nanny->error,
		    ". What follows is old.</p>\n");
	if (view->may_ask)
		in_force(html, nanny->config);
	else
		page_loopback_only(html, view, "It lists the cluster, and is shown");
	html_raw(html, "</article>\n</section>\n");
}
