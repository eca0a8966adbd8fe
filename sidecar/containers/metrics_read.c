#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sidecar/containers/metrics_read.h"

/* The reader's position in the line. */
struct cursor {
	const char *p, *end;
};

static bool
accept_byte(struct cursor *c, char wanted)
{
	if (c->p == c->end || *c->p != wanted)
		return false;
	c->p++;
	return true;
}

static void
skip_blanks(struct cursor *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
}

static bool
read_name(struct cursor *c, char *name)
{
	size_t len = 0;

	while (c->p < c->end && (isalnum((unsigned char)*c->p) || *c->p == '_' || *c->p == ':')) {
		if (len == SAMPLE_NAME_MAX - 1)
			return false;
		name[len++] = *c->p++;
	}
	name[len] = '\0';
	return len > 0 && !isdigit((unsigned char)name[0]);
}

/* Reads a quoted label value with the three escapes of the format. */
static bool
read_value(struct cursor *c, char *value)
{
	size_t len = 0;

	if (!accept_byte(c, '"'))
		return false;
	while (c->p < c->end && *c->p != '"') {
		char byte = *c->p++;

		if (byte == '\\') {
			if (c->p == c->end)
				return false;
			byte = *c->p++;
			byte = byte == 'n' ? '\n' : byte;
		}
		if (len < SAMPLE_VALUE_MAX - 1)
			value[len++] = byte;
	}
	value[len] = '\0';
	return accept_byte(c, '"');
}

static bool
read_labels(struct cursor *c, struct sample *sample)
{
	if (!accept_byte(c, '{'))
		return true;
	while (!accept_byte(c, '}')) {
		if (sample->label_count == SAMPLE_LABELS_MAX)
			return false;
		skip_blanks(c);
		if (!read_name(c, sample->labels[sample->label_count].name) ||
		    !accept_byte(c, '=') ||
		    !read_value(c, sample->labels[sample->label_count].value))
			return false;
		sample->label_count++;
		if (!accept_byte(c, ',') && (c->p == c->end || *c->p != '}'))
			return false;
	}
	return true;
}

int
sample_read(struct sample *sample, const char *line, size_t len)
{
	struct cursor c = { line, line + len };
	char number[64], *end;

	sample->label_count = 0;
	if (!read_name(&c, sample->name) || !read_labels(&c, sample))
		return -EINVAL;
	skip_blanks(&c);
	size_t digits = 0;
	while (c.p<c.end && * c.p> ' ') {
		if (digits == sizeof number - 1)
			return -EINVAL;
		number[digits++] = *c.p++;
	}
	number[digits] = '\0';
	sample->value = strtod(number, &end);
	return digits > 0 && *end == '\0' ? 0 : -EINVAL; /* a timestamp may follow */
}

const char *
sample_label(const struct sample *sample, const char *name)
{
	for (size_t i = 0; i < sample->label_count; i++)
		if (strcmp(sample->labels[i].name, name) == 0)
			return sample->labels[i].value;
	return "";
}
