#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/confdir.h"
#include "lib/log.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

/*
 * What is watched. The path is walked from its root, link by link, and each directory on the way
 * is watched for the one entry that leads on: so a missing directory that appears, a swapped link
 * and a replaced mount are all the same event. The directory itself is watched for everything,
 * and the files behind the keys too, because a bind-mounted file is rewritten without its directory
 * knowing. A watch is always set before what it watches is read, so whatever happens later
 * is an event.
 */
enum { WATCHES_MAX = 128, LINKS_MAX = 40, READ_TRIES = 8, ENTRIES_MAX = 1000 };

enum {
	WATCH_DIR = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE |
		    IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF,
	WATCH_FILE = IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF,
};

struct watch {
	int wd;
	char *entry; /* the only name in that directory that matters; NULL: all */
};

struct confdir {
	char *path;
	char **names;
	size_t name_count;
	int fd;
	bool started;
	bool warned;    /* that inotify is not to be had */
	bool missing;   /* and that has been said */
	char *misspelt; /* the entry of which it was last said that it looks like a key */
	struct confdir_set last;
	struct watch watches[WATCHES_MAX];
	size_t watch_count;
};

static void
watch_add(struct confdir *dir, const char *path, uint32_t mask, const char *entry)
{
	if (dir->fd < 0 || dir->watch_count == WATCHES_MAX)
		return;
	int wd = inotify_add_watch(dir->fd, path, mask | IN_MASK_ADD);
	if (wd < 0)
		return; /* missing or forbidden: the watch on its parent,
			 * or the period, tells when that changes */
	dir->watches[dir->watch_count++] =
	    (struct watch){ .wd = wd, .entry = entry ? xstrdup(entry) : NULL };
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

/* Watches every directory on the way to dir->path; `..` needs no care, since the kernel resolves
 * what has been walked so far. */
static void
watch_path(struct confdir *dir)
{
	char path[PATH_MAX] = "", rest[PATH_MAX];
	if (strlen(dir->path) >= sizeof rest)
		return;
	strcpy(rest, dir->path);
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
		watch_add(dir, dir_len ? path : "/", WATCH_DIR, name);
		path[dir_len] = '/';
		strcpy(path + dir_len + 1, name);
		struct stat st;
		if (lstat(path, &st) < 0)
			return;
		if (S_ISLNK(st.st_mode) &&
		    (links++, !follow_link(path, dir_len, rest, sizeof rest)))
			return;
	}
	watch_add(dir, *path ? path : "/", WATCH_DIR, NULL);
	for (size_t i = 0; i < dir->name_count; i++) {
		char *key = xasprintf("%s/%s", dir->path, dir->names[i]);
		watch_add(dir, key, WATCH_FILE, NULL);
		free(key);
	}
}

static bool
watched(const struct watch *watches, size_t count, int wd)
{
	for (size_t i = 0; i < count; i++)
		if (watches[i].wd == wd)
			return true;
	return false;
}

/*
 * Sets the watches anew. The new ones come first and the old ones that are gone are removed
 * afterwards: an unchanged path gives the same descriptors, and no event of our own making.
 */
static void
rewatch(struct confdir *dir)
{
	if (dir->fd < 0 && (dir->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) < 0 &&
	    !dir->warned) {
		log_warn("conf %s: inotify is not available, changes are seen by the period only",
		    dir->path);
		dir->warned = true;
	}
	struct watch old[WATCHES_MAX];
	size_t old_count = dir->watch_count;
	memcpy(old, dir->watches, old_count * sizeof *old);
	dir->watch_count = 0;
	watch_path(dir);
	for (size_t i = 0; i < old_count; i++) {
		if (!watched(dir->watches, dir->watch_count, old[i].wd) &&
		    !watched(old, i, old[i].wd))
			inotify_rm_watch(dir->fd, old[i].wd);
		free(old[i].entry);
	}
}

/* A file that was only just created is not read before its writer closes it; a second link to a
 * whole one is. */
static bool
just_created(const struct confdir *dir, const struct inotify_event *event)
{
	if (!(event->mask & IN_CREATE) || event->len == 0)
		return false;
	char *path = xasprintf("%s/%s", dir->path, event->name);
	struct stat st;
	bool created = lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1;
	free(path);
	return created;
}

/* Whether an event can concern us. */
static bool
event_matters(const struct confdir *dir, const struct inotify_event *event)
{
	if (event->mask & IN_Q_OVERFLOW)
		return true;
	for (size_t i = 0; i < dir->watch_count; i++) {
		const struct watch *w = &dir->watches[i];
		if (w->wd != event->wd)
			continue;
		if (w->entry ? event->len == 0 || strcmp(w->entry, event->name) == 0
			     : !just_created(dir, event))
			return true;
	}
	return false;
}

static bool
drain_events(struct confdir *dir)
{
	char buf[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool matters = false;
	ssize_t n;
	while (dir->fd >= 0 && (n = read(dir->fd, buf, sizeof buf)) > 0) {
		for (char *p = buf; p < buf + n;) {
			struct inotify_event *event = (struct inotify_event *)(void *)p;
			matters |= event_matters(dir, event);
			p += sizeof *event + event->len;
		}
	}
	return matters;
}

/* Reads the open file `fd` into `key`; returns the reason why not, or NULL. */
static const char *
read_value(int fd, struct confdir_key *key)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return strerror(errno);
	if (S_ISDIR(st.st_mode))
		return "is a directory";
	if (!S_ISREG(st.st_mode))
		return "not a regular file";
	if (st.st_size > CONFDIR_VALUE_MAX)
		return "larger than 1 MiB";
	size_t max = (size_t)st.st_size + 1;
	char *value = xmalloc(max + 1);
	size_t len = 0;
	for (;;) {
		ssize_t n = read(fd, value + len, max - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			free(value);
			return strerror(errno);
		}
		if (n == 0)
			break;
		if ((len += (size_t)n) < max)
			continue;
		if (max > CONFDIR_VALUE_MAX) {
			free(value);
			return "larger than 1 MiB";
		}
		max = max * 2 < CONFDIR_VALUE_MAX + 1 ? max * 2 : CONFDIR_VALUE_MAX + 1;
		value = xreallocarray(value, max + 1, 1);
	}
	value[len] = '\0';
	free(key->value);
	key->value = value;
	key->len = len;
	return NULL;
}

/* Reads one key below `dfd` and appends it; nothing if it does not exist. O_NONBLOCK, because a key
 * may be a FIFO. */
static void
read_key(int dfd, const char *name, struct confdir_set *set)
{
	int fd = openat(dfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return;
	struct confdir_key *key = &set->keys[set->count++];
	*key = (struct confdir_key){ .name = xstrdup(name), .value = xstrdup("") };
	const char *error = fd < 0 ? strerror(errno) : read_value(fd, key);
	if (error)
		key->error = xstrdup(error);
	if (fd >= 0)
		close(fd);
}

/* The directory that holds the keys: what `..data` points at, or `base` itself where there is no
 * such thing. A link that leads nowhere is not that: the kubelet may have exchanged it and removed
 * its target between the kernel's two steps. */
static int
open_data(int base)
{
	struct stat st;
	int fd = openat(base, "..data", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool plain =
	    fd < 0 && fstatat(base, "..data", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
	return plain ? fcntl(base, F_DUPFD_CLOEXEC, 0) : fd;
}

static bool
same_file(int a, int b)
{
	struct stat x, y;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Reads all keys through one resolved `..data`; false if it was exchanged meanwhile, in which case
 * some keys may have been gone already. */
static bool
read_once(struct confdir *dir, int base, struct confdir_set *set)
{
	int data = open_data(base);
	if (data < 0)
		return false;
	for (size_t i = 0; i < dir->name_count; i++)
		read_key(data, dir->names[i], set);
	int now = open_data(base);
	bool same = now >= 0 && same_file(data, now);
	if (now >= 0)
		close(now);
	close(data);
	return same;
}

/* A directory that cannot be read has none of its keys deleted: each is there, with an error. */
static void
all_unreadable(struct confdir *dir, const char *error, struct confdir_set *set)
{
	set->exists = true;
	for (size_t i = 0; i < dir->name_count; i++)
		set->keys[set->count++] = (struct confdir_key){ .name = xstrdup(dir->names[i]),
			.value = xstrdup(""),
			.error = xstrdup(error) };
}

/* Reads the set. Where no quiet moment is to be had,
 * every key is in error until the next event or the period. */
static void
read_set(struct confdir *dir, struct confdir_set *set)
{
	for (int try = 0; try < READ_TRIES; try++) {
		*set =
		    (struct confdir_set){ .keys = xcalloc(dir->name_count + 1, sizeof *set->keys) };
		int base = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (base < 0) {
			if (errno != ENOENT)
				all_unreadable(dir, strerror(errno), set);
			return;
		}
		set->exists = true;
		bool whole = read_once(dir, base, set);
		close(base);
		if (whole)
			return;
		confdir_set_free(set);
	}
	set->keys = xcalloc(dir->name_count + 1, sizeof *set->keys);
	all_unreadable(dir, "..data cannot be read or does not stay", set);
}

/* The key that an entry of the directory seems to have been meant for
 * and that is not there; NULL: none. */
static const char *
key_meant(const struct confdir *dir, const struct confdir_set *set, const char *entry)
{
	struct spelling near = spelling_of(entry, strlen(entry));
	for (size_t i = 0; i < dir->name_count; i++) {
		if (strcmp(entry, dir->names[i]) == 0)
			return NULL;
		spelling_try(&near, dir->names[i]);
	}
	return near.word && !confdir_get(set, near.word) ? near.word : NULL;
}

/* Unknown keys are nobody's business, but one that looks like a missing one is a mistake that
 * nothing else would ever show. */
static void
note_misspelt(struct confdir *dir, const struct confdir_set *set)
{
	DIR *entries = opendir(dir->path);
	const char *meant = NULL;
	const struct dirent *e = NULL;
	for (int n = 0; entries && !meant && n < ENTRIES_MAX && (e = readdir(entries)); n++)
		meant = e->d_name[0] == '.' ? NULL : key_meant(dir, set, e->d_name);
	const char *found = meant ? e->d_name : "";
	if (meant && (!dir->misspelt || strcmp(dir->misspelt, found) != 0))
		log_warnx("conf %s: %s: no key that is read here; %s?", dir->path, found, meant);
	free(dir->misspelt);
	dir->misspelt = meant ? xstrdup(found) : NULL;
	if (entries)
		closedir(entries);
}

static void
note_missing(struct confdir *dir, bool missing)
{
	if (missing && !dir->missing)
		log_warnx("conf %s: no such directory; everything in it has its default, and it is "
			  "read as soon as it is there",
		    dir->path);
	dir->missing = missing;
}

static bool
text_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool
set_equal(const struct confdir_set *a, const struct confdir_set *b)
{
	if (a->exists != b->exists || a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct confdir_key *x = &a->keys[i], *y = &b->keys[i];
		if (strcmp(x->name, y->name) != 0 || !text_equal(x->error, y->error) ||
		    x->len != y->len)
			return false;
		if (memcmp(x->value, y->value, x->len) != 0)
			return false;
	}
	return true;
}

static void
set_copy(struct confdir_set *to, const struct confdir_set *from)
{
	*to = *from;
	to->keys = xcalloc(from->count + 1, sizeof *to->keys);
	for (size_t i = 0; i < from->count; i++) {
		const struct confdir_key *key = &from->keys[i];
		char *value = xmalloc(key->len + 1);
		memcpy(value, key->value, key->len + 1);
		to->keys[i] = (struct confdir_key){ .name = xstrdup(key->name),
			.value = value,
			.len = key->len,
			.error = key->error ? xstrdup(key->error) : NULL };
	}
}

struct confdir *
confdir_new(const char *path, const char *const *names)
{
	struct confdir *dir = xcalloc(1, sizeof *dir);
	dir->path = xstrdup(path);
	dir->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	while (names[dir->name_count])
		dir->name_count++;
	dir->names = xcalloc(dir->name_count + 1, sizeof *dir->names);
	for (size_t i = 0; i < dir->name_count; i++)
		dir->names[i] = xstrdup(names[i]);
	return dir;
}

int
confdir_fd(const struct confdir *dir)
{
	return dir->fd;
}

bool
confdir_poll(struct confdir *dir, bool force, struct confdir_set *set)
{
	bool due = drain_events(dir);
	if (!due && !force && dir->started)
		return false;
	rewatch(dir);
	read_set(dir, set);
	note_missing(dir, !set->exists);
	note_misspelt(dir, set);
	if (dir->started && set_equal(set, &dir->last)) {
		confdir_set_free(set);
		return false;
	}
	confdir_set_free(&dir->last);
	set_copy(&dir->last, set);
	dir->started = true;
	return true;
}

const struct confdir_key *
confdir_get(const struct confdir_set *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++)
		if (strcmp(set->keys[i].name, name) == 0)
			return &set->keys[i];
	return NULL;
}

void
confdir_set_free(struct confdir_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		free(set->keys[i].name);
		free(set->keys[i].value);
		free(set->keys[i].error);
	}
	free(set->keys);
	*set = (struct confdir_set){ 0 };
}

void
confdir_free(struct confdir *dir)
{
	if (dir == NULL)
		return;
	confdir_set_free(&dir->last);
	for (size_t i = 0; i < dir->watch_count; i++)
		free(dir->watches[i].entry);
	for (size_t i = 0; i < dir->name_count; i++)
		free(dir->names[i]);
	free(dir->names);
	free(dir->misspelt);
	free(dir->path);
	if (dir->fd >= 0)
		close(dir->fd);
	free(dir);
}
