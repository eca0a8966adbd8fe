#include "lib/duration.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct unit {
	const char *name;
	long long ns;
};

/* If one name begins with another name, the longer one comes first. Unicode has two micro signs,
 * and Go reads both. */
static const struct unit units[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "\xc2\xb5s", 1000 },
	{ "\xce\xbcs", 1000 },
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "m", 60000000000 },
	{ "h", 3600000000000 },
};

static const struct unit *
unit_read(const char **text)
{
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		size_t len = strlen(units[i].name);

		if (strncmp(*text, units[i].name, len) == 0) {
			*text += len;
			return &units[i];
		}
	}
	return NULL;
}

/* Adds one number with its unit, such as 1.5h, to `ns`. Returns 0, or -EINVAL if it is malformed or
 * the sum does not fit into an int64_t, as in Go. */
static int
duration_term(const char **text, long long *ns)
{
	long long whole = 0, fraction = 0, scale = 1;
	bool digits = false;
	const char *p = *text;

	for (; isdigit((unsigned char)*p); p++, digits = true)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *p - '0', &whole))
			return -EINVAL;
	if (*p == '.') {
		for (p++; isdigit((unsigned char)*p); p++, digits = true) {
			if (scale < 1000000000) { /* further digits are dropped: for units up to a
						   * second, they are below 1 ns */
				fraction = fraction * 10 + (*p - '0');
				scale *= 10;
			}
		}
	}
	const struct unit *unit = digits ? unit_read(&p) : NULL;
	if (unit == NULL || __builtin_mul_overflow(whole, unit->ns, &whole))
		return -EINVAL;
	/* Neither product overflows, because fraction < 1e9 and a unit is at most 3.6e12 ns. */
	long long part = unit->ns / scale * fraction + unit->ns % scale * fraction / scale;
	if (__builtin_add_overflow(*ns, whole, ns) || __builtin_add_overflow(*ns, part, ns))
		return -EINVAL;
	*text = p;
	return 0;
}

int
duration_parse(const char *text, long long *ms)
{
	enum { NS_PER_MS = 1000000 };
	bool negative = *text == '-';
	long long ns = 0;

	if (*text == '-' || *text == '+')
		text++;
	if (strcmp(text, "0") == 0) {
		*ms = 0;
		return 0;
	}
	if (*text == '\0')
		return -EINVAL;
	while (*text != '\0')
		if (duration_term(&text, &ns) < 0)
			return -EINVAL;
	long long rounded = ns / NS_PER_MS + (ns % NS_PER_MS != 0);
	*ms = negative ? -rounded : rounded;
	return 0;
}
