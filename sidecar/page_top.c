#include <stdio.h>
#include <string.h>

#include "sidecar/format.h"
#include "sidecar/page.h"

static void
cell_share(struct html *html, double part, double whole)
{
	char text[FORMAT_MAX];

	snprintf(text, sizeof text, "%.0f&nbsp;%%", whole > 0 ? 100 * part / whole : 0);
	html_rawf(html, "<td>%s</td>", text);
}

static void
say_talkers(struct html *html, const struct kubedns_talker *talkers, size_t count,
    const char *caption, const char *who)
{
	html_wrap(html, "<table class=\"top-table\"><caption>", caption, "</caption><thead><tr>");
	html_wrap(html, "<th scope=\"col\">", who, "</th>");
	html_raw(html, "<th scope=\"col\">a second</th><th scope=\"col\">NXDOMAIN</th>"
		       "<th scope=\"col\">search list</th><th scope=\"col\">AAAA</th>"
		       "<th scope=\"col\">outside</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < count; i++) {
		const struct kubedns_talker *t = &talkers[i];
		html_wrap(html, "<tr><th scope=\"row\">", t->name, "");
		if (strcmp(t->name, "127.0.0.1") == 0 || strcmp(t->name, "::1") == 0)
			html_raw(html,
			    "<small>this pod: dnsmasq, for its clients, and the sidecar</small>");
		if (t->namespace[0] != '\0')
			html_wrap(html, "<small>namespace ", t->namespace, "</small>");
		html_rawf(html, "</th><td>%.*f</td>", t->per_second < 10, t->per_second);
		cell_share(html, t->nxdomain, t->queries);
		cell_share(html, t->search_walk, t->queries);
		cell_share(html, t->aaaa, t->queries);
		cell_share(html, t->outside, t->queries);
		html_raw(html, "</tr>\n");
	}
	html_raw(html, "</tbody></table>\n");
}

/* Who asks kubedns most, and for what, in the last minutes. In the classic topology dnsmasq asks for
 * all clients what its cache does not have. */
void
page_top(struct html *html, const struct view *view)
{
	const struct kubedns_view *k = view->kubedns;

	if (k == NULL || !k->seen || k->client_count + k->name_count == 0)
		return;
	html_raw(html, "<section id=\"top\" data-part aria-labelledby=\"h-top\">\n"
		       "<h2 id=\"h-top\">Who asks most <small>of kubedns, the last two minutes"
		       "</small></h2>\n");
	html_wrap(html, "<article class=\"card ", k->up ? "well" : "stale", "\">\n");
	if (!view->may_ask)
		html_raw(html, "<p class=\"off\">Shown to loopback peers only: use <code>kubectl "
			       "port-forward</code>.</p>\n");
	else {
		html_raw(html, "<div class=\"tops\">\n");
		say_talkers(html, k->clients, k->client_count, "Clients", "address");
		say_talkers(html, k->names, k->name_count, "Names", "name");
		html_raw(html, "</div>\n");
	}
	html_raw(html, "</article>\n</section>\n");
}
