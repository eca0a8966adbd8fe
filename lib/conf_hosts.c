#include "lib/conf_hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf_text.h"
#include "lib/xalloc.h"

struct hosts_reader {
	struct conf_hosts *hosts;
	size_t capacity;
	unsigned line;
	char **why;
};

static int
refuse_word(struct hosts_reader *r, const char *word, const char *reason)
{
	return conf_refuse_word(r->why, r->line, word, reason);
}

static int
add_host(struct hosts_reader *r, const char *word, const struct addr *addr)
{
	struct conf_hosts *hosts = r->hosts;
	char name[CONF_HOST_MAX];
	const char *reason;

	if (conf_name_parse(word, name, &reason) < 0)
		return refuse_word(r, word, reason);
	if (hosts->count == CONF_HOSTS_MAX)
		return refuse_word(r, word, "more than 10000 names with an address");
	if (hosts->count == r->capacity) {
		r->capacity = r->capacity == 0 ? 64 : r->capacity * 2;
		hosts->items = xreallocarray(hosts->items, r->capacity, sizeof *hosts->items);
	}
	struct conf_host *host = &hosts->items[hosts->count];
	*host = (struct conf_host){ .addr = *addr }; /* zeroed, because the bytes after the name are
						      * compared too */
	if (dname_from_text(&host->name, name) < 0)
		return refuse_word(r, word, "not a DNS name");
	hosts->count++;
	return 0;
}

/* Returns the next word of the line and ends it with a NUL; NULL at the end of the line. */
static char *
next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " \t\r");

	if (*word == '\0' || *word == '#')
		return NULL;
	char *end = word + strcspn(word, " \t\r#");
	*rest = end;
	if (*end == '#')
		*end = '\0';
	else if (*end != '\0')
		*(*rest)++ = '\0';
	return word;
}

/* Converts an IPv4-mapped IPv6 address (::ffff:10.0.0.1) to IPv4, as libc does. */
static void
unmap(struct addr *addr)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	if (addr->family != AF_INET6 || memcmp(addr->bytes, prefix, sizeof prefix) != 0)
		return;
	memmove(addr->bytes, addr->bytes + sizeof prefix, 4);
	memset(addr->bytes + 4, 0, sizeof addr->bytes - 4);
	addr->family = AF_INET;
}

/* Whether the word is a scoped address (fe80::1%lo0), which is useless on other machines. */
static bool
is_scoped(const char *word)
{
	const char *percent = strchr(word, '%');
	struct addr addr;

	if (percent == NULL || percent[1] == '\0')
		return false;
	char *text = xstrndup(word, (size_t)(percent - word));
	bool scoped = addr_parse(text, &addr) == 0 && addr.family == AF_INET6;
	free(text);
	return scoped;
}

/* Ignores a line that is valid in other hosts files but has no meaning here. */
static int
pass_over(struct hosts_reader *r, const char *word, const char *reason)
{
	struct conf_hosts *hosts = r->hosts;

	if (hosts->passed++ == 0)
		conf_refuse_word(&hosts->passed_first, r->line, word, reason);
	return 0;
}

static int
read_line(void *arg, unsigned number, char *line)
{
	struct hosts_reader *r = arg;
	struct addr addr;
	char *word = next_word(&line);

	r->line = number;
	if (word == NULL)
		return 0;
	bool scoped = is_scoped(word);
	if (!scoped && addr_parse(word, &addr) < 0)
		return refuse_word(r, word, "not an address; a line is an address and its names");
	if (scoped)
		return pass_over(r, word, "is an address of one interface");
	unmap(&addr);
	char *name = next_word(&line);
	if (name == NULL)
		return pass_over(r, word, "is not followed by a name");
	for (; name != NULL; name = next_word(&line)) {
		int rc = add_host(r, name, &addr);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int
by_name(const void *a, const void *b)
{
	const struct conf_host *x = a, *y = b;
	int order = dname_compare(x->name.wire, y->name.wire);

	return order != 0 ? order : memcmp(&x->addr, &y->addr, sizeof x->addr);
}

static int
by_addr(const void *a, const void *b)
{
	const struct conf_host *x = a, *y = b;
	int order = memcmp(&x->addr, &y->addr, sizeof x->addr);

	return order != 0 ? order : dname_compare(x->name.wire, y->name.wire);
}

/* Checks whether more than CONF_HOSTS_OF_NAME_MAX neighbours have the same name or, with `of_addr`,
 * the same address. Returns one of these neighbours, or NULL if there are not so many. */
static const struct conf_host *
find_crowd(const struct conf_hosts *hosts, bool of_addr)
{
	size_t first = 0;

	for (size_t i = 1; i < hosts->count; i++) {
		const struct conf_host *a = &hosts->items[first], *b = &hosts->items[i];

		if (of_addr ? !addr_equal(&a->addr, &b->addr)
			    : !dname_equal(a->name.wire, b->name.wire))
			first = i;
		else if (i - first >= CONF_HOSTS_OF_NAME_MAX)
			return b;
	}
	return NULL;
}

static int
sort_hosts(struct conf_hosts *hosts, char **why)
{
	char text[DNAME_TEXT_MAX];
	const struct conf_host *crowd;
	size_t kept = 0;

	if (hosts->count == 0)
		return 0;
	qsort(hosts->items, hosts->count, sizeof *hosts->items, by_addr);
	crowd = find_crowd(hosts, true);
	if (crowd != NULL)
		return conf_refuse(
		    why, addr_format(&crowd->addr, text), "", "more than 256 names of one address");
	qsort(hosts->items, hosts->count, sizeof *hosts->items, by_name);
	crowd = find_crowd(hosts, false);
	if (crowd != NULL)
		return conf_refuse(why, dname_to_text(crowd->name.wire, text), "",
		    "more than 256 addresses of one name");
	for (size_t i = 0; i < hosts->count; i++)
		if (kept == 0 || by_name(&hosts->items[kept - 1], &hosts->items[i]) != 0)
			hosts->items[kept++] = hosts->items[i];
	hosts->count = kept;
	return 0;
}

int
conf_hosts_parse(const char *text, size_t len, struct conf_hosts *hosts, char **why)
{
	struct hosts_reader r = { .hosts = hosts, .why = why };

	*hosts = (struct conf_hosts){ 0 };
	int rc = conf_lines(text, len, read_line, &r, why);
	if (rc == 0)
		rc = sort_hosts(hosts, why);
	if (rc < 0)
		conf_hosts_free(hosts);
	return rc;
}

void
conf_hosts_free(struct conf_hosts *hosts)
{
	free(hosts->items);
	free(hosts->passed_first);
	*hosts = (struct conf_hosts){ 0 };
}
