/* The page's list of what changed, newest first. */
#include <string.h>

#include "sidecar/page/journal.h"
#include "sidecar/page/page.h"
#include "sidecar/format.h"

enum { SHOWN = 30 };

void
page_journal(struct html *html, const struct view *view)
{
	const struct journal_event *event;
	char text[FORMAT_MAX];

	if (view->journal == NULL || journal_get(view->journal, 0, view->now_s) == NULL)
		return;
	html_raw(html, "<section id=\"journal\" data-part aria-labelledby=\"h-journal\">\n"
		       "<h2 id=\"h-journal\">What changed <small>newest first, the last day");
	html_raw(html, view->journal->kept ? "" : ", since the sidecar's start");
	html_raw(html,
	    "</small></h2>\n<article class=\"card\">\n"
	    "<table><caption>Causes, probes, configurations, restarts</caption><thead><tr>"
	    "<th scope=\"col\">when</th><th scope=\"col\">what</th></tr></thead><tbody>\n");
	for (size_t i = 0;
	     i < SHOWN && (event = journal_get(view->journal, i, view->now_s)) != NULL; i++) {
		html_wrap(html, "<tr><th scope=\"row\"><time>", format_time(event->wall_s, text),
		    "</time></th>");
		html_wrap(html, event->level >= LEVEL_DEGRADED ? "<td class=\"bad\">" : "<td>",
		    event->text, "</td></tr>\n");
	}
	html_raw(html, "</tbody></table>\n</article>\n</section>\n");
}
