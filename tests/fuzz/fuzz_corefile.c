/* Any Corefile. The target reads the Corefile and prints the report. Each import inserts the whole
 * text again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/plugins.h"
#include "lib/xalloc.h"

struct input {
	const char *text;
	size_t len;
};

/* Returns a copy of the input, including NUL bytes, with a further NUL byte at the end. */
static char *
copy_of(const struct input *input)
{
	char *copy = xmalloc(input->len + 1);

	memcpy(copy, input->text, input->len);
	copy[input->len] = '\0';
	return copy;
}

static size_t
import(void *arg, const char *pattern, const char *from, struct corefile_text **texts)
{
	const struct input *input = arg;

	(void)from;
	if (*pattern == 'x')
		return 0;
	*texts = xcalloc(1, sizeof **texts);
	(*texts)[0] = (struct corefile_text){
		.name = xstrdup(pattern), .text = copy_of(input), .len = input->len
	};
	return 1;
}

/* Returns a file that a plugin reads. The file contains the whole text again. */
static bool
read_file(void *arg, const char *path, const char *from, struct corefile_text *text)
{
	const struct input *input = arg;

	(void)from;
	if (*path == 'x')
		return false;
	*text = (struct corefile_text){
		.name = xstrdup(path), .text = copy_of(input), .len = input->len
	};
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { .text = (const char *)data, .len = size };
	struct corefile corefile;
	struct corefile_error error;
	struct report *report = report_new(TOPOLOGY_FRONT);
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (corefile_read(&corefile, "Corefile", input.text, size, import, &input, &error) == 0) {
		struct plugin_files files = { .read = read_file, .arg = &input };

		plugins_read(report, &corefile, &files);
		report_print(report, "Corefile", out);
	} else if (error.reason[0] == '\0') {
		abort();
	}
	fclose(out);
	free(text);
	corefile_free(&corefile);
	report_free(report);
	return 0;
}
