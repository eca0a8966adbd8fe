/* A reflector for tests. A test describes the requests to the server, the responses, and the next
 * request. Time is a plain number. */
#ifndef TESTS_UNIT_REFLECTOR_FIXTURE_H
#define TESTS_UNIT_REFLECTOR_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/reflector.h"

static struct reflector *r;
static bool answered; /* the request in flight has received its status line */
static int64_t asked_ms;
static int64_t now;
static char *asked;

static const struct reflector_end clean = { .status = 200, .retry_after_ms = -1 };

/* Waits until the next request is allowed, and sends it. Returns its query string. */
static inline const char *
ask(void)
{
	const char *verb;

	if (reflector_due_ms(r) > now)
		now = reflector_due_ms(r);
	answered = false;
	asked_ms = now;
	free(asked);
	asked = reflector_query(r, now, &verb);
	assert_string_equal(verb, strncmp(asked, "watch=1", 7) == 0 ? "watch" : "list");
	return asked;
}

/* Reports a status 200. */
static inline bool
answer_arrives(void)
{
	answered = true;
	return reflector_answered(r, now);
}

/* Returns the timeoutSeconds of the request in flight. */
static inline unsigned
timeout_s(void)
{
	return (unsigned)strtoul(strstr(asked, "timeoutSeconds=") + 15, NULL, 10);
}

static inline void
asks(const char *part)
{
	if (strstr(ask(), part) == NULL)
		fail_msg("asked %s, not %s", asked, part);
}

static inline void
asks_watch_list(void)
{
	asks("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks="
	     "true&resourceVersion=&timeoutSeconds=");
}

static inline int64_t
waits(void)
{
	return reflector_due_ms(r) > now ? reflector_due_ms(r) - now : 0;
}

static inline void
end_with(struct reflector_end end)
{
	if (end.status == 200 && !answered)
		answer_arrives();
	assert_false(reflector_ended(r, now, &end));
}

static inline void
refuse(int status)
{
	end_with((struct reflector_end){ .status = status, .retry_after_ms = -1 });
}

static inline void
break_off(void)
{
	end_with((struct reflector_end){
	    .status = answered ? 200 : 0, .broken = true, .retry_after_ms = -1 });
}

static inline void
error_event(int code, bool too_large)
{
	end_with((struct reflector_end){
	    .status = 200, .error_code = code, .too_large = too_large, .retry_after_ms = -1 });
}

/* Proceeds to a live watch whose last event had version 7. */
static inline void
sync_by_watch_list(void)
{
	asks_watch_list();
	assert_true(answer_arrives());
	assert_false(reflector_event(r, now, REFLECTOR_ADDED, "5", false));
	assert_true(reflector_event(r, now, REFLECTOR_BOOKMARK, "6", true));
	assert_false(reflector_event(r, now, REFLECTOR_CHANGED, "7", false));
}

static inline bool
page(const char *version, const char *token)
{
	answer_arrives();
	reflector_page(r, version, token);
	return reflector_ended(r, now, &clean);
}

static inline int
begin(void **state)
{
	(void)state;
	r = reflector_new(false);
	now = 1000000;
	return 0;
}

static inline int
finish(void **state)
{
	(void)state;
	reflector_free(r);
	free(asked);
	asked = NULL;
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

#endif
