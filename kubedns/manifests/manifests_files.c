/* The files of a directory of manifests: which names count, and the inotify events about them. */
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "kubedns/manifests/manifests_internal.h"
#include "lib/xalloc.h"

/* MODIFY starts a write, and the other events end a write. ATTRIB may be a chmod that makes a file
 * readable. */
static const uint32_t dir_events = IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE |
				   IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |
				   IN_MOVE_SELF | IN_ONLYDIR;
static const uint32_t parent_events =
    IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR;

/* NAME.yaml, NAME.yml, NAME.json. Backup files of editors have other endings (web.yaml~,
 * .web.yaml.swp, #web.yaml#) or are hidden. */
bool
manifests_is_manifest(const char *name)
{
	static const char *const endings[] = { ".yaml", ".yml", ".json" };
	size_t len = strlen(name);

	if (name[0] == '.')
		return false;
	for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
		size_t ending = strlen(endings[i]);

		if (len > ending && strcmp(name + len - ending, endings[i]) == 0)
			return true;
	}
	return false;
}

/* Returns the index of the file in m->files, or the index at which to insert it. */
size_t
manifests_file_place(const struct manifests *m, const char *name)
{
	size_t low = 0, high = m->file_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(m->files[middle]->held.name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Returns the file with this name, and creates it if necessary. Returns NULL if there are too many files. */
struct file *
manifests_file_named(struct manifests *m, const char *name)
{
	size_t at = manifests_file_place(m, name);

	if (at < m->file_count && strcmp(m->files[at]->held.name, name) == 0)
		return m->files[at];
	if (m->file_count >= MANIFESTS_FILES_MAX)
		return NULL;
	if ((m->file_count & (m->file_count - 1)) == 0)
		m->files = xreallocarray(
		    m->files, m->file_count > 0 ? 2 * m->file_count : 1, sizeof(struct file *));
	memmove(&m->files[at + 1], &m->files[at], (m->file_count - at) * sizeof(struct file *));
	m->files[at] = xcalloc(1, sizeof(struct file));
	m->files[at]->held.name = xstrdup(name);
	m->file_count++;
	return m->files[at];
}

static void
file_event(struct manifests *m, const struct inotify_event *event)
{
	if (strcmp(event->name, "..data") == 0)
		m->dirty = true; /* the kubelet replaced a ConfigMap's set of files */
	if (!manifests_is_manifest(event->name))
		return;
	struct file *file = manifests_file_named(m, event->name);
	if (file == NULL)
		return;
	if (event->mask & IN_MODIFY) {
		file->writing = true;
		return;
	}
	m->dirty = true;
	if (event->mask & IN_ATTRIB)
		return;
	/* Two writes within one clock tick have the same times, so the file is read again after a close. */
	file->writing = false;
	file->stamp = (struct stamp){ 0 };
}

static void
one_event(struct manifests *m, const struct inotify_event *event)
{
	if (event->mask & IN_Q_OVERFLOW) {
		for (size_t i = 0; i < m->file_count; i++)
			m->files[i]->writing = false;
		m->dirty = true;
	} else if (event->wd == m->dir_watch) {
		if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) {
			m->dirty = true;
			if (event->mask & IN_IGNORED)
				m->dir_watch = -1;
		} else if (event->len > 0) {
			file_event(m, event);
		}
	} else if (event->wd == m->parent_watch && event->len > 0 &&
		   strcmp(event->name, m->base) == 0) {
		m->dirty = true;
	}
}

void
manifests_events(struct manifests *m)
{
	_Alignas(struct inotify_event) char buf[16384];
	ssize_t len;

	while (m->inotify >= 0 && (len = read(m->inotify, buf, sizeof buf)) > 0) {
		const char *end = buf + len;

		for (const char *p = buf; p < end;) {
			const struct inotify_event *event = (const void *)p;

			one_event(m, event);
			p += sizeof *event + event->len;
		}
	}
}

/* Watches the directory to which the path leads now. It may be another directory than before. */
void
manifests_watch(struct manifests *m)
{
	if (m->inotify < 0)
		return;
	if (m->base != NULL)
		m->parent_watch = inotify_add_watch(m->inotify, m->parent, parent_events);
	int wd = inotify_add_watch(m->inotify, m->path, dir_events);
	if (wd == m->dir_watch)
		return;
	if (m->dir_watch >= 0)
		inotify_rm_watch(m->inotify, m->dir_watch);
	m->dir_watch = wd;
	for (size_t i = 0; i < m->file_count; i++)
		m->files[i]->writing = false; /* the new directory has not reported any writes */
}

/* The directory "dir/objects/" is also watched as the name "objects" in "dir", so a replacement of
 * the directory is noticed at once. */
void
manifests_split_path(struct manifests *m)
{
	size_t len = strlen(m->path);

	while (len > 1 && m->path[len - 1] == '/')
		m->path[--len] = '\0';
	char *copy = xstrdup(m->path);
	m->base = xstrdup(basename(copy));
	free(copy);
	copy = xstrdup(m->path);
	m->parent = xstrdup(dirname(copy));
	free(copy);
	if (strcmp(m->base, ".") == 0 || strcmp(m->base, "..") == 0 || strcmp(m->base, "/") == 0) {
		free(m->base);
		m->base = NULL;
	}
}
