/* Reads the members of a JSON object that object_fields.h lists, and notes the first invalid member. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kubedns/cluster/field_reader.h"
#include "lib/dname.h"
#include "lib/xalloc.h"

void
field_complain(struct reader *r, const char *why)
{
	if (r->why == NULL)
		r->why = why;
}

void
field_complain_value(struct reader *r, const char *what, const char *value, const char *why)
{
	/* One static buffer is enough, because only the main thread reads objects, one at a time. */
	static char text[200];

	if (r->why != NULL)
		return;
	snprintf(text, sizeof text, "%s \"%.64s\" %s", what, value, why);
	r->why = text;
}

/*
 * Finds all wanted members in one walk. These objects have few members, so comparing names in order
 * is cheaper than hashing each wanted name. A null member counts as missing: the result is NULL in
 * both cases.
 */
void
fields_find(struct json_object *json, const struct field *wanted, size_t count)
{
	for (size_t i = 0; i < count; i++)
		*wanted[i].value = NULL;
	if (!json_object_is_type(json, json_type_object))
		return;
	const struct lh_table *members = json_object_get_object(json);
	for (const struct lh_entry *e = lh_table_head(members); e != NULL; e = lh_entry_next(e)) {
		const char *name = lh_entry_k(e);

		for (size_t i = 0; i < count; i++) {
			if (name[0] == wanted[i].name[0] && strcmp(name, wanted[i].name) == 0) {
				*wanted[i].value = lh_entry_v(e);
				break;
			}
		}
	}
}

const char *
field_text(struct reader *r, struct json_object *json, const char *why)
{
	if (json == NULL)
		return NULL;
	if (json_object_is_type(json, json_type_string)) {
		const char *s = json_object_get_string(json);

		if (strlen(s) == (size_t)json_object_get_string_len(json))
			return s;
	}
	field_complain(r, why);
	return NULL;
}

const char *
field_text_or(struct reader *r, struct json_object *json, const char *deflt, const char *why)
{
	const char *s = field_text(r, json, why);

	return s != NULL ? s : deflt;
}

bool
field_bool_or(struct reader *r, struct json_object *json, bool deflt, const char *why)
{
	if (json == NULL)
		return deflt;
	if (json_object_is_type(json, json_type_boolean))
		return json_object_get_boolean(json);
	field_complain(r, why);
	return deflt;
}

size_t
field_items(struct reader *r, struct json_object *json, const char *why)
{
	if (json == NULL)
		return 0;
	if (json_object_is_type(json, json_type_array))
		return json_object_array_length(json);
	field_complain(r, why);
	return 0;
}

size_t
field_bound(struct reader *r, size_t count, size_t max, const char *why)
{
	if (count <= max)
		return count;
	field_complain(r, why);
	r->cut = true;
	return max;
}

bool
field_is_label(const char *s)
{
	return s != NULL && dname_label_ok(s, strlen(s));
}

const char *
field_label(struct reader *r, struct json_object *json, const char *why)
{
	const char *s = field_text(r, json, why);

	if (s == NULL || s[0] == '\0')
		return NULL;
	if (field_is_label(s))
		return s;
	field_complain(r, why);
	return NULL;
}

/* Returns the protocol in lower case, as in a DNS label. Returns NULL if the protocol cannot be a label. */
static const char *
read_protocol(struct reader *r, struct json_object *json)
{
	static const char *const known[][2] = { { "TCP", "tcp" }, { "UDP", "udp" },
		{ "SCTP", "sctp" } };
	const char *s = field_text_or(r, json, "TCP", "a port's protocol is not a string");

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (strcmp(s, known[i][0]) == 0)
			return known[i][1];
	}
	/* With the leading underscore, at most 62 bytes fit into a label. */
	size_t len = strlen(s);
	if (!field_is_label(s) || len >= DNAME_LABEL_MAX) {
		field_complain(r, "a port's protocol is not a DNS label");
		return NULL;
	}
	char lower[DNAME_LABEL_MAX];
	for (size_t i = 0; i < len; i++)
		lower[i] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] + 32) : s[i];
	json_object_set_string_len(json, lower, (int)len);
	return json_object_get_string(json);
}

static bool
read_port(struct reader *r, struct json_object *json, struct object_port *port)
{
	FIELDS_DECLARE(PORT_FIELDS)

	if (!json_object_is_type(json, json_type_object)) {
		field_complain(r, "a port is not an object");
		return false;
	}
	FIELDS_READ(json, PORT_FIELDS);
	port->name = field_text_or(r, name, "", "a port's name is not a string");
	if (port->name[0] != '\0' &&
	    (!field_is_label(port->name) || strlen(port->name) >= DNAME_LABEL_MAX)) {
		field_complain(r, "a port's name is not a DNS label");
		port->name = "";
	}
	port->protocol = read_protocol(r, protocol);
	port->port = 0;
	if (json_object_is_type(number, json_type_int)) {
		int64_t n = json_object_get_int64(number);

		if (n > 0 && n <= UINT16_MAX)
			port->port = (uint16_t)n;
	}
	if (number != NULL && port->port == 0)
		field_complain_value(
		    r, "port", json_object_get_string(number), "is not a number from 1 to 65535");
	return port->protocol != NULL;
}

struct object_port *
object_read_ports(struct reader *r, struct json_object *json, size_t *count)
{
	size_t len = field_bound(r, field_items(r, json, "ports is not a list"), OBJECT_PORTS_MAX,
	    "more than 20,000 ports");

	*count = 0;
	if (len == 0)
		return NULL;
	struct object_port *ports = xcalloc(len, sizeof *ports);
	for (size_t i = 0; i < len; i++) {
		if (read_port(r, json_object_array_get_idx(json, i), &ports[*count]))
			(*count)++;
	}
	return ports;
}

enum { RFC3339_MAX = 64 }; /* 2026-07-01T10:00:00.123456789+02:00 has 35 */

static uint32_t
digits(const char **s, int count, bool *ok)
{
	uint32_t value = 0;

	for (int i = 0; i < count; i++, (*s)++) {
		if (**s < '0' || **s > '9') {
			*ok = false;
			return 0;
		}
		value = value * 10 + (uint32_t)(**s - '0');
	}
	return value;
}

static void
literal(const char **s, char c, bool *ok)
{
	if (*ok && **s == c)
		(*s)++;
	else
		*ok = false;
}

int64_t
object_rfc3339_ns(const char *s)
{
	bool ok = true;
	struct tm tm = { 0 };

	if (strnlen(s, RFC3339_MAX + 1) > RFC3339_MAX)
		return 0;

	tm.tm_year = (int)digits(&s, 4, &ok) - 1900;
	literal(&s, '-', &ok);
	tm.tm_mon = (int)digits(&s, 2, &ok) - 1;
	literal(&s, '-', &ok);
	tm.tm_mday = (int)digits(&s, 2, &ok);
	literal(&s, 'T', &ok);
	tm.tm_hour = (int)digits(&s, 2, &ok);
	literal(&s, ':', &ok);
	tm.tm_min = (int)digits(&s, 2, &ok);
	literal(&s, ':', &ok);
	tm.tm_sec = (int)digits(&s, 2, &ok);
	if (!ok || tm.tm_year < 70 || tm.tm_year > 300)
		return 0;
	int64_t ns = 0;
	if (*s == '.') {
		int64_t unit = 100000000;

		for (s++; *s >= '0' && *s <= '9'; s++, unit /= 10)
			ns += (*s - '0') * unit;
	}
	int offset_s = 0;
	if (*s == '+' || *s == '-') {
		int sign = *s++ == '+' ? 1 : -1;

		offset_s = (int)digits(&s, 2, &ok) * 3600;
		literal(&s, ':', &ok);
		offset_s = sign * (offset_s + (int)digits(&s, 2, &ok) * 60);
	} else {
		literal(&s, 'Z', &ok);
	}
	if (!ok || *s != '\0')
		return 0;
	return ((int64_t)timegm(&tm) - offset_s) * 1000000000 + ns;
}
