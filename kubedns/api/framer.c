#include "kubedns/api/framer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"

enum { HELD_MIN = 16 << 10, HELD_KEEP = 256 << 10 };

void
framer_init(
    struct framer *f, enum framer_form form, size_t item_max, const struct framer_sink *sink)
{
	*f = (struct framer){ .form = form, .item_max = item_max, .sink = *sink };
}

void
framer_clear(struct framer *f)
{
	free(f->held);
	f->held = NULL;
	f->held_len = f->held_max = 0;
}

static int
set_broken(struct framer *f, int error, const char *why)
{
	f->state = FRAMER_BROKEN;
	f->why = why;
	return error;
}

static int
hold_bytes(struct framer *f, const char *bytes, size_t len)
{
	if (f->discard)
		return 0;
	if (len > f->item_max - f->held_len)
		return set_broken(f, -EMSGSIZE, "an object is larger than 8 MiB");
	if (f->held_len + len > f->held_max) {
		size_t max = f->held_max ? f->held_max : HELD_MIN;

		while (max < f->held_len + len)
			max *= 2;
		f->held = xreallocarray(f->held, max, 1);
		f->held_max = max;
	}
	memcpy(f->held + f->held_len, bytes, len);
	f->held_len += len;
	return 0;
}

/* Finds the end of a string or a number, which may be split over pieces. Strings and numbers are
 * short, so one byte at a time is fast enough. */
static const char *
plain_end(struct framer *f, const char *p, const char *end)
{
	bool string = f->opener == '"';

	for (; p < end; p++) {
		if (string) {
			if (f->scan.escaped)
				f->scan.escaped = false;
			else if (*p == '\\')
				f->scan.escaped = true;
			else if (*p == '"' &&
				 f->scan.depth++) /* depth 1 means that the opening quote has been
						   * read */
				return p + 1;
		} else if (strchr(",]} \t\r\n", *p) != NULL) {
			return p;
		}
	}
	return NULL;
}

/* Handles a complete value, depending on the state in which it was read. */
static int
value_done(struct framer *f, const char *bytes, size_t len)
{
	enum framer_state was = f->state;
	size_t capacity = sizeof f->key - 1;

	switch (was) {
	case FRAMER_FIRST_KEY:
	case FRAMER_KEY:
		f->state = FRAMER_COLON;
		len = len - 2 < capacity ? len - 2 : capacity;
		memcpy(f->key, bytes + 1, len);
		f->key[len] = '\0';
		return 0;
	case FRAMER_VALUE:
		f->state = FRAMER_AFTER_VALUE;
		if (strcmp(f->key, "items") == 0 && (len != 4 || memcmp(bytes, "null", 4) != 0))
			return set_broken(f, -EBADMSG, "items is not an array");
		return f->discard || strcmp(f->key, "items") == 0
			   ? 0
			   : f->sink.head(f->sink.arg, f->key, bytes, len);
	case FRAMER_START:
		return f->sink.item(f->sink.arg, bytes, len);
	default:
		f->state = FRAMER_AFTER_ITEM;
		return f->sink.item(f->sink.arg, bytes, len);
	}
}

/* Continues in the current value. Returns the position after it, or `end` if it is not complete. */
static const char *
value_read(struct framer *f, const char *p, const char *end, int *error)
{
	bool nested = f->opener == '{' || f->opener == '[';
	const char *stop = nested ? json_skip_nested(&f->scan, p, end) : plain_end(f, p, end);

	if (stop == NULL) {
		*error = hold_bytes(f, p, (size_t)(end - p));
		return end;
	}
	const char *bytes = p;
	size_t len = (size_t)(stop - p);
	if (f->held_len) {
		*error = hold_bytes(f, p, len);
		bytes = f->held;
		len = f->held_len;
	} else if (len > f->item_max && !f->discard) {
		*error = set_broken(f, -EMSGSIZE, "an object is larger than 8 MiB");
	}
	f->opener = 0;
	f->held_len = 0;
	if (*error == 0)
		*error = value_done(f, bytes, len);
	if (f->held_max > HELD_KEEP)
		framer_clear(f);
	return stop;
}

static void
value_begin(struct framer *f, char c)
{
	f->opener = c;
	f->scan = (struct json_skip){ 0 };
	f->discard = f->state == FRAMER_VALUE && strcmp(f->key, "kind") != 0 &&
		     strcmp(f->key, "metadata") != 0 && strcmp(f->key, "items") != 0;
}

/* Handles one byte between values. Returns 1 if a value starts at the byte, 0 if the byte was
 * consumed. */
static int
between(struct framer *f, char c)
{
	switch (f->state) {
	case FRAMER_START:
		if (c != '{')
			return set_broken(f, -EBADMSG, c == '<' ? "HTML, not JSON" : "not JSON");
		if (f->form == FRAMER_EVENTS)
			return 1;
		f->state = FRAMER_FIRST_KEY;
		return 0;
	case FRAMER_FIRST_KEY:
	case FRAMER_KEY:
		if (c == '}' && f->state == FRAMER_FIRST_KEY) {
			f->state = FRAMER_END;
			return 0;
		}
		return c == '"' ? 1 : set_broken(f, -EBADMSG, "malformed list");
	case FRAMER_COLON:
		f->state = FRAMER_VALUE;
		return c == ':' ? 0 : set_broken(f, -EBADMSG, "malformed list");
	case FRAMER_VALUE:
		if (c != '[' || strcmp(f->key, "items") != 0)
			return 1;
		f->state = FRAMER_FIRST_ITEM;
		return 0;
	case FRAMER_AFTER_VALUE:
		f->state = c == ',' ? FRAMER_KEY : FRAMER_END;
		return c == ',' || c == '}' ? 0 : set_broken(f, -EBADMSG, "malformed list");
	case FRAMER_FIRST_ITEM:
	case FRAMER_ITEM:
		if (c == ']' && f->state == FRAMER_FIRST_ITEM) {
			f->state = FRAMER_AFTER_VALUE;
			return 0;
		}
		return c == '{' ? 1 : set_broken(f, -EBADMSG, "an item is not an object");
	case FRAMER_AFTER_ITEM:
		f->state = c == ',' ? FRAMER_ITEM : FRAMER_AFTER_VALUE;
		return c == ',' || c == ']' ? 0 : set_broken(f, -EBADMSG, "malformed list");
	default:
		return set_broken(f, -EBADMSG, "bytes after the end of the list");
	}
}

int
framer_feed(struct framer *f, const char *bytes, size_t len)
{
	const char *p = bytes, *end = bytes + len;
	int error = f->state == FRAMER_BROKEN ? -EBADMSG : 0;

	while (p < end && error == 0) {
		if (!f->opener) {
			p = json_skip_space(p, end);
			if (p == end)
				break;
			int begins = between(f, *p);
			if (begins < 0)
				return begins;
			if (begins == 0) {
				p++;
				continue;
			}
			value_begin(f, *p);
		}
		p = value_read(f, p, end, &error);
	}
	if (error && f->state != FRAMER_BROKEN)
		f->state = FRAMER_BROKEN;
	return error;
}

int
framer_end(struct framer *f)
{
	if (f->state == FRAMER_BROKEN)
		return -EBADMSG;
	if (f->form == FRAMER_EVENTS)
		return f->opener ? set_broken(f, -EBADMSG, "ended inside an event") : 0;
	if (f->state == FRAMER_END)
		return 0;
	return set_broken(
	    f, -EBADMSG, f->state == FRAMER_START ? "empty" : "ended inside the list");
}
