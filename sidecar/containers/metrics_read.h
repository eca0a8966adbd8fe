/* Parses one line of Prometheus metrics, text format 0.0.4. */
#ifndef SIDECAR_CONTAINERS_METRICS_READ_H
#define SIDECAR_CONTAINERS_METRICS_READ_H

#include <stddef.h>

enum { SAMPLE_NAME_MAX = 128, SAMPLE_LABELS_MAX = 8, SAMPLE_VALUE_MAX = 128 };

struct sample {
	char name[SAMPLE_NAME_MAX];
	size_t label_count;
	struct {
		char name[SAMPLE_NAME_MAX];
		char value[SAMPLE_VALUE_MAX]; /* unescaped; truncated if too long */
	} labels[SAMPLE_LABELS_MAX];
	double value;
};

/* Parses a line of `len` bytes without the newline. Returns 0, or -EINVAL if the line is not a sample, for example a comment or an empty
 * line. */
int sample_read(struct sample *sample, const char *line, size_t len);

/* Returns the value of label `name`, or "" if the sample does not have the label. */
const char *sample_label(const struct sample *sample, const char *name);

#endif
