#include "kubedns/manifests/manifests.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kubedns/cluster/external/object_external.h"
#include "kubedns/manifests/manifests_internal.h"
#include "lib/documents.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	MISTAKES_LOGGED = 20, /* mistakes that are logged for one reading of a file; --check logs
			       * all mistakes */
	ROUNDS = 4,           /* scans in one run, if the directory keeps changing */
	FILE_COST = 1024,     /* cost of opening a file, as a number of bytes read */
	/* After this time without a write, a file that is still open is read as it is. */
	WRITING_MAX_S = 60,
};

static void
set_error(struct manifests *m, char *text)
{
	free(m->error);
	m->error = text;
}

void
manifests_mistake(struct manifests *m, struct file *file, unsigned line, const char *fmt, ...)
{
	va_list ap;
	char what[512];

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	char where[16] = "";
	if (line > 0)
		snprintf(where, sizeof where, ":%u", line);
	set_error(m, xasprintf("%s/%s%s: %s", m->path, file->held.name, where, what));
	if (file->mistakes++ < MISTAKES_LOGGED || m->verbose)
		log_warnx("manifest %s", m->error);
	else if (file->mistakes == MISTAKES_LOGGED + 1)
		log_warnx("manifest %s/%s: more mistakes: kubedns --check shows all of them",
		    m->path, file->held.name);
}

static void
file_free(struct file *file)
{
	free(file->held.name);
	free(file);
}

static void
dir_error(struct manifests *m, int err)
{
	if (m->dir_errno != err) {
		errno = err;
		log_warn("--objects-dir %s%s", m->path, m->synced ? ": keeping previous" : "");
		set_error(m, xasprintf("%s: %s", m->path, strerror(err)));
	}
	m->dir_errno = err;
}

/* Whether the file with this name has changed and may be read. Marks the file as present. */
static bool
file_changed(struct manifests *m, struct file *file, bool force)
{
	struct stat st;

	file->present = fstatat(m->dir, file->held.name, &st, 0) == 0;
	/* A link that cannot be followed is reported as an error. A dangling link, or a file that
	 * was deleted since readdir(), counts as missing. */
	if (!file->present && errno != ENOENT)
		file->present = fstatat(m->dir, file->held.name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!file->present)
		return false;
	if (file->writing) {
		if (!force || time(NULL) - st.st_mtime < WRITING_MAX_S)
			return false;
		file->writing = false;
	}
	struct stamp now = manifests_stamp(&st);
	bool changed = memcmp(&now, &file->stamp, sizeof now) != 0;
	file->stamp = now;
	return changed;
}

/* Makes a struct file for each name in the directory that may be a manifest. Returns 0 or -errno. */
static int
list(struct manifests *m)
{
	int fd = dup(m->dir);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;
	bool full = false;

	if (dir == NULL) {
		int err = errno;

		if (fd >= 0)
			close(fd);
		return -err;
	}
	errno = 0;
	while ((e = readdir(dir)) != NULL) {
		if (!manifests_is_manifest(e->d_name))
			continue;
		struct file *file = manifests_file_named(m, e->d_name);
		if (file != NULL)
			file->present = true;
		else
			full = true;
		errno = 0;
	}
	int err = errno;
	closedir(dir);
	if (full)
		log_warnx("manifest %s: more than %d files; the others are ignored", m->path,
		    MANIFESTS_FILES_MAX);
	return -err;
}

/* Makes the next scan start after this file. If `file` is NULL, the next scan starts at the first file. */
static void
go_on_after(struct manifests *m, const struct file *file)
{
	free(m->after);
	m->after = file != NULL ? xstrdup(file->held.name) : NULL;
}

/* Whether the scan may continue. `last` is the file that it has just read. */
static bool
within_budget(struct manifests *m, const struct file *last)
{
	if (last == NULL)
		return true;
	m->budget -= last->stamp.size + FILE_COST;
	if (m->budget > 0)
		return true;
	go_on_after(m, last);
	return false;
}

/* Reads the files that have changed, starting where the last scan stopped. */
static void
take_changed(struct manifests *m, bool force)
{
	bool resumed = m->after != NULL;
	size_t i = resumed ? manifests_file_place(m, m->after) : 0;

	if (resumed && i < m->file_count && strcmp(m->files[i]->held.name, m->after) == 0)
		i++;
	go_on_after(m, NULL);
	for (; i < m->file_count; i++) {
		struct file *file = m->files[i];

		if (!file->present || !file_changed(m, file, force))
			continue;
		manifests_take(m, file);
		if (!within_budget(m, file))
			return;
		/* Meanwhile, events may have added files before this file. */
		i = manifests_file_place(m, file->held.name);
	}
	m->dirty = m->dirty || resumed; /* earlier files may have changed since the scan started */
}

/* Reads the files that have changed, in order of their names. Returns 0, or -errno if the directory
 * cannot be read; in that case nothing changes. */
static int
scan(struct manifests *m, bool force)
{
	manifests_watch(m);
	m->dir = open(m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m->dir < 0)
		return -errno;
	for (size_t i = 0; i < m->file_count; i++)
		m->files[i]->present = false;
	int err = list(m);
	if (err == 0)
		take_changed(m, force);
	return err;
}

static void
drop_absent(struct manifests *m)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->file_count; i++) {
		struct file *file = m->files[i];

		if (file->present || file->held.entries != NULL || file->writing)
			m->files[kept++] = file;
		else
			file_free(file);
	}
	m->file_count = kept;
}

static void
send_all(struct manifests *m, enum event_type type)
{
	for (enum object_kind kind = 0; kind < OBJECT_KIND_COUNT; kind++)
		m->sink(m->arg, kind, type, NULL);
	m->sent = true;
}

static void
close_dir(struct manifests *m)
{
	if (m->dir >= 0)
		close(m->dir);
	m->dir = -1;
}

/* Scans until nothing changes during a scan, but at most ROUNDS times. Then sends the deletions. An
 * object that moves to another file is thus never missing. */
static int
update(struct manifests *m, bool force)
{
	int err = 0;

	m->budget = MANIFESTS_RUN_BYTES;
	for (int round = 0; err == 0 && m->dirty && round < ROUNDS; round++) {
		m->dirty = false;
		close_dir(m);
		err = scan(m, force && round == 0);
		manifests_events(m);
		if (m->after != NULL)
			break;
	}
	if (err == 0 && m->after == NULL) {
		manifests_sweep(m);
		drop_absent(m);
	}
	close_dir(m);
	return err;
}

bool
manifests_run(struct manifests *m, bool force)
{
	uint64_t ignored;

	m->sent = false;
	if (read(m->again, &ignored, sizeof ignored) < 0 && errno != EAGAIN)
		log_warn("manifest eventfd");
	manifests_events(m);
	if (!m->dirty && !force)
		return false;
	m->dirty = true;
	if (!m->listing && access(m->path, R_OK | X_OK) == 0) {
		m->listing = true;
		send_all(m, EVENT_LISTING);
	}
	int err = update(m, force);
	if (err != 0)
		dir_error(m, -err);
	else
		m->dir_errno = 0;
	if (m->listing && !m->synced && err == 0 && m->after == NULL) {
		m->synced = true;
		if (m->index.count == 0)
			log_warnx(
			    "--objects-dir %s: no object that DNS needs in %zu files NAME.yaml, "
			    "NAME.yml and NAME.json (subdirectories are not read)",
			    m->path, m->file_count);
		send_all(m, EVENT_SYNCED);
	}
	m->dirty = m->dirty || m->after != NULL;
	if (m->dirty)
		eventfd_write(m->again, 1);
	return m->sent;
}

bool
manifests_synced(const struct manifests *m)
{
	return m->synced;
}

void
manifests_status(const struct manifests *m, struct manifests_status *status)
{
	*status = (struct manifests_status){ .files = m->file_count,
		.objects = m->index.count,
		.duplicates = m->duplicates,
		.mistakes = m->dir_errno != 0 };
	for (size_t i = 0; i < m->file_count; i++) {
		status->broken += m->files[i]->mistakes > 0;
		status->mistakes += m->files[i]->mistakes;
	}
	status->error = status->mistakes > 0 ? m->error : NULL;
}

static void
poll_also(struct manifests *m, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (fd >= 0 && epoll_ctl(m->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		log_fatal("manifest epoll");
}

struct manifests *
manifests_new(const char *path, event_sink sink, void *arg)
{
	struct manifests *m = xcalloc(1, sizeof *m);

	m->path = xstrdup(path[0] != '\0' ? path : ".");
	manifests_split_path(m);
	m->sink = sink;
	m->arg = arg;
	m->dir = m->dir_watch = m->parent_watch = -1;
	m->dirty = true;
	manifests_index_init(&m->index);
	m->epoll = epoll_create1(EPOLL_CLOEXEC);
	m->again = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->epoll < 0 || m->again < 0)
		log_fatal("manifest eventfd");
	m->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (m->inotify < 0)
		log_warn("manifest %s: no inotify: changes are noticed only every --config-period",
		    path);
	poll_also(m, m->again);
	poll_also(m, m->inotify);
	manifests_watch(m);
	return m;
}

int
manifests_fd(const struct manifests *m)
{
	return m->epoll;
}

void
manifests_read_external(struct manifests *m)
{
	m->external = true;
}

void
manifests_read_imports(struct manifests *m)
{
	m->imports = true;
}

void
manifests_free(struct manifests *m)
{
	if (m == NULL)
		return;
	for (size_t i = 0; i < m->file_count; i++) {
		struct manifest_entry *next;

		for (struct manifest_entry *e = m->files[i]->held.entries; e != NULL; e = next) {
			next = e->next_of_file;
			manifests_index_remove(&m->index, e);
		}
		file_free(m->files[i]);
	}
	free(m->files);
	manifests_index_free(&m->index);
	if (m->inotify >= 0)
		close(m->inotify);
	close(m->again);
	close(m->epoll);
	free(m->path);
	free(m->parent);
	free(m->base);
	free(m->after);
	free(m->error);
	free(m);
}

static void
ignore_event(void *arg, enum object_kind kind, enum event_type type, const struct object *object)
{
	(void)arg;
	(void)kind;
	(void)type;
	(void)object;
}

size_t
manifests_check(const char *path, bool external, bool imports)
{
	struct manifests *m = manifests_new(path, ignore_event, NULL);
	struct manifests_status status;

	m->verbose = true;
	m->external = external;
	m->imports = imports;
	do
		manifests_run(m, true);
	while (m->after != NULL);
	manifests_status(m, &status);
	if (status.objects > 0)
		log_info("--objects-dir %s: %zu objects in %zu files", path, status.objects,
		    status.files);
	manifests_free(m);
	return status.mistakes;
}

/* --- comparing a file with its known content --- */

/*
 * Compares one file of manifests with its known content. A file that was valid before is read
 * twice. The first reading finds the differences, the second sends them. A file with a mistake near
 * its end thus changes nothing. A new file is read once. If it is invalid, all its changes are
 * undone. If an object is in two files, the file with the last name takes precedence. Deletions
 * wait for the sweep, because an object may have moved to another file.
 */

/* The purpose of a pass over a file. */
enum pass {
	PASS_COMPARE, /* find the differences; send nothing */
	PASS_SEND,    /* send the differences */
	PASS_REPLAY,  /* send the objects whose digest is 0 */
};

struct reading {
	struct manifests *m;
	struct file *file;
	enum pass pass;
	bool quiet; /* an earlier pass has logged the mistakes */
	size_t bad; /* number of objects that cannot be identified */
	/*
	 * Digests of the differences, in the file's order. If the sending pass finds other
	 * differences, the file has changed between the passes and may be incomplete. NULL in the
	 * first reading of a file, which has no earlier pass.
	 */
	uint64_t *changes;
	size_t change_count, change_next;
	bool stale;
};

static const char *
kind_name(const struct object *o)
{
	static const char *const names[OBJECT_KIND_COUNT] = { "Service", "EndpointSlice",
		"Namespace", "Pod", "Node", "ConfigMap", "Ingress", "Gateway", "ListenerSet",
		"HTTPRoute", "GRPCRoute", "TLSRoute", "ServiceImport" };
	return o->from_endpoints ? "Endpoints" : names[o->kind];
}

static void
object_mistake(
    struct reading *r, const struct object *o, unsigned line, const char *what, const char *then)
{
	if (!r->quiet)
		manifests_mistake(r->m, r->file, line, "%s %s%s%s: %s; %s", kind_name(o),
		    o->namespace, o->namespace[0] != '\0' ? "/" : "", o->name, what, then);
}

static void
send_event(struct manifests *m, enum object_kind kind, enum event_type type, const struct object *o)
{
	m->sink(m->arg, kind, type, o);
	m->sent = true;
}

/* Whether the object in `file` takes precedence, because no later file has it. */
static bool
counts(const struct manifests *m, const struct file *file, const struct object *o,
    const struct manifest_entry **other)
{
	*other = manifests_index_holder(&m->index, o->kind, o->namespace, o->name, &file->held);
	return *other == NULL || strcmp(file->held.name, (*other)->file->name) > 0;
}

static void
note_change(struct reading *r, uint64_t digest)
{
	if ((r->change_count & (r->change_count - 1)) == 0)
		r->changes =
		    xreallocarray(r->changes, r->change_count > 0 ? 2 * r->change_count : 1, 8);
	r->changes[r->change_count++] = digest;
}

/* Whether the comparing pass found the same change at this position. */
static bool
expected(struct reading *r, uint64_t digest)
{
	if (r->stale)
		return false;
	if (r->changes == NULL)
		return true;
	r->stale = r->change_next == r->change_count || r->changes[r->change_next++] != digest;
	return !r->stale;
}

static void
send_change(struct reading *r, const struct object *o, struct manifest_entry *entry,
    uint64_t digest, unsigned line)
{
	struct manifests *m = r->m;
	const struct manifest_entry *other;
	bool wins = counts(m, r->file, o, &other);
	enum event_type type = entry == NULL && other == NULL ? EVENT_ADDED : EVENT_MODIFIED;

	if (entry == NULL) {
		entry = manifests_index_add(&m->index, o, &r->file->held);
		if (other != NULL) {
			m->duplicates++;
			if (!r->quiet || r->changes != NULL)
				manifests_mistake(m, r->file, line,
				    "%s %s%s%s is also in %s; kubedns uses the object in %s",
				    kind_name(o), o->namespace, o->namespace[0] != '\0' ? "/" : "",
				    o->name, other->file->name,
				    wins ? r->file->held.name : other->file->name);
		}
	}
	entry->seen = true;
	entry->digest = digest;
	if (wins)
		send_event(m, o->kind, type, o);
}

static void
compare(struct reading *r, const struct object *o, const char *why, unsigned line)
{
	struct manifest_entry *entry =
	    manifests_index_find(&r->m->index, o->kind, o->namespace, o->name, &r->file->held);

	if (entry != NULL && entry->seen) {
		object_mistake(r, o, line, "is in this file twice", "the first one is used");
		return;
	}
	if (r->pass == PASS_REPLAY && (entry == NULL || entry->digest != 0))
		return;
	if (why != NULL) {
		bool keep = entry != NULL && entry->digest != 0;

		object_mistake(r, o, line, why, keep ? "keeping previous" : "ignored");
		if (keep)
			entry->seen = true;
		if (keep || o->invalid)
			return;
	}
	uint64_t digest = manifest_digest(&r->m->index, o);
	if (entry != NULL && entry->digest == digest) {
		entry->seen = true;
	} else if (r->pass == PASS_COMPARE) {
		note_change(r, digest);
		if (entry != NULL)
			entry->seen = true;
	} else if (entry == NULL && r->m->index.count >= MANIFESTS_OBJECTS_MAX) {
		object_mistake(r, o, line, "too many objects", "ignored");
	} else if (expected(r, digest)) {
		send_change(r, o, entry, digest, line);
	}
}

/* Puts an object without a namespace into "default", like kubectl does. */
static void
set_namespace(struct json_object *json)
{
	struct json_object *metadata, *namespace = NULL;

	if (!json_object_object_get_ex(json, "metadata", &metadata) ||
	    !json_object_is_type(metadata, json_type_object))
		return;
	json_object_object_get_ex(metadata, "namespace", &namespace);
	if (namespace == NULL || (json_object_is_type(namespace, json_type_string) &&
				     json_object_get_string_len(namespace) == 0))
		json_object_object_add(metadata, "namespace", json_object_new_string("default"));
}

/* Whether objects of this kind are needed. */
static bool
is_read(const struct manifests *m, enum object_kind kind)
{
	return kind == OBJECT_IMPORT ? m->imports : kind < OBJECT_INGRESS || m->external;
}

static void
on_object(void *arg, struct json_object *json, const char *kind_hint, unsigned line)
{
	struct reading *r = arg;
	struct object object;
	const char *why;
	char spelling[200];
	bool in_kind;

	set_namespace(json);
	int err = object_extract(json, kind_hint, &object, &why);
	if (!is_read(r->m, object.kind))
		err = -ENOTSUP;
	bool misspelled = err != -EINVAL && manifests_misspelled(json, kind_hint, spelling,
						sizeof spelling, &in_kind);
	bool doubtful = !misspelled && manifests_doubtful(json, kind_hint, &object, err, spelling,
					   sizeof spelling);
	if ((misspelled || doubtful) && err == 0)
		why = spelling;
	if ((misspelled && in_kind) || (doubtful && err != 0)) {
		r->bad++;
		if (!r->quiet)
			manifests_mistake(r->m, r->file, line, "%s; ignored", spelling);
	}
	if (err == -EINVAL) {
		r->bad++;
		if (!r->quiet)
			manifests_mistake(r->m, r->file, line, "%s%s%s; ignored",
			    object.name != NULL ? object.name : "", object.name != NULL ? ": " : "",
			    why);
	}
	if (err == 0 && r->m->external)
		object_read_external(json, &object, &why);
	if (err == 0 && r->m->imports)
		object_read_import_labels(json, &object, &why);
	if (err == 0)
		compare(r, &object, why, line);
	object_clear(&object); /* needed for kinds that are ignored too */
}

struct stamp
manifests_stamp(const struct stat *st)
{
	return (struct stamp){ st->st_dev, st->st_ino, st->st_size, st->st_mtim, st->st_ctim };
}

/* Opens the file. Returns NULL after it has logged a mistake. Does not block, whatever the file's type. */
static FILE *
open_file(struct manifests *m, struct file *file, bool quiet)
{
	int fd = openat(m->dir, file->held.name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	const char *why = NULL;

	if (fd < 0 || fstat(fd, &st) < 0) {
		why = strerror(errno);
	} else {
		file->stamp = manifests_stamp(&st);
		if (!S_ISREG(st.st_mode))
			why = "not a regular file";
		else if (st.st_size > MANIFESTS_FILE_MAX)
			why = "larger than 1 GiB";
	}
	FILE *in = why == NULL ? fdopen(fd, "re") : NULL;
	if (in == NULL) {
		if (!quiet)
			manifests_mistake(m, file, 0, "%s; %s", why != NULL ? why : strerror(errno),
			    file->known ? "keeping previous" : "ignored");
		if (fd >= 0)
			close(fd);
	}
	return in;
}

static enum documents_format
format_of(const char *name)
{
	size_t len = strlen(name);

	return len > 5 && strcmp(name + len - 5, ".json") == 0 ? DOCUMENTS_JSON : DOCUMENTS_YAML;
}

static void
clear_seen(struct file *file)
{
	for (struct manifest_entry *e = file->held.entries; e != NULL; e = e->next_of_file)
		e->seen = false;
}

/* Makes one pass over the file. Returns true if the file was read to its end and nobody wrote to it
 * meanwhile. */
static bool
read_pass(struct reading *r, enum pass pass)
{
	struct documents_error error;
	struct manifests *m = r->m;

	r->pass = pass;
	r->bad = 0;
	clear_seen(r->file);
	FILE *in = open_file(m, r->file, r->quiet);
	if (in == NULL)
		return false;
	int err = documents_read(in, format_of(r->file->held.name), on_object, r, &error);
	fclose(in);
	/*
	 * inotify queues an event as part of each write. If there is no event now, nobody wrote
	 * while the file was read. If there is an event, the file will be read again when it is
	 * closed.
	 */
	manifests_events(m);
	if (r->file->writing) {
		r->file->stamp = (struct stamp){ 0 };
		return false;
	}
	if (err != 0 && !r->quiet)
		manifests_mistake(m, r->file, error.line, "%s; %s", error.reason,
		    r->file->known ? "keeping previous" : "ignored");
	return err == 0;
}

/* Reads a file that has no known content, once. If it is invalid, undoes all its changes. */
static void
take_new(struct reading *r)
{
	struct file *file = r->file;

	if (read_pass(r, PASS_SEND)) {
		file->known = true;
		return;
	}
	clear_seen(file);
	file->sweep = true;
}

static void
take_known(struct reading *r)
{
	struct file *file = r->file;

	if (!read_pass(r, PASS_COMPARE)) {
		return;
	}
	file->sweep = r->bad == 0;
	if (r->change_count == 0)
		return;
	r->quiet = true;
	if (!read_pass(r, PASS_SEND) || r->stale || r->change_next != r->change_count) {
		/* The file has changed between the passes. The changes that were sent are correct.
		 * Another reading sends the other changes. */
		file->sweep = false;
		file->stamp = (struct stamp){ 0 };
		r->m->dirty = true;
	}
}

void
manifests_take(struct manifests *m, struct file *file)
{
	struct reading r = { .m = m, .file = file };
	bool was_bad = file->mistakes > 0;

	file->mistakes = 0;
	if (file->known)
		take_known(&r);
	else
		take_new(&r);
	if (was_bad && file->mistakes == 0 && !file->writing)
		log_info("manifest %s/%s: good again", m->path, file->held.name);
	free(r.changes);
}

/* Handles an object that is no longer in its file. If another file has the object, that file is
 * read again. Otherwise the object is deleted. */
static void
give_up(struct manifests *m, struct manifest_entry *entry)
{
	enum object_kind kind = entry->kind;
	const char *namespace = manifest_entry_namespace(entry), *name = manifest_entry_name(entry);
	struct manifest_entry *other =
	    manifests_index_holder(&m->index, kind, namespace, name, entry->file);

	if (other == NULL) {
		struct object gone = {
			.kind = kind, .namespace = namespace, .name = name, .resource_version = ""
		};

		send_event(m, kind, EVENT_DELETED, &gone);
	} else {
		m->duplicates--;
		if (strcmp(entry->file->name, other->file->name) > 0) {
			other->digest = 0;
			((struct file *)other->file)->replay = true;
		}
	}
	manifests_index_remove(&m->index, entry);
}

static void
sweep_file(struct manifests *m, struct file *file)
{
	struct manifest_entry **at = &file->held.entries;

	file->sweep = false;
	while (*at != NULL) {
		struct manifest_entry *e = *at;

		if (e->seen) {
			at = &e->next_of_file;
		} else {
			*at = e->next_of_file;
			give_up(m, e);
		}
	}
}

void
manifests_sweep(struct manifests *m)
{
	for (size_t i = 0; i < m->file_count; i++) {
		if (!m->files[i]->present) {
			clear_seen(m->files[i]);
			sweep_file(m, m->files[i]);
		} else if (m->files[i]->sweep) {
			sweep_file(m, m->files[i]);
		}
	}
	for (size_t i = 0; i < m->file_count; i++) {
		if (!m->files[i]->replay)
			continue;
		struct reading r = { .m = m, .file = m->files[i], .quiet = true };
		struct stamp stamp = m->files[i]->stamp;
		m->files[i]->replay = false;
		read_pass(&r, PASS_REPLAY);
		/* Keep the old stamp, because this pass did not look at other changes in the file. */
		m->files[i]->stamp = stamp;
	}
}
