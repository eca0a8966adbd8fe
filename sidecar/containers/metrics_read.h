/* One line of a page of Prometheus metrics, text format 0.0.4, read back. */
#ifndef SIDECAR_CONTAINERS_METRICS_READ_H
#define SIDECAR_CONTAINERS_METRICS_READ_H

#include <stddef.h>

enum { SAMPLE_NAME_MAX = 128, SAMPLE_LABELS_MAX = 8, SAMPLE_VALUE_MAX = 128 };

struct sample {
	char name[SAMPLE_NAME_MAX];
	size_t label_count;
	struct {
		char name[SAMPLE_NAME_MAX];
		char value[SAMPLE_VALUE_MAX]; /* escapes undone; cut at the end */
	} labels[SAMPLE_LABELS_MAX];
	double value;
};

/* Reads `len` bytes without the newline; 0, or -EINVAL for a comment, an empty line or anything
 * that is no sample. */
int sample_read(struct sample *sample, const char *line, size_t len);

/* The value of label `name`, or "". */
const char *sample_label(const struct sample *sample, const char *name);

#endif
