#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "migrate/migrate.h"
#include "migrate/objects.h"
#include "migrate/plugins.h"
#include "lib/documents.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { INPUT_MAX = 16 << 20 };

/* Reads `in` to its end, at most `max` bytes. Returns NULL and sets errno on failure. Caller frees. */
static char *
read_all(FILE *in, size_t max, size_t *len)
{
	size_t capacity = 65536;
	char *text = xmalloc(capacity);

	*len = 0;
	for (;;) {
		size_t n = fread(text + *len, 1, capacity - *len - 1, in);

		*len += n;
		if (n == 0 || *len > max)
			break;
		if (capacity - *len - 1 == 0)
			text = xreallocarray(text, capacity *= 2, 1);
	}
	if (ferror(in) || *len > max) {
		errno = ferror(in) ? EIO : EFBIG;
		free(text);
		return NULL;
	}
	text[*len] = '\0';
	return text;
}

/* Reads a file. If `regular` is set, refuses other kinds of files, such as a pipe that never ends. */
static char *
read_path(const char *path, bool regular, size_t max, size_t *len)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | (regular ? O_NONBLOCK : 0));

	if (fd < 0)
		return NULL;
	FILE *in = NULL;
	char *text = NULL;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		errno = EISDIR;
	else if (regular && !S_ISREG(st.st_mode))
		errno = EINVAL;
	else
		in = fdopen(fd, "r");
	if (in != NULL) {
		text = read_all(in, max, len);
		fclose(in);
		return text;
	}
	int error = errno;
	close(fd);
	errno = error;
	return NULL;
}

/* Returns the path of `name` in the directory of the file `from`. Caller frees. */
static char *
beside(const char *from, const char *name)
{
	const char *slash = strrchr(from, '/');

	return slash != NULL ? xasprintf("%.*s/%s", (int)(slash - from), from, name)
			     : xstrdup(name);
}

/* Implements corefile_import with files. A pattern is relative to the importing file. */
static size_t
import_paths(void *arg, const char *pattern, const char *from, struct corefile_text **texts)
{
	char *path = *pattern == '/' ? xstrdup(pattern) : beside(from, pattern);
	glob_t found = { 0 };
	size_t count = 0;

	(void)arg;
	*texts = NULL;
	if (glob(path, 0, NULL, &found) == 0 && found.gl_pathc > COREFILE_FILES_MAX) {
		count = COREFILE_TOO_MANY;
	} else if (found.gl_pathc > 0) {
		*texts = xcalloc(found.gl_pathc, sizeof **texts);
		for (size_t i = 0; i < found.gl_pathc; i++) {
			size_t len;
			char *text = read_path(found.gl_pathv[i], true, COREFILE_BYTES_MAX, &len);

			if (text == NULL) {
				log_warn("%s", found.gl_pathv[i]);
				continue;
			}
			(*texts)[count++] = (struct corefile_text){
				.name = xstrdup(found.gl_pathv[i]), .text = text, .len = len
			};
		}
	}
	globfree(&found);
	free(path);
	return count;
}

/* Reads a file of CoreDNS's container. Uses the file with the same name next to the Corefile, if it exists. */
static bool
read_beside(void *arg, const char *path, const char *from, struct corefile_text *text)
{
	const char *slash = strrchr(path, '/');
	char *name = beside(from, slash != NULL ? slash + 1 : path);

	(void)arg;
	text->text = read_path(name, true, COREFILE_BYTES_MAX, &text->len);
	text->name = text->text != NULL ? name : NULL;
	if (text->text == NULL)
		free(name);
	return text->text != NULL;
}

static int
read_corefile(struct report *report, const struct corefile_text *text, corefile_import import,
    struct plugin_files *files)
{
	struct corefile corefile;
	struct corefile_error error;
	int rc =
	    corefile_read(&corefile, text->name, text->text, text->len, import, files->arg, &error);

	if (rc < 0)
		log_errorx("%s:%u: %s", error.file, error.line, error.reason);
	else
		plugins_read(report, &corefile, files);
	corefile_free(&corefile);
	return rc;
}

static int
read_objects(struct report *report, const char *name, const char *text, size_t len, bool json)
{
	struct objects objects = { .report = report, .source = name };
	struct documents_error error = { 0 };
	FILE *in = fmemopen((void *)(uintptr_t)text, len, "re");

	if (in == NULL)
		return -errno;
	int rc = documents_read(
	    in, json ? DOCUMENTS_JSON : DOCUMENTS_YAML, objects_take, &objects, &error);
	fclose(in);
	if (rc < 0)
		log_errorx("%s:%u: %s", name, error.line, error.reason);
	else
		rc = objects_complete(&objects);
	struct plugin_files files = { .read = objects_file,
		.arg = &objects,
		.partial = objects.partial,
		.custom = objects.custom };
	for (size_t i = 0; rc == 0 && i < objects.count; i++)
		if (objects.texts[i].corefile)
			rc = read_corefile(report, &objects.texts[i].text, objects_import, &files);
	if (rc == 0)
		objects_report_unread(&objects);
	objects_free(&objects);
	return rc;
}

enum format { FORMAT_COREFILE, FORMAT_YAML, FORMAT_JSON };

/* Whether the text begins with `word:` and a blank, like a YAML mapping. In a Corefile, the port follows the colon after a zone, without a
 * blank. */
static bool
is_mapping(const char *text)
{
	size_t len =
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return len > 0 && text[len] == ':' && text[len + 1] != '\0' &&
	       strchr(" \t\r\n", text[len + 1]) != NULL;
}

/* Guesses the format from the first word that is not a comment. A Corefile begins with a zone, a snippet or an import. */
static enum format
guess(const char *text)
{
	for (;;) {
		text += strspn(text, " \t\r\n");
		if (*text != '#')
			break;
		text += strcspn(text, "\n");
	}
	if (*text == '{' && text[1 + strspn(text + 1, " \t\r\n")] == '"')
		return FORMAT_JSON;
	return is_mapping(text) || strncmp(text, "---", 3) == 0 ? FORMAT_YAML : FORMAT_COREFILE;
}

/* Whether the text is UTF-16, which PowerShell's `>` writes. */
static bool
is_utf16(const char *text, size_t len)
{
	return len >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0 ||
			       text[0] == '\0' || text[1] == '\0');
}

static int
migrate_text(const char *name, char *text, size_t len, enum migrate_topology topology, FILE *out)
{
	if (is_utf16(text, len)) {
		log_errorx("%s: is UTF-16: save it as UTF-8", name);
		return -EINVAL;
	}
	struct corefile_text corefile = { .name = xstrdup(name), .text = text, .len = len };
	struct plugin_files files = { .read = read_beside };
	struct report *report =
	    report_new(topology == MIGRATE_CLASSIC ? TOPOLOGY_CLASSIC : TOPOLOGY_FRONT);
	enum format format = guess(text);
	/* For objects, objects_complete() decides: a Corefile in the objects selects the topology. */
	if (topology == MIGRATE_AUTO && format != FORMAT_COREFILE)
		report_set_topology(report, TOPOLOGY_AUTO);
	int rc = format == FORMAT_COREFILE
		     ? read_corefile(report, &corefile, import_paths, &files)
		     : read_objects(report, name, text, len, format == FORMAT_JSON);
	if (rc == 0 && report_is_empty(report)) {
		log_errorx("%s: nothing to migrate: no server block, and no object of a cluster's "
			   "DNS; did the command before it fail?",
		    name);
		rc = -ENODATA;
	}
	if (rc == 0)
		report_print(report, name, out);
	report_free(report);
	free(corefile.name);
	return rc;
}

int
migrate(const char *path, enum migrate_topology topology, FILE *out)
{
	size_t len;
	bool input = strcmp(path, "-") == 0;
	char *text =
	    input ? read_all(stdin, INPUT_MAX, &len) : read_path(path, false, INPUT_MAX, &len);

	if (text == NULL) {
		int error = errno;

		log_error("%s", path);
		return -error;
	}
	int rc = migrate_text(input ? "(standard input)" : path, text, len, topology, out);
	free(text);
	return rc;
}
