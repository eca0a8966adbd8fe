#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kubedns/manifests/manifests.h"
#include "kubedns/manifests/manifests_internal.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	MISTAKES_LOGGED = 20, /* of one file and reading; --check logs all */
	ROUNDS = 4,           /* of one run, while the directory keeps changing */
	FILE_COST = 1024,     /* what opening one costs, in bytes read */
	WRITING_MAX_S =
	    60, /* after the last write; a file that is still open is then read as it is */
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
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	char where[16] = "";
	if (line > 0)
		snprintf(where, sizeof(where), ":%u", line);
	set_error(m, xasprintf("%s/%s%s: %s", m->path, file->held.name, where, what));
	if (file->mistakes++ < MISTAKES_LOGGED || m->verbose)
		log_warnx("manifest %s", m->error);
	else if (file->mistakes == MISTAKES_LOGGED + 1)
		log_warnx(
		    "manifest %s/%s: more mistakes, --check shows all", m->path, file->held.name);
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

/* Whether the file at this name has changed and may be read; marks it present. */
static bool
file_changed(struct manifests *m, struct file *file, bool force)
{
	struct stat st;

	file->present = fstatat(m->dir, file->held.name, &st, 0) == 0;
	/* A link that cannot be followed is an error to report; a link to nothing, or what is gone
	 * since readdir, is not there. */
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
	bool changed = memcmp(&now, &file->stamp, sizeof(now)) != 0;
	file->stamp = now;
	return changed;
}

/* Makes a struct file of each name in the directory. 0 or -errno. */
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
		log_warnx("manifest %s: more than %d files; the rest is left out", m->path,
		    MANIFESTS_FILES_MAX);
	return -err;
}

/* The next scan begins after this file; NULL: at the first one. */
static void
go_on_after(struct manifests *m, const struct file *file)
{
	free(m->after);
	m->after = file != NULL ? xstrdup(file->held.name) : NULL;
}

/* Whether the scan may go on; `last` is what it took last. */
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

/* Takes the files that have changed, from the place where the last scan stopped. */
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
		/* Events that came meanwhile may have added files before this one. */
		i = manifests_file_place(m, file->held.name);
	}
	m->dirty = m->dirty || resumed; /* files before that place may have changed since */
}

/* Takes the files that have changed, in name order. 0, or -errno when the directory cannot be read:
 * then nothing is touched. */
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

/* Scans until nothing changes meanwhile, at most ROUNDS times; then sends the deletions, so that an
 * object that moves from file to file is never missing. */
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
	if (read(m->again, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
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
	struct manifests *m = xcalloc(1, sizeof(*m));

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
		log_warn("manifest %s: no inotify, changes are seen after the period only", path);
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
