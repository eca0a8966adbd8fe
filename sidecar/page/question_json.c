#include "sidecar/page/question_json.h"

#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/wire.h"
#include "lib/xalloc.h"
#include "sidecar/format.h"

int
question_status(const struct view *view, enum question_box_result result)
{
	if (view->ask_error != NULL)
		return result == QUESTION_BOX_BUSY ? 503 : 400;
	return view->asked != NULL && !view->asked->done ? 202 : 200;
}

/* json-c copies strings as they are: what came from outside is made valid UTF-8 first. */
static struct json_object *
text_json(const char *text)
{
	char *valid = format_utf8(text);
	struct json_object *string = json_object_new_string(valid);

	free(valid);
	return string;
}

static struct json_object *
lines_json(const char *text)
{
	struct json_object *lines = json_object_new_array();
	char *copy = xstrdup(text), *rest = copy, *line;

	while ((line = strsep(&rest, "\n")) != NULL)
		if (*line != '\0')
			json_object_array_add(lines, text_json(line));
	free(copy);
	return lines;
}

static void
put_answer(struct json_object *o, const struct boxed_question *asked)
{
	const struct dns_exchange *exchange = &asked->exchange;
	bool replied = exchange->message != NULL;
	char rcode[12], server[SERVER_TEXT_MAX], outcome[CAUSE_TEXT_MAX];

	json_object_object_add(
	    o, "server", json_object_new_string(server_format(&asked->server, server)));
	json_object_object_add(o, "result",
	    replied ? json_object_new_string(rcode_name(exchange->reply.rcode, rcode)) : NULL);
	json_object_object_add(
	    o, "cause", json_object_new_string(cause_label(exchange->reply.cause)));
	json_object_object_add(o, "outcome",
	    json_object_new_string(
		cause_text(exchange->reply.cause, exchange->reply.rcode, outcome)));
	json_object_object_add(
	    o, "latencySeconds", json_object_new_double((double)exchange->latency_ns / 1e9));
	json_object_object_add(o, "overTcp", json_object_new_boolean(exchange->over_tcp));
	json_object_object_add(o, "records", lines_json(asked->answer));
	json_object_object_add(
	    o, "why", asked->explain != NULL ? lines_json(asked->explain) : NULL);
	json_object_object_add(o, "whyError", text_json(asked->explain_error));
}

char *
question_json(const struct view *view, size_t *len)
{
	const struct boxed_question *asked = view->asked;
	struct json_object *o = json_object_new_object();
	char name[DNAME_TEXT_MAX], type[12];

	json_object_object_add(o, "state",
	    json_object_new_string(view->ask_error != NULL ? "refused"
				   : asked->done           ? "answered"
							   : "asking"));
	if (view->ask_error != NULL) {
		json_object_object_add(o, "error", json_object_new_string(view->ask_error));
	} else {
		json_object_object_add(o, "name", text_json(dname_to_text(asked->name.wire, name)));
		json_object_object_add(
		    o, "type", json_object_new_string(type_name(asked->type, type)));
		if (asked->done)
			put_answer(o, asked);
	}
	char *text =
	    xasprintf("%s\n", json_object_to_json_string_ext(
				  o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
	*len = strlen(text);
	return text;
}
