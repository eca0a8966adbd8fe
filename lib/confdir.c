#include "lib/confdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/conf_closed.h"
#include "lib/log.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

enum { CONFDIR_WATCHES_MAX = 128 };

struct watched_dir {
	int wd;
	char *entry; /* the only relevant name in that directory; NULL: all names are relevant */
};

/*
 * Watches every step of the path. The path is resolved from its root, link by link. In each
 * directory on the way, only the entry that continues the path is watched. A missing directory that
 * appears, a replaced link and a replaced mount thus all cause the same event.
 *
 * The directory itself is watched for all entries. The files of the keys are watched too, because a
 * write into a bind-mounted file causes no event in its directory. Every watch is set before its
 * object is read, so later changes always cause an event.
 */
struct confdir_watch {
	const char *path;
	char *const *names; /* names of the keys; ends with NULL */
	int fd;
	bool warned; /* the absence of inotify has been logged */
	struct watched_dir watches[CONFDIR_WATCHES_MAX];
	size_t count;
};

/* Opens inotify without watching anything. `path` and `names` are borrowed. */
static void confdir_watch_init(struct confdir_watch *w, const char *path, char *const *names);

/* Reads the pending events. Returns true if one of these events may have changed a key. */
static bool confdir_watch_changed(struct confdir_watch *w);

/* Sets the watches again, before the set is read. It adds new watches first and removes unneeded
 * watches afterwards. An unchanged path thus keeps its descriptors and causes no event. */
static void confdir_watch_renew(struct confdir_watch *w);

static void confdir_watch_clear(struct confdir_watch *w);

/*
 * Reads the keys `names` (ends with NULL) below `path`. Resolves the link `..data` once, for all keys. If `..data`
 * is replaced during every attempt, all keys get an error until the next event or the next periodic
 * read.
 */
static void confdir_read(const char *path, char *const *names, struct confdir_set *set);

/* Reads the entry of the directory `dfd` as the missing key `meant`. Adds nothing if the entry cannot be
 * read, or does not ask for TLS. */
static void read_misspelt(int dfd, const char *entry, const char *meant, struct confdir_set *set);

enum { ENTRIES_MAX = 1000 };

struct confdir {
	char *path;
	char **names; /* ends with NULL */
	struct confdir_watch watch;
	struct confdir_set last;
	bool started;
	bool missing;   /* the directory is missing, and that has been logged */
	char *misspelt; /* what was last logged about an unknown entry */
};

/* Returns the missing key for which the directory's entry is probably a misspelling, or NULL. */
static const char *
key_meant(const struct confdir *dir, const struct confdir_set *set, const char *entry)
{
	struct spelling near = spelling_of(entry, strlen(entry));
	const struct confdir_key *key;

	if (entry[0] == '.')
		return NULL;
	for (size_t i = 0; dir->names[i] != NULL; i++) {
		if (strcmp(entry, dir->names[i]) == 0)
			return NULL;
		spelling_try(&near, dir->names[i]);
	}
	if (near.word == NULL ||
	    ((key = confdir_get(set, near.word)) != NULL && key->entry == NULL))
		return NULL;
	return near.word;
}

const char *
confdir_foreign(const char *entry)
{
	return strcmp(entry, "Corefile") == 0
		   ? "Corefile: this is CoreDNS's configuration, which is not read here; translate "
		     "it with kubedns-migrate"
		   : "";
}

/* Adds the entries that look like misspellings of missing keys, and logs the first one. Nothing else would show this
 * mistake. Unknown entries are no errors, because a directory may have keys for other programs. */
static void
add_misspelt(struct confdir *dir, struct confdir_set *set)
{
	DIR *entries = opendir(dir->path);
	const struct dirent *e = NULL;
	char *found = NULL;

	for (int n = 0; entries != NULL && n < ENTRIES_MAX && (e = readdir(entries)) != NULL; n++) {
		const char *meant = key_meant(dir, set, e->d_name);

		if (meant != NULL)
			read_misspelt(dirfd(entries), e->d_name, meant, set);
		if (meant != NULL && found == NULL)
			found = xasprintf("%s: unknown key; did you mean %s?", e->d_name, meant);
		else if (found == NULL && *confdir_foreign(e->d_name) != '\0')
			found = xstrdup(confdir_foreign(e->d_name));
	}
	if (found != NULL && (dir->misspelt == NULL || strcmp(dir->misspelt, found) != 0))
		log_warnx("conf %s: %s", dir->path, found);
	free(dir->misspelt);
	dir->misspelt = found;
	if (entries != NULL)
		closedir(entries);
}

static void
note_missing(struct confdir *dir, bool missing)
{
	if (missing && !dir->missing)
		log_warnx(
		    "conf %s: no such directory; its keys have their defaults until it exists",
		    dir->path);
	dir->missing = missing;
}

bool
confdir_check(const char *flag, const char *path)
{
	DIR *entries = opendir(path);

	if (entries == NULL) {
		log_errorx("%s=%s: %s: create the directory, or correct the flag", flag, path,
		    errno == ENOENT ? "no such directory" : strerror(errno));
		return false;
	}
	closedir(entries);
	return true;
}

static void
key_clear(struct confdir_key *key)
{
	free(key->name);
	free(key->value);
	free(key->error);
	free(key->entry);
}

static bool
text_equal(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool
set_equal(const struct confdir_set *a, const struct confdir_set *b)
{
	if (a->exists != b->exists || a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct confdir_key *x = &a->keys[i], *y = &b->keys[i];

		if (strcmp(x->name, y->name) != 0 || !text_equal(x->error, y->error) ||
		    !text_equal(x->entry, y->entry) || x->len != y->len)
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
			.error = key->error != NULL ? xstrdup(key->error) : NULL,
			.entry = key->entry != NULL ? xstrdup(key->entry) : NULL };
	}
}

struct confdir *
confdir_new(const char *path, const char *const *names)
{
	struct confdir *dir = xcalloc(1, sizeof *dir);
	size_t count = 0;

	while (names[count] != NULL)
		count++;
	dir->path = xstrdup(path);
	dir->names = xcalloc(count + 1, sizeof *dir->names);
	for (size_t i = 0; i < count; i++)
		dir->names[i] = xstrdup(names[i]);
	confdir_watch_init(&dir->watch, dir->path, dir->names);
	return dir;
}

int
confdir_fd(const struct confdir *dir)
{
	return dir->watch.fd;
}

bool
confdir_poll(struct confdir *dir, bool force, struct confdir_set *set)
{
	bool due = confdir_watch_changed(&dir->watch);

	if (!due && !force && dir->started)
		return false;
	confdir_watch_renew(&dir->watch);
	confdir_read(dir->path, dir->names, set);
	note_missing(dir, !set->exists);
	add_misspelt(dir, set);
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
	for (size_t i = 0; i < set->count; i++)
		key_clear(&set->keys[i]);
	free(set->keys);
	*set = (struct confdir_set){ 0 };
}

void
confdir_free(struct confdir *dir)
{
	if (dir == NULL)
		return;
	confdir_set_free(&dir->last);
	confdir_watch_clear(&dir->watch);
	for (char **name = dir->names; *name != NULL; name++)
		free(*name);
	free(dir->names);
	free(dir->misspelt);
	free(dir->path);
	free(dir);
}

/* --- watching: which inotify events may have changed a key --- */

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
		return; /* the directory is missing or forbidden; the watch on its parent or the
			 * periodic read notices a change */
	w->watches[w->count++] =
	    (struct watched_dir){ .wd = wd, .entry = entry != NULL ? xstrdup(entry) : NULL };
}

/* Resolves the link at `path`: puts its target before `rest` and cuts `path` off at `dir_len`, the
 * length of its directory. */
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

/* Watches every directory on the way to w->path. `..` needs no special case, because the kernel
 * resolves the path up to here. */
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

static void
confdir_watch_renew(struct confdir_watch *w)
{
	if (w->fd < 0 && (w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) < 0 && !w->warned) {
		log_warn("conf %s: inotify is not available: changes are only noticed when the "
			 "directory is read again",
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

/* Whether the event is the creation of an empty file, which is read when its writer closes it. A
 * new hard link to an existing file is complete already. */
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

/* Whether the event may concern one of our keys. */
static bool
event_matters(const struct confdir_watch *w, const struct inotify_event *event)
{
	if (event->mask & IN_Q_OVERFLOW)
		return true;
	for (size_t i = 0; i < w->count; i++) {
		const struct watched_dir *d = &w->watches[i];

		if (d->wd != event->wd)
			continue;
		if (d->entry != NULL ? event->len == 0 || strcmp(d->entry, event->name) == 0
				     : !just_created(w, event))
			return true;
	}
	return false;
}

static bool
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

static void
confdir_watch_init(struct confdir_watch *w, const char *path, char *const *names)
{
	*w = (struct confdir_watch){
		.path = path, .names = names, .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
	};
}

static void
confdir_watch_clear(struct confdir_watch *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->watches[i].entry);
	if (w->fd >= 0)
		close(w->fd);
}

/* --- reading --- */

/*
 * Reads one consistent set of keys. The kubelet replaces a mounted ConfigMap by renaming the link
 * `..data`. All keys are read through one resolved `..data`. If `..data` was replaced meanwhile,
 * all keys are read again.
 */

enum { READ_TRIES = 8 };

/* Reads the open file `fd` into `key`. Returns NULL, or the reason why it failed. */
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

/* Reads one key below `dfd` and appends it, unless it does not exist. Uses O_NONBLOCK, because a
 * key may be a FIFO. */
static void
read_key(int dfd, const char *name, struct confdir_set *set)
{
	int fd = openat(dfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return;
	struct confdir_key *key = &set->keys[set->count++];
	*key = (struct confdir_key){ .name = xstrdup(name), .value = xstrdup("") };
	const char *error = fd < 0 ? strerror(errno) : read_value(fd, key);
	if (error != NULL)
		key->error = xstrdup(error);
	if (fd >= 0)
		close(fd);
}

static void
read_misspelt(int dfd, const char *entry, const char *meant, struct confdir_set *set)
{
	const size_t before = set->count;
	size_t i = 0;

	while (i < before && strcmp(set->keys[i].name, meant) != 0)
		i++;
	read_key(dfd, entry, set); /* there is space, because the key `meant` is missing */
	if (set->count == before)
		return;
	struct confdir_key *key = &set->keys[before], *other = &set->keys[i];
	if (key->error == NULL && conf_asks_tls(key->value, key->len)) {
		if (i == before) {
			key->entry = key->name;
			key->name = xstrdup(meant);
			return;
		}
		other->value = conf_closed_join(other->value, &other->len, key->value, key->len);
	}
	key_clear(key);
	set->count--;
}

/* Opens the directory that contains the keys: the target of `..data`, or `base` itself if there is
 * no `..data`. A dangling `..data` is an error, because the kubelet may be replacing it. */
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

/* Reads all keys through one resolved `..data`. Returns false if `..data` was replaced meanwhile,
 * because some keys may already have been deleted. */
static bool
read_once(char *const *names, int base, struct confdir_set *set)
{
	int data = open_data(base);

	if (data < 0)
		return false;
	for (size_t i = 0; names[i] != NULL; i++)
		read_key(data, names[i], set);
	int now = open_data(base);
	bool same = now >= 0 && same_file(data, now);
	if (now >= 0)
		close(now);
	close(data);
	return same;
}

/* Gives each key an error. An unreadable directory does not mean that the keys are deleted. */
static void
all_unreadable(char *const *names, const char *error, struct confdir_set *set)
{
	set->exists = true;
	for (size_t i = 0; names[i] != NULL; i++)
		set->keys[set->count++] = (struct confdir_key){
			.name = xstrdup(names[i]), .value = xstrdup(""), .error = xstrdup(error)
		};
}

/* Reads the set. If `..data` is replaced during every attempt, all keys get an error until the next
 * event or the next periodic read. */
static void
confdir_read(const char *path, char *const *names, struct confdir_set *set)
{
	size_t count = 0;

	while (names[count] != NULL)
		count++;
	for (int try = 0; try < READ_TRIES; try++) {
		*set = (struct confdir_set){ .keys = xcalloc(count + 1, sizeof *set->keys) };
		int base = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (base < 0) {
			if (errno != ENOENT)
				all_unreadable(names, strerror(errno), set);
			return;
		}
		set->exists = true;
		bool whole = read_once(names, base, set);
		close(base);
		if (whole)
			return;
		confdir_set_free(set);
	}
	set->keys = xcalloc(count + 1, sizeof *set->keys);
	all_unreadable(names, "..data cannot be read, or it changed during each attempt", set);
}
