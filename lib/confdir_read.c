/*
 * One consistent set of keys. The kubelet exchanges a mounted ConfigMap by renaming the link
 * `..data`: all keys are read through one resolved `..data`, and read again when it was exchanged
 * meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/confdir_internal.h"
#include "lib/xalloc.h"

enum { READ_TRIES = 8 };

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

/* A directory that cannot be read has none of its keys deleted: each is there, with an error. */
static void
all_unreadable(char *const *names, const char *error, struct confdir_set *set)
{
	set->exists = true;
	for (size_t i = 0; names[i] != NULL; i++)
		set->keys[set->count++] = (struct confdir_key){
			.name = xstrdup(names[i]), .value = xstrdup(""), .error = xstrdup(error)
		};
}

/* Reads the set. Where no quiet moment is to be had, every key is in error until the next event or
 * the period. */
void
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
	all_unreadable(names, "..data cannot be read or does not stay", set);
}
