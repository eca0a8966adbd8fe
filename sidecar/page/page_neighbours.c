#include "sidecar/page/page.h"

/* Clients are spread over all DNS pods, and this page sees one. The others' addresses are for those
 * who may ask. */
void
page_neighbours(struct html *html, const struct view *view)
{
	const struct kubedns_view *k = view->kubedns;
	char addr[ADDR_TEXT_MAX];

	if (k == NULL || !k->seen || k->neighbour_count == 0)
		return;
	html_raw(html, "<section id=\"neighbours\" data-part aria-labelledby=\"h-neighbours\">\n"
		       "<h2 id=\"h-neighbours\">The other pods <small>of the same "
		       "Service</small></h2>\n<article class=\"card\">\n");
	if (!view->may_ask)
		page_loopback_only(html, view, "Their addresses are shown");
	html_raw(html, "<ul class=\"neighbours\">\n");
	for (size_t i = 0; view->may_ask && i < k->neighbour_count; i++) {
		const struct kubedns_neighbour *n = &k->neighbours[i];
		bool v6 = n->addr.family == AF_INET6;
		addr_format(&n->addr, addr);
		html_wrap(html, v6 ? "<li><a href=\"http://[" : "<li><a href=\"http://", addr,
		    v6 ? "]" : "");
		html_rawf(html, ":%u/\">", view->port);
		html_wrap(html, "", addr, "</a> ");
		html_raw(html,
		    n->ready ? "ready</li>\n" : "<span class=\"bad\">not ready</span></li>\n");
	}
	html_raw(html,
	    "</ul>\n<p class=\"off\">From outside the cluster's network, what each of them "
	    "says:</p>\n<pre class=\"command\" tabindex=\"0\">kubectl dns status</pre>\n"
	    "</article>\n</section>\n");
}
