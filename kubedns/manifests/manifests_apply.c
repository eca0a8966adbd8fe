/*
 * Compares one file of manifests with what was known of it. A file whose content was good before is
 * read twice, first to find the differences and then to send them, so that a file which turns out
 * to be broken near its end changes nothing; a new one is read once, and undone as a whole if it is
 * broken. Of an object in two files the one in the last file by name counts. Deletions wait for the
 * sweep, since an object may have moved to another file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "kubedns/cluster/object_external.h"
#include "lib/documents.h"
#include "kubedns/manifests/manifests_internal.h"
#include "lib/log.h"
#include "lib/xalloc.h"

/* What one pass over a file is for. */
enum pass {
	PASS_COMPARE, /* find what differs; send nothing */
	PASS_SEND,    /* send it */
	PASS_REPLAY,  /* send the objects whose digest is 0 */
};

struct reading {
	struct manifests *m;
	struct file *file;
	enum pass pass;
	bool quiet; /* an earlier pass has logged the mistakes */
	size_t bad; /* objects that cannot be identified */
	/*
	 * Digests of the differences, in the file's order. If the sending pass finds others, the
	 * file has changed in between and may be half-written. NULL in the first reading of a file,
	 * which has no earlier pass.
	 */
	uint64_t *changes;
	size_t change_count, change_next;
	bool stale;
};

static const char *
kind_name(const struct object *o)
{
	static const char *const names[OBJECT_KIND_COUNT] = { "Service", "EndpointSlice",
		"Namespace", "Pod", "Node", "ConfigMap", "Ingress", "Gateway", "HTTPRoute",
		"GRPCRoute", "TLSRoute", "ServiceImport" };
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

/* Whether the object counts as it is in `file`: no later file has it. */
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

/* Whether the change is the one that the comparing pass found at this place. */
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
				    "%s %s%s%s is in %s too; %s counts", kind_name(o), o->namespace,
				    o->namespace[0] != '\0' ? "/" : "", o->name, other->file->name,
				    wins ? "this one" : "that one");
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
		object_mistake(r, o, line, "comes twice in this file", "the first counts");
		return;
	}
	if (r->pass == PASS_REPLAY && (entry == NULL || entry->digest != 0))
		return;
	if (why != NULL) {
		bool keep = entry != NULL && entry->digest != 0;
		object_mistake(r, o, line, why, keep ? "keeping previous" : "left out");
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
		object_mistake(r, o, line, "too many objects", "left out");
	} else if (expected(r, digest)) {
		send_change(r, o, entry, digest, line);
	}
}

/* As kubectl does: an object without a namespace is in "default". */
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
			manifests_mistake(r->m, r->file, line, "%s; left out", spelling);
	}
	if (err == -EINVAL) {
		r->bad++;
		if (!r->quiet)
			manifests_mistake(r->m, r->file, line, "%s%s%s; left out",
			    object.name != NULL ? object.name : "", object.name != NULL ? ": " : "",
			    why);
	}
	if (err != 0)
		return;
	if (r->m->external)
		object_read_external(json, &object, &why);
	if (r->m->imports)
		object_read_import_labels(json, &object, &why);
	compare(r, &object, why, line);
	object_clear(&object);
}

struct stamp
manifests_stamp(const struct stat *st)
{
	return (struct stamp){ st->st_dev, st->st_ino, st->st_size, st->st_mtim, st->st_ctim };
}

/* Opens the file; NULL after a mistake was logged. Does not block, whatever kind of file it is. */
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
			    file->known ? "keeping previous" : "left out");
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

/* One pass over the file; true if it was read to its end and not written to meanwhile. */
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
	 * inotify queues the event as part of the write: if there is none now, no write was under
	 * way while the file was read. If there is one, the file's close leads to another reading.
	 */
	manifests_events(m);
	if (r->file->writing) {
		r->file->stamp = (struct stamp){ 0 };
		return false;
	}
	if (err != 0 && !r->quiet)
		manifests_mistake(m, r->file, error.line, "%s; %s", error.reason,
		    r->file->known ? "keeping previous" : "left out");
	return err == 0;
}

/* Reads a file that had no content yet, once; undoes it as a whole if it turns out to be broken. */
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
		/* Changed between the passes. What was sent is right; the rest comes with another
		 * reading. */
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

/* An object that is no longer in its file: the file that holds it now is read again; without one it
 * is deleted. */
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
		m->files[i]->stamp = stamp; /* what else is new in it was not looked at */
	}
}
