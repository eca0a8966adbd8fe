/* The page's question box: what was asked, what a client is told, and kubedns's reasons. */
#include <string.h>

#include "lib/wire.h"
#include "sidecar/page/page.h"
#include "sidecar/format.h"

static const char *const types[] = { "A", "AAAA", "SRV", "PTR", "CNAME", "TXT", "NS", "SOA",
	"ANY" };

static void
form(struct html *html, const struct view *view)
{
	char number[12];
	const char *text = view->ask_text != NULL ? view->ask_text : "";
	const char *chosen = view->asked != NULL      ? type_name(view->asked->type, number)
			     : view->ask_type != NULL ? view->ask_type
						      : "A";

	html_raw(html, "<form id=\"ask\" action=\"/ask\" method=\"get\" role=\"search\">\n"
		       "<label class=\"grow\">Name or address <input name=\"name\" type=\"text\" "
		       "maxlength=\"1024\" required "
		       "autocapitalize=\"none\" autocomplete=\"off\" spellcheck=\"false\" "
		       "placeholder=\"kubernetes.default.svc.cluster.local\" value=\"");
	html_text(html, text);
	html_raw(html, "\"></label>\n<label>Type <select name=\"type\">");
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
		bool selected = strcmp(types[i], chosen) == 0;
		html_wrap(html, selected ? "<option selected>" : "<option>", types[i], "</option>");
	}
	html_raw(html, "</select></label>\n<button type=\"submit\">Ask</button>\n</form>\n");
}

static void
say_dns(struct html *html, const struct boxed_question *asked)
{
	char text[CAUSE_TEXT_MAX], ms[FORMAT_MAX], server[SERVER_TEXT_MAX], name[DNAME_TEXT_MAX],
	    type[12];
	const struct dns_exchange *exchange = &asked->exchange;
	bool ok = exchange->reply.cause == CAUSE_OK;

	html_wrap(html,
	    ok ? "<div class=\"top well\"><h3><code>" : "<div class=\"top degraded\"><h3><code>",
	    dname_to_text(asked->name.wire, name), "</code> ");
	html_wrap(html, "", type_name(asked->type, type), "</h3><p class=\"now\">");
	html_text(
	    html, ok ? "answered" : cause_text(exchange->reply.cause, exchange->reply.rcode, text));
	html_raw(html, "</p></div>\n");
	html_wrap(html, "<p class=\"what\">asked ", server_format(&asked->server, server), "");
	html_wrap(html, ", ", format_ms((double)exchange->latency_ns / 1e6, ms),
	    exchange->over_tcp ? ", over TCP" : "");
	html_raw(html, "</p>\n");
	if (asked->answer[0] != '\0')
		html_wrap(html, "<pre tabindex=\"0\">", asked->answer, "</pre>\n");
	else if (exchange->reply.cause == CAUSE_NO_RECORDS)
		html_raw(html, "<p>The name exists; it has no record of this type.</p>\n");
	else if (exchange->reply.cause == CAUSE_NXDOMAIN)
		html_raw(html, "<p>There is no such name. Names are taken as complete here; a pod "
			       "would also try its search "
			       "list (<code>.svc.cluster.local</code> and so on).</p>\n");
}

static void
say_why(struct html *html, const struct boxed_question *asked)
{
	html_raw(html, "<h4>Why</h4>\n");
	if (asked->explain != NULL)
		html_wrap(html, "<pre tabindex=\"0\">", asked->explain, "</pre>\n");
	else if (asked->explain_error[0] != '\0')
		html_wrap(html,
		    "<p class=\"off\">kubedns gives no explanation: ", asked->explain_error,
		    "</p>\n");
	else
		html_raw(
		    html, "<p class=\"off\">No kubedns is asked (--kubedns-url is empty).</p>\n");
}

static void
answer(struct html *html, const struct view *view)
{
	const struct boxed_question *asked = view->asked;

	if (asked != NULL && !asked->done) {
		html_raw(html, "<div id=\"answer\" role=\"status\" data-pending><p "
			       "class=\"off\">Asking&hellip;</p></div>\n");
		return;
	}
	html_raw(html, "<div id=\"answer\" role=\"status\">");
	if (view->ask_error != NULL) {
		html_wrap(html, "<p class=\"bad\">", view->ask_error, "</p>");
	} else if (asked != NULL) {
		say_dns(html, asked);
		say_why(html, asked);
	}
	html_raw(html, "</div>\n");
}

void
page_question(struct html *html, const struct view *view)
{
	html_raw(html,
	    "<section id=\"question\" aria-labelledby=\"h-ask\">\n"
	    "<h2 id=\"h-ask\">Ask <small>what a client would be told, and why</small></h2>\n"
	    "<article class=\"card\">\n");
	if (view->may_ask) {
		form(html, view);
		answer(html, view);
	} else {
		html_raw(html, "<p class=\"off\">Asking is for loopback peers: ");
		html_raw(html, view->surroundings == SURROUNDINGS_POD
				   ? "use <code>kubectl port-forward</code> to this pod, or "
				   : "open the page on this machine itself, or ");
		html_raw(html, "start the sidecar with <code>--debug-remote</code>.</p>\n");
	}
	html_raw(html, "</article>\n</section>\n");
}
