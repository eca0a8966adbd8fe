/* The key federations: name=domain,name=domain. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf_internal.h"
#include "lib/xalloc.h"

static int
add_federation(struct conf_federations *federations, const char *item, char **why)
{
	struct conf_federation f = { 0 }; /* settings are compared as bytes */
	char name[CONF_HOST_MAX];
	const char *reason, *equals = strchr(item, '=');
	if (equals == NULL)
		return conf_refuse(why, item, "", "not name=domain, such as east=east.example.org");
	char *left = xstrndup(item, (size_t)(equals - item));
	int rc = conf_name_parse(left, name, &reason);
	free(left);
	if (rc < 0 || strchr(name, '.') || strchr(name, '_'))
		return conf_refuse(why, item, "", "the federation's name is not one DNS label");
	strcpy(f.name, name);
	if (conf_name_parse(equals + 1, f.domain, &reason) < 0)
		return conf_refuse(why, item, "", "the federation's domain is not a domain name");
	for (size_t i = 0; i < federations->count; i++)
		if (strcmp(federations->items[i].name, f.name) == 0)
			return conf_refuse(why, f.name, "", "is given twice");
	if (federations->count == CONF_FEDERATIONS_MAX)
		return conf_refuse_plain(why, "more than 64 federations");
	federations->items[federations->count++] = f;
	return 0;
}

/* One item of the list; blanks are allowed around it and around its '='. Linear in its length. */
static int
parse_federation(
    struct conf_federations *federations, const char *text, size_t len, bool last, char **why)
{
	len = conf_trim(&text, len);
	if (len == 0 && last) /* after a final comma */
		return 0;
	const char *equals = memchr(text, '=', len);
	if (equals == NULL) {
		char *item = xstrndup(text, len);
		conf_refuse(why, item, "", "not name=domain, such as east=east.example.org");
		free(item);
		return -EINVAL;
	}
	const char *domain = equals + 1;
	size_t name_len = conf_trim(&text, (size_t)(equals - text)),
	       domain_len = conf_trim(&domain, len - (size_t)(domain - text));
	char *item = xasprintf("%.*s=%.*s", (int)name_len, text, (int)domain_len, domain);
	int rc = add_federation(federations, item, why);
	free(item);
	return rc;
}

int
conf_federations_parse(
    const char *text, size_t len, struct conf_federations *federations, char **why)
{
	*federations = (struct conf_federations){ 0 };
	*why = NULL;
	const char *nul = memchr(text, '\0', len);
	if (nul)
		return conf_refuse_at(why, text, (size_t)(nul - text), "NUL byte");
	size_t start = conf_skip_blank(text, len, 0);
	if (start == len)
		return 0;
	size_t blank = len;
	while (conf_is_blank(text[blank - 1]))
		blank--;
	if (blank - start == 4 && memcmp(text + start, "null", 4) == 0)
		return 0;
	int rc = 0;
	for (size_t at = 0; rc == 0 && at <= len;) {
		const char *comma = memchr(text + at, ',', len - at);
		size_t end = comma ? (size_t)(comma - text) : len;
		rc = parse_federation(federations, text + at, end - at, comma == NULL, why);
		at = end + 1;
	}
	if (rc < 0)
		federations->count = 0;
	return rc;
}
