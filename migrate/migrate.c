#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "migrate/migrate.h"
#include "migrate/objects.h"
#include "migrate/plugins.h"
#include "lib/documents.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { INPUT_MAX = 16 << 20, IMPORT_FILES_MAX = 1000 };

/* All of `in`, up to `max` bytes; NULL with errno. Caller frees. */
static char *
read_all(FILE *in, size_t max, size_t *len)
{
	size_t room = 65536;
	char *text = xmalloc(room);
	*len = 0;
	for (;;) {
		size_t n = fread(text + *len, 1, room - *len - 1, in);
		*len += n;
		if (n == 0 || *len > max)
			break;
		if (room - *len - 1 == 0)
			text = xreallocarray(text, room *= 2, 1);
	}
	if (ferror(in) || *len > max) {
		errno = ferror(in) ? EIO : EFBIG;
		free(text);
		return NULL;
	}
	text[*len] = '\0';
	return text;
}

static char *
read_path(const char *path, size_t max, size_t *len)
{
	struct stat st;
	FILE *in = fopen(path, "re");
	if (in == NULL)
		return NULL;
	char *text = NULL;
	if (fstat(fileno(in), &st) == 0 && S_ISDIR(st.st_mode))
		errno = EISDIR;
	else
		text = read_all(in, max, len);
	fclose(in);
	return text;
}

/* corefile_import over files, relative to the one that imports. */
static size_t
import_paths(void *arg, const char *pattern, const char *from, struct corefile_text **texts)
{
	const char *slash = strrchr(from, '/');
	char *path = *pattern == '/' || slash == NULL
			 ? xstrdup(pattern)
			 : xasprintf("%.*s/%s", (int)(slash - from), from, pattern);
	glob_t found = { 0 };
	size_t count = 0;
	(void)arg;
	*texts = NULL;
	if (glob(path, 0, NULL, &found) == 0) {
		*texts = xcalloc(found.gl_pathc, sizeof **texts);
		for (size_t i = 0; i < found.gl_pathc && count < IMPORT_FILES_MAX; i++) {
			size_t len;
			char *text = read_path(found.gl_pathv[i], COREFILE_BYTES_MAX, &len);
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

static int
read_corefile(struct report *report, const char *name, const char *text, size_t len,
    corefile_import import, void *arg)
{
	struct corefile corefile;
	struct corefile_error error;
	int rc = corefile_read(&corefile, name, text, len, import, arg, &error);
	if (rc < 0)
		log_errorx("%s:%u: %s", error.file, error.line, error.reason);
	else
		plugins_read(report, &corefile);
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
	for (size_t i = 0; rc == 0 && i < objects.count; i++)
		if (objects_is_corefile(&objects, i))
			rc = read_corefile(report, objects.texts[i].name, objects.texts[i].text,
			    objects.texts[i].len, objects_import, &objects);
	objects_free(&objects);
	return rc;
}

enum format { FORMAT_COREFILE, FORMAT_YAML, FORMAT_JSON };

/* By the first word that is no comment: a Corefile begins with a zone, a snippet or an import. */
static enum format
guess(const char *text)
{
	static const char *const keys[] = {
		"apiVersion:", "kind:", "items:", "metadata:", "data:", "---", "spec:"
	};
	for (;;) {
		text += strspn(text, " \t\r\n");
		if (*text != '#')
			break;
		text += strcspn(text, "\n");
	}
	if (*text == '{' && text[1 + strspn(text + 1, " \t\r\n")] == '"')
		return FORMAT_JSON;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strncmp(text, keys[i], strlen(keys[i])) == 0)
			return FORMAT_YAML;
	return FORMAT_COREFILE;
}

int
migrate_text(const char *name, const char *text, size_t len, FILE *out)
{
	struct report *report = report_new();
	enum format format = guess(text);
	int rc = format == FORMAT_COREFILE
		     ? read_corefile(report, name, text, len, import_paths, NULL)
		     : read_objects(report, name, text, len, format == FORMAT_JSON);
	if (rc == 0)
		report_print(report, name, out);
	report_free(report);
	return rc;
}

int
migrate(const char *path, FILE *out)
{
	size_t len;
	bool input = strcmp(path, "-") == 0;
	char *text = input ? read_all(stdin, INPUT_MAX, &len) : read_path(path, INPUT_MAX, &len);
	if (text == NULL) {
		int error = errno;
		log_error("%s", path);
		return -error;
	}
	int rc = migrate_text(input ? "(standard input)" : path, text, len, out);
	free(text);
	return rc;
}
