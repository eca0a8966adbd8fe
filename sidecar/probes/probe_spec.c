#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/wire.h"
#include "sidecar/probes/probe_spec.h"

enum { FIELD_LABEL, FIELD_SERVER, FIELD_NAME, FIELD_INTERVAL, FIELD_TYPE, FIELD_COUNT };
enum { FIELDS_MIN = FIELD_NAME + 1, FIELD_MAX = 1100 };

static int
refuse(char *why, const char *what, const char *value)
{
	snprintf(why, SPEC_WHY_MAX, "%s: \"%.64s\"", what, value);
	return -EINVAL;
}

/* Parses the label. Allows Kubernetes names and the labels that users of kube-dns have: letters, digits, '-', '_', '.'. */
static int
parse_label(struct probe_spec *spec, const char *text, char *why)
{
	size_t len = strlen(text);

	if (len == 0 || len > SPEC_LABEL_MAX)
		return refuse(why, "a label has 1 to 63 characters", text);
	if (strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") !=
	    len)
		return refuse(why, "a label holds only letters, digits, '-', '_' and '.'", text);
	if (strspn(text, ".") == len)
		return refuse(why, "a label must not consist of dots only", text);
	memcpy(spec->label, text, len + 1);
	return 0;
}

static int
parse_interval(struct probe_spec *spec, const char *text, char *why)
{
	char *end;

	errno = 0;
	long value = strtol(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < 1 ||
	    value > SPEC_INTERVAL_S_MAX)
		return refuse(why, "the interval is 1 to 86400 whole seconds", text);
	spec->interval_s = (uint32_t)value;
	return 0;
}

static int
parse_type(struct probe_spec *spec, const char *text, char *why)
{
	static const uint16_t types[] = { TYPE_A, TYPE_AAAA, TYPE_SRV, TYPE_ANY };
	uint16_t type = type_number(text);

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (types[i] == type) {
			spec->type = type;
			return 0;
		}
	return refuse(why, "the type is ANY, A, AAAA or SRV", text);
}

static int
parse_server(struct probe_spec *spec, const char *text, char *why)
{
	const char *reason = "not an address";

	if (server_parse(text, 53, &spec->server, &reason) == 0)
		return 0;
	char what[80];
	snprintf(what, sizeof what, "server: %s", reason != NULL ? reason : "not an address");
	return refuse(why, what, text);
}

static int
parse_name(struct probe_spec *spec, const char *text, char *why)
{
	return text[0] != '\0' && dname_from_text(&spec->name, text) == 0
		   ? 0
		   : refuse(why, "not a DNS name", text);
}

static int (*const parsers[])(struct probe_spec *, const char *, char *) = {
	[FIELD_LABEL] = parse_label,
	[FIELD_SERVER] = parse_server,
	[FIELD_NAME] = parse_name,
	[FIELD_INTERVAL] = parse_interval,
	[FIELD_TYPE] = parse_type,
};

int
spec_parse(struct probe_spec *spec, const char *text, char *why)
{
	int field = 0;

	memset(spec, 0, sizeof *spec);
	spec->type = TYPE_A;
	spec->interval_s = SPEC_INTERVAL_S;
	for (const char *p = text;; field++) {
		char value[FIELD_MAX];
		size_t len = strcspn(p, ",");

		if (field == FIELD_COUNT)
			return refuse(why, "more than five fields", text);
		if (len >= sizeof value)
			return refuse(why, "a field is too long", p);
		memcpy(value, p, len);
		value[len] = '\0';
		if (parsers[field](spec, value, why) < 0)
			return -EINVAL;
		if (p[len] == '\0')
			break;
		p += len + 1;
	}
	if (field + 1 < FIELDS_MIN) {
		snprintf(
		    why, SPEC_WHY_MAX, "label,server[:port],name[,interval_s[,type]] is needed");
		return -EINVAL;
	}
	return 0;
}

const char *
spec_metric_name(const char *label, char *name)
{
	size_t i;

	for (i = 0; label[i] != '\0' && i < SPEC_LABEL_MAX; i++)
		name[i] = isalnum((unsigned char)label[i]) ? label[i] : '_';
	name[i] = '\0';
	return name;
}
