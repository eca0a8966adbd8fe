/* Which inotify events may have changed a key; confdir_internal.h says what is watched and why. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/confdir_internal.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { LINKS_MAX = 40 };

enum {
	WATCH_DIR = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE |
		    IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF,
	WATCH_FILE = IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF,
};

static void
watch_add(struct confdir_watch *w, const char *path, uint32_t mask, const char *entry)
{
	if (w->fd < 0 || w->count == CONFDIR_WATCHES_MAX)
		return;
	int wd = inotify_add_watch(w->fd, path, mask | IN_MASK_ADD);
	if (wd < 0)
		return; /* missing or forbidden: the watch on its parent,
			 * or the period, tells when that changes */
	w->watches[w->count++] =
	    (struct watched_dir){ .wd = wd, .entry = entry ? xstrdup(entry) : NULL };
}

/* Puts the target of the link at `path` (a directory's path, its last component cut off at
 * `dir_len`) before `rest`. */
static bool
follow_link(char *path, size_t dir_len, char *rest, size_t max)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof target - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	char *joined = xasprintf("%s/%s", target, rest);
	bool fits = strlen(joined) < max;
	if (fits)
		strcpy(rest, joined);
	free(joined);
	path[target[0] == '/' ? 0 : dir_len] = '\0';
	return fits;
}

/* Watches every directory on the way to w->path; `..` needs no care, since the kernel resolves what
 * has been walked so far. */
static void
watch_path(struct confdir_watch *w)
{
	char path[PATH_MAX] = "", rest[PATH_MAX];
	if (strlen(w->path) >= sizeof rest)
		return;
	strcpy(rest, w->path);
	if (rest[0] != '/')
		strcpy(path, ".");
	for (int links = 0; links < LINKS_MAX;) {
		char *entry = rest + strspn(rest, "/");
		if (*entry == '\0')
			break;
		size_t len = strcspn(entry, "/");
		char name[NAME_MAX + 1];
		size_t dir_len = strlen(path);
		if (len > NAME_MAX || dir_len + 1 + len >= sizeof path)
			return;
		memcpy(name, entry, len);
		name[len] = '\0';
		memmove(rest, entry + len, strlen(entry + len) + 1);
		watch_add(w, dir_len ? path : "/", WATCH_DIR, name);
		path[dir_len] = '/';
		strcpy(path + dir_len + 1, name);
		struct stat st;
		if (lstat(path, &st) < 0)
			return;
		if (S_ISLNK(st.st_mode) &&
		    (links++, !follow_link(path, dir_len, rest, sizeof rest)))
			return;
	}
	watch_add(w, *path ? path : "/", WATCH_DIR, NULL);
	for (size_t i = 0; w->names[i] != NULL; i++) {
		char *key = xasprintf("%s/%s", w->path, w->names[i]);
		watch_add(w, key, WATCH_FILE, NULL);
		free(key);
	}
}

static bool
watched(const struct watched_dir *watches, size_t count, int wd)
{
	for (size_t i = 0; i < count; i++)
		if (watches[i].wd == wd)
			return true;
	return false;
}

void
confdir_watch_renew(struct confdir_watch *w)
{
	if (w->fd < 0 && (w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) < 0 && !w->warned) {
		log_warn("conf %s: inotify is not available, changes are seen by the period only",
		    w->path);
		w->warned = true;
	}
	struct watched_dir old[CONFDIR_WATCHES_MAX];
	size_t old_count = w->count;
	memcpy(old, w->watches, old_count * sizeof *old);
	w->count = 0;
	watch_path(w);
	for (size_t i = 0; i < old_count; i++) {
		if (!watched(w->watches, w->count, old[i].wd) && !watched(old, i, old[i].wd))
			inotify_rm_watch(w->fd, old[i].wd);
		free(old[i].entry);
	}
}

/* A file that was only just created is not read before its writer closes it; a second link to a
 * whole one is. */
static bool
just_created(const struct confdir_watch *w, const struct inotify_event *event)
{
	if (!(event->mask & IN_CREATE) || event->len == 0)
		return false;
	char *path = xasprintf("%s/%s", w->path, event->name);
	struct stat st;
	bool created = lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1;
	free(path);
	return created;
}

/* Whether an event can concern us. */
static bool
event_matters(const struct confdir_watch *w, const struct inotify_event *event)
{
	if (event->mask & IN_Q_OVERFLOW)
		return true;
	for (size_t i = 0; i < w->count; i++) {
		const struct watched_dir *d = &w->watches[i];
		if (d->wd != event->wd)
			continue;
		if (d->entry ? event->len == 0 || strcmp(d->entry, event->name) == 0
			     : !just_created(w, event))
			return true;
	}
	return false;
}

bool
confdir_watch_changed(struct confdir_watch *w)
{
	char buf[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool matters = false;
	ssize_t n;
	while (w->fd >= 0 && (n = read(w->fd, buf, sizeof buf)) > 0) {
		for (char *p = buf; p < buf + n;) {
			struct inotify_event *event = (struct inotify_event *)(void *)p;
			matters |= event_matters(w, event);
			p += sizeof *event + event->len;
		}
	}
	return matters;
}

void
confdir_watch_init(struct confdir_watch *w, const char *path, char *const *names)
{
	*w = (struct confdir_watch){
		.path = path, .names = names, .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
	};
}

void
confdir_watch_clear(struct confdir_watch *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->watches[i].entry);
	if (w->fd >= 0)
		close(w->fd);
}
