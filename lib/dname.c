#include <errno.h>
#include <string.h>

#include "lib/dname.h"

static inline uint8_t
lower(uint8_t c)
{
	return (uint8_t)(c + ((uint8_t)(c - 'A') < 26) * ('a' - 'A'));
}

void
dname_lower(uint8_t *wire, size_t len)
{
	size_t i = 0;

	for (; i + 8 <= len; i += 8)
		dname_lower_at(wire + i);
	for (; i < len; i++)
		wire[i] = lower(wire[i]);
}

size_t
dname_length(const uint8_t *wire, size_t max)
{
	size_t at = 0;

	while (at < max && at < DNAME_MAX) {
		if (wire[at] == 0)
			return at + 1;
		if (wire[at] > DNAME_LABEL_MAX)
			return 0;
		at += 1u + wire[at];
	}
	return 0;
}

static size_t
whole_length(const uint8_t *wire)
{
	size_t at = 0;

	while (wire[at] != 0)
		at += 1u + wire[at];
	return at + 1;
}

bool
dname_equal(const uint8_t *a, const uint8_t *b)
{
	size_t len = whole_length(a), i = 0;
	uint64_t x, y;

	if (whole_length(b) != len)
		return false;
	for (; i + sizeof x <= len; i += sizeof x) {
		memcpy(&x, a + i, sizeof x);
		memcpy(&y, b + i, sizeof y);
		if (x != y && dname_lower_eight(x) != dname_lower_eight(y))
			return false;
	}
	for (; i < len; i++)
		if (lower(a[i]) != lower(b[i]))
			return false;
	return true;
}

unsigned
dname_labels(const uint8_t *wire)
{
	unsigned count = 0;

	for (; *wire != 0; wire += 1u + *wire)
		count++;
	return count;
}

int
dname_in_zone(const uint8_t *name, const uint8_t *zone)
{
	size_t name_len = whole_length(name), zone_len = whole_length(zone), at = 0;

	if (name_len < zone_len)
		return -1;
	/* Only label borders count: "xcluster.local" is not below "cluster.local". */
	while (at < name_len - zone_len)
		at += 1u + name[at];
	if (at != name_len - zone_len || !dname_equal(name + at, zone))
		return -1;
	return (int)at;
}

int
dname_prepend(struct dname *name, const void *label, size_t len)
{
	if (len == 0 || len > DNAME_LABEL_MAX || name->len + len + 1 > DNAME_MAX)
		return -ENAMETOOLONG;
	memmove(name->wire + len + 1, name->wire, name->len);
	name->wire[0] = (uint8_t)len;
	memcpy(name->wire + 1, label, len);
	name->len = (uint8_t)(name->len + len + 1);
	return 0;
}

int
dname_append(struct dname *name, const uint8_t *suffix)
{
	size_t len = whole_length(suffix);

	if (name->len - 1 + len > DNAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name->wire + name->len - 1, suffix, len);
	name->len = (uint8_t)(name->len - 1 + len);
	return 0;
}

int
dname_compare(const uint8_t *a, const uint8_t *b)
{
	const uint8_t *labels_a[DNAME_LABELS_MAX], *labels_b[DNAME_LABELS_MAX];
	unsigned count_a = 0, count_b = 0;

	for (; *a != 0; a += 1u + *a)
		labels_a[count_a++] = a;
	for (; *b != 0; b += 1u + *b)
		labels_b[count_b++] = b;
	while (count_a > 0 && count_b > 0) {
		const uint8_t *la = labels_a[--count_a], *lb = labels_b[--count_b];
		unsigned shorter = *la < *lb ? *la : *lb;

		for (unsigned i = 1; i <= shorter; i++)
			if (lower(la[i]) != lower(lb[i]))
				return lower(la[i]) - lower(lb[i]);
		if (*la != *lb)
			return *la - *lb;
	}
	return (int)count_a - (int)count_b;
}

int
dname_octet(const char **text)
{
	const char *p = *text;

	if (*p != '\\') {
		*text = p + 1;
		return (unsigned char)*p;
	}
	p++;
	if (*p < '0' || *p > '9') {
		if (*p == '\0')
			return -1;
		*text = p + 1;
		return (unsigned char)*p;
	}
	int value = 0;
	for (int i = 0; i < 3; i++, p++) {
		if (*p < '0' || *p > '9')
			return -1;
		value = value * 10 + (*p - '0');
	}
	*text = p;
	return value <= 255 ? value : -1;
}

int
dname_from_text(struct dname *name, const char *text)
{
	size_t at = 0, label = 0; /* `label`: offset of the length byte of the current label */

	if (strcmp(text, ".") == 0) {
		name->len = 1;
		name->wire[0] = 0;
		return 0;
	}
	if (*text == '\0')
		return -EINVAL;
	at = 1;
	while (*text != '\0') {
		if (*text == '.') {
			if (at - label == 1)
				return -EINVAL;
			name->wire[label] = (uint8_t)(at - label - 1);
			label = at++;
			text++;
			continue;
		}
		int octet = dname_octet(&text);
		if (octet < 0 || at - label > DNAME_LABEL_MAX || at >= DNAME_MAX - 1)
			return -EINVAL;
		name->wire[at++] = (uint8_t)octet;
	}
	if (at - label > 1) { /* no final dot */
		name->wire[label] = (uint8_t)(at - label - 1);
		label = at++;
	}
	if (at > DNAME_MAX)
		return -EINVAL;
	name->wire[label] = 0;
	name->len = (uint8_t)at;
	return 0;
}

const char *
dname_to_text(const uint8_t *wire, char *text)
{
	char *out = text;

	if (*wire == 0)
		*out++ = '.';
	for (; *wire != 0; wire += 1u + *wire) {
		for (unsigned i = 1; i <= *wire; i++) {
			uint8_t c = wire[i];

			if (c <= ' ' || c >= 0x7f) {
				*out++ = '\\';
				*out++ = (char)('0' + c / 100);
				*out++ = (char)('0' + c / 10 % 10);
				*out++ = (char)('0' + c % 10);
				continue;
			}
			if (strchr(".\\\"();@$", c) != NULL)
				*out++ = '\\';
			*out++ = (char)c;
		}
		*out++ = '.';
	}
	*out = '\0';
	return text;
}

bool
dname_label_ok(const char *label, size_t len)
{
	if (len == 0 || len > DNAME_LABEL_MAX || label[0] == '-' || label[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		uint8_t c = lower((uint8_t)label[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
			return false;
	}
	return true;
}
