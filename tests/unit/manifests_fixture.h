/* A directory of manifests for a test, and the events after its changes. */
#ifndef TESTS_UNIT_MANIFESTS_FIXTURE_H
#define TESTS_UNIT_MANIFESTS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kubedns/manifests/manifests.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* Each test has its own directory with the directory `objects` inside. `events` has one line for
 * each event: "ADDED services default/web 10.96.0.1". */
struct fixture {
	char root[64];
	char dir[80];
	struct manifests *m;
	char events[1 << 16];
	size_t len;
};

static inline void
note(void *arg, enum object_kind kind, enum event_type type, const struct object *o)
{
	static const char *const types[] = { "LISTING", "ADDED", "MODIFIED", "DELETED", "SYNCED" };
	struct fixture *f = arg;
	char text[ADDR_TEXT_MAX] = "";

	if (o == NULL && kind != OBJECT_SERVICE)
		return; /* an event without an object is only recorded for Services */
	f->len += (size_t)snprintf(f->events + f->len, sizeof f->events - f->len,
	    "%s%s%s%s%s%s%s%s\n", types[type], o != NULL ? " " : "",
	    o != NULL ? object_kind_resource(kind) : "", o != NULL ? " " : "",
	    o != NULL ? o->namespace : "", o != NULL ? "/" : "", o != NULL ? o->name : "",
	    o != NULL && o->service.addr_count > 0
		? addr_format(&o->service.addrs[0], (text[0] = ' ', text + 1)) - 1
		: "");
	assert_true(f->len < sizeof f->events);
}

static inline int
setup(void **state)
{
	struct fixture *f = *state = xcalloc(1, sizeof *f);

	strcpy(f->root, "/tmp/test_manifests.XXXXXX");
	assert_non_null(mkdtemp(f->root));
	snprintf(f->dir, sizeof f->dir, "%s/objects", f->root);
	assert_int_equal(mkdir(f->dir, 0755), 0);
	return 0;
}

static inline int
teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	manifests_free(f->m);
	snprintf(command, sizeof command, "rm -rf %s", f->root);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

static inline const char *
in(const struct fixture *f, const char *name)
{
	static char paths[4][160];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof paths[0], "%s/%s", f->dir, name);
	return path;
}

/* Overwrites the file in place, like `echo > file`. */
static inline void
put(const struct fixture *f, const char *name, const char *text)
{
	FILE *out = fopen(in(f, name), "w");

	assert_non_null(out);
	assert_int_equal(fputs(text, out) >= 0 && fclose(out) == 0, 1);
}

/* Returns the manifest of a Service. It is a YAML document, so other documents may follow it. */
static inline const char *
service(const char *name, const char *ip)
{
	static char texts[8][200];
	static unsigned next;
	char *text = texts[next++ % 8];

	snprintf(text, sizeof texts[0],
	    "---\nkind: Service\nmetadata: {name: %s}\nspec: {clusterIP: \"%s\"}\n", name, ip);
	return text;
}

static inline const char *
both(const char *a, const char *b)
{
	static char *texts[4];
	static unsigned next;

	free(texts[next % 4]);
	return texts[next++ % 4] = xasprintf("%s%s", a, b);
}

/* Reads changes while the descriptor is readable. It must be readable at once. Returns the events
 * since the last call. */
static inline const char *
changes(struct fixture *f)
{
	struct pollfd fd = { .fd = manifests_fd(f->m), .events = POLLIN };

	f->len = 0;
	f->events[0] = '\0';
	while (poll(&fd, 1, 0) > 0)
		manifests_run(f->m, false);
	return f->events;
}

static inline void
start(struct fixture *f)
{
	f->m = manifests_new(f->dir, note, f);
	changes(f);
}

static inline size_t
mistakes(const struct fixture *f)
{
	struct manifests_status status;

	manifests_status(f->m, &status);
	return status.mistakes;
}

static inline const char *
error(const struct fixture *f)
{
	struct manifests_status status;

	manifests_status(f->m, &status);
	return status.error != NULL ? status.error : "";
}

#endif
