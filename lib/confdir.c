#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "lib/confdir_internal.h"
#include "lib/log.h"
#include "lib/spelling.h"
#include "lib/xalloc.h"

enum { ENTRIES_MAX = 1000 };

struct confdir {
	char *path;
	char **names; /* NULL ends */
	struct confdir_watch watch;
	struct confdir_set last;
	bool started;
	bool missing;   /* and that has been logged */
	char *misspelt; /* the entry last reported to look like a key */
};

/* The key that an entry of the directory seems to have been meant for and that is not there; NULL:
 * none. */
static const char *
key_meant(const struct confdir *dir, const struct confdir_set *set, const char *entry)
{
	struct spelling near = spelling_of(entry, strlen(entry));
	for (size_t i = 0; dir->names[i] != NULL; i++) {
		if (strcmp(entry, dir->names[i]) == 0)
			return NULL;
		spelling_try(&near, dir->names[i]);
	}
	return near.word && !confdir_get(set, near.word) ? near.word : NULL;
}

const char *
confdir_foreign(const char *entry)
{
	return strcmp(entry, "Corefile") == 0
		   ? "Corefile: this is CoreDNS's configuration, and nothing of it is read here; "
		     "kubedns-migrate translates it"
		   : "";
}

/*
 * A directory may hold keys for others, so an unknown one is not an error; one that looks like a
 * missing one of ours is a mistake that nothing else would ever show.
 */
static void
note_misspelt(struct confdir *dir, const struct confdir_set *set)
{
	DIR *entries = opendir(dir->path);
	const char *meant = NULL, *foreign = "";
	const struct dirent *e = NULL;
	for (int n = 0; entries && !meant && !*foreign && n < ENTRIES_MAX && (e = readdir(entries));
	     n++) {
		meant = e->d_name[0] == '.' ? NULL : key_meant(dir, set, e->d_name);
		foreign = confdir_foreign(e->d_name);
	}
	const char *found = meant || *foreign ? e->d_name : "";
	bool news = *found && (!dir->misspelt || strcmp(dir->misspelt, found) != 0);
	if (news && meant)
		log_warnx("conf %s: %s: no key that is read here; %s?", dir->path, found, meant);
	else if (news)
		log_warnx("conf %s: %s", dir->path, foreign);
	free(dir->misspelt);
	dir->misspelt = *found ? xstrdup(found) : NULL;
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
	size_t count = 0;
	while (names[count])
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
	confdir_watch_clear(&dir->watch);
	for (char **name = dir->names; *name; name++)
		free(*name);
	free(dir->names);
	free(dir->misspelt);
	free(dir->path);
	free(dir);
}
