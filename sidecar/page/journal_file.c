#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "lib/json_strict.h"
#include "lib/log.h"
#include "lib/xalloc.h"
#include "sidecar/format.h"
#include "sidecar/page/journal_file.h"
#include "sidecar/containers/nanny_config.h"
#include "sidecar/view.h"

static struct json_object *
new_text(const char *text)
{
	char *valid = format_utf8(text);
	struct json_object *string = json_object_new_string(valid);

	free(valid);
	return string;
}

static struct json_object *
events_json(const struct journal *journal)
{
	struct json_object *events = json_object_new_array();

	for (size_t i = 0; i < journal->count; i++) {
		const struct journal_event *event =
		    &journal
			 ->events[(journal->next + JOURNAL_MAX - journal->count + i) % JOURNAL_MAX];
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "at", json_object_new_double(event->wall_s));
		json_object_object_add(o, "level", new_text(level_name(event->level)));
		json_object_object_add(o, "what", new_text(event->text));
		json_object_array_add(events, o);
	}
	return events;
}

char *
journal_text(const struct journal *journal, const struct view *view, size_t *len)
{
	struct json_object *file = json_object_new_object(), *holds = json_object_new_object(),
			   *failing = json_object_new_array();

	json_object_object_add(file, "events", events_json(journal));
	for (int cause = 0; cause < VERDICT_CAUSES; cause++)
		if (journal->holds[cause])
			json_object_object_add(holds, verdict_cause_name((enum verdict_cause)cause),
			    json_object_new_double(journal->began_s[cause]));
	json_object_object_add(file, "holds", holds);
	for (size_t i = 0; i < view->probe_count && i < PROBES_MAX; i++)
		if (journal->failing[i])
			json_object_array_add(failing, new_text(view->probes[i].spec.label));
	json_object_object_add(file, "failing", failing);
	json_object_object_add(file, "hash", new_text(journal->hash));
	json_object_object_add(
	    file, "kubednsStart", json_object_new_double(journal->kubedns_start_s));
	const char *json = json_object_to_json_string_length(
	    file, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, len);
	char *text = xstrndup(json, *len);
	json_object_put(file);
	return text;
}

/* Whether `wall_s` is at most a day ago, or at most a day in the future, because the clock may have
 * been set back. */
static bool
is_recent(double wall_s, double now_s)
{
	return fabs(now_s - wall_s) <= JOURNAL_S;
}

static bool
level_read(const char *name, enum level *level)
{
	for (int i = 0; i < LEVEL_COUNT; i++) {
		*level = (enum level)i;
		if (strcmp(name, level_name(*level)) == 0)
			return true;
	}
	return false;
}

static void
read_events(struct journal *journal, struct json_object *file, double now_s)
{
	size_t count = config_count(file, "events");

	for (size_t i = count > JOURNAL_MAX ? count - JOURNAL_MAX : 0; i < count; i++) {
		struct json_object *o = config_item(file, "events", i, json_type_object);
		struct journal_event event = { .wall_s = config_number(o, "at") };

		if (!is_recent(event.wall_s, now_s) ||
		    !level_read(config_string(o, "level"), &event.level))
			continue;
		journal_copy(event.text, sizeof event.text, config_string(o, "what"));
		journal_put(journal, &event);
	}
}

static void
read_state(struct journal *journal, const struct view *view, struct json_object *file)
{
	struct json_object *holds = config_member(file, "holds", json_type_object);

	for (int cause = 0; cause < VERDICT_CAUSES; cause++) {
		double began_s =
		    config_number(holds, verdict_cause_name((enum verdict_cause)cause));

		if (!is_recent(began_s, view->now_s))
			continue;
		journal->holds[cause] = journal->restored[cause] = true;
		journal->began_s[cause] = began_s;
	}
	for (size_t k = 0; k < config_count(file, "failing") && k < PROBES_MAX; k++) {
		struct json_object *label = config_item(file, "failing", k, json_type_string);

		for (size_t i = 0; label != NULL && i < view->probe_count && i < PROBES_MAX; i++)
			if (strcmp(view->probes[i].spec.label, json_object_get_string(label)) == 0)
				journal->failing[i] = true;
	}
	journal_copy(journal->hash, sizeof journal->hash, config_string(file, "hash"));
	journal->kubedns_start_s = config_number(file, "kubednsStart");
}

int
journal_read(struct journal *journal, const struct view *view, const char *text, size_t len)
{
	enum { DEPTH_MAX = 4 };
	struct json_object *file = json_strict_object(text, len, DEPTH_MAX);

	if (file == NULL)
		return -EBADMSG;
	read_events(journal, file, view->now_s);
	read_state(journal, view, file);
	json_object_put(file);
	return 0;
}

/* Reads a file into `buf`. Returns the number of bytes, or -errno. */
static ssize_t
read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	while (len < size && (n = read(fd, buf + len, size - len)) > 0)
		len += (size_t)n;
	int error = errno;
	close(fd);
	return n < 0 ? -error : (ssize_t)len;
}

void
journal_load(struct journal *journal, const struct view *view, const char *path)
{
	char *buf = xmalloc(JOURNAL_FILE_MAX);
	ssize_t len = read_file(path, buf, JOURNAL_FILE_MAX);

	journal->kept = true;
	if (len < 0 && len != -ENOENT)
		log_warnx(
		    "--journal %s: %s; earlier changes are unknown", path, strerror((int)-len));
	else if (len == JOURNAL_FILE_MAX)
		log_warnx("--journal %s: %d bytes or more, so not a journal of the sidecar; the "
			  "sidecar overwrites it",
		    path, JOURNAL_FILE_MAX);
	else if (len >= 0 && journal_read(journal, view, buf, (size_t)len) < 0)
		log_warnx("--journal %s: not a JSON object; the sidecar overwrites it", path);
	free(buf);
}

/* Writes a new file and renames it to `path`. Returns 0 or -errno. */
static int
replace_file(const char *path, const char *text, size_t len)
{
	char *aside = xasprintf("%s.new", path);
	int rc = 0, fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	for (size_t at = 0; fd >= 0 && rc == 0 && at < len;) {
		ssize_t n = write(fd, text + at, len - at);

		if (n < 0)
			rc = -errno;
		else
			at += (size_t)n;
	}
	if (fd < 0 || (close(fd) < 0 && rc == 0))
		rc = -errno;
	if (rc == 0 && rename(aside, path) < 0)
		rc = -errno;
	free(aside);
	return rc;
}

void
journal_save(struct journal *journal, const struct view *view, const char *path)
{
	size_t len;

	if (journal->saved == journal->changes)
		return;
	char *text = journal_text(journal, view, &len);
	int rc = replace_file(path, text, len);
	free(text);
	if (rc == 0)
		journal->saved = journal->changes;
	if (rc < 0 && !journal->save_failing)
		log_warnx("--journal %s: %s; changes are lost when the sidecar exits", path,
		    strerror(-rc));
	else if (rc == 0 && journal->save_failing)
		log_info("--journal %s: written again", path);
	journal->save_failing = rc < 0;
}
