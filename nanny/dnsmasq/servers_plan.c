#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/xalloc.h"
#include "nanny/dnsmasq/servers_plan.h"

/* The length of the longest line: server=/253 bytes/[39 bytes]#65535 */
enum { LINE_MAX_BYTES = 330 };

static bool
has_server(const struct server *list, size_t count, const struct server *server)
{
	for (size_t i = 0; i < count; i++)
		if (server_equal(&list[i], server))
			return true;
	return false;
}

/*
 * Assigns the servers in `wanted` to lines. `before` contains the lines that dnsmasq may have
 * loaded. A server that is still wanted keeps its line, so that dnsmasq does not resend the queries
 * in flight to this server. New servers take the lines of removed servers. Surplus lines repeat
 * servers.
 */
static void
place(struct servers_domain *to, const struct domain_servers *wanted,
    const struct servers_domain *before, bool strict_order)
{
	size_t old = before != NULL ? before->count : 0, next = 0;

	assert(wanted->count > 0);
	to->lines = xcalloc(old + wanted->count, sizeof *to->lines);
	bool *kept = xcalloc(old + 1, sizeof *kept);
	for (size_t i = 0; i < old && !strict_order; i++) {
		kept[i] = has_server(wanted->servers, wanted->count, &before->lines[i]) &&
			  !has_server(before->lines, i, &before->lines[i]);
		if (kept[i])
			to->lines[i] = before->lines[i];
	}
	for (size_t i = 0; i < wanted->count; i++) {
		if (!strict_order &&
		    has_server(before != NULL ? before->lines : NULL, old, &wanted->servers[i]))
			continue;
		while (next < old && kept[next])
			next++;
		to->lines[next++] = wanted->servers[i];
		to->count = next;
	}
	for (size_t i = 0; i < old; i++)
		if (!kept[i] && i >= next)
			to->lines[i] = wanted->servers[i % wanted->count];
	if (to->count < old)
		to->count = old;
	free(kept);
}

/* Finds the servers that now answer for names of a deleted domain. The servers of the nearest
 * wanted or fixed parent domain answer. Returns `nobody` if there is no such parent domain. */
static const struct domain_servers *
heir(const struct servers_input *input, const char *domain, const struct domain_servers *nobody)
{
	const struct domain_servers *a = domain_table_above(input->wanted, domain),
				    *b = domain_table_above(input->fixed, domain);

	if (a != NULL && b != NULL)
		return strlen(b->domain) > strlen(a->domain) ? b : a;
	return a != NULL ? a : b != NULL ? b : nobody;
}

static const struct domain_servers *
nobody_servers(const struct servers_input *input, struct domain_servers *storage)
{
	static char other_names[] = "";

	*storage = (struct domain_servers){
		.domain = other_names, .servers = xcalloc(1, sizeof *storage->servers), .count = 1
	};
	storage->servers[0] = input->nobody;
	return storage;
}

/* Finds the servers for all other names if no such servers are wanted any more. Returns the servers
 * on the command line. Returns `nobody` if the command line has none. */
static const struct domain_servers *
default_heir(const struct servers_input *input, const struct domain_servers *nobody)
{
	const struct domain_servers *fixed = domain_table_get(input->fixed, "");

	return fixed != NULL && fixed->count ? fixed : nobody;
}

static void
append(struct servers_file *file, const struct servers_input *input, const char *domain,
    const struct domain_servers *wanted, const struct servers_domain *before,
    const struct domain_servers *nobody)
{
	struct servers_domain *to = &file->items[file->count++];

	*to = (struct servers_domain){ .domain = xstrdup(domain) };
	if (wanted == NULL) {
		to->retired = before->retired ? before->retired : input->now;
		wanted = *domain ? heir(input, domain, nobody) : default_heir(input, nobody);
	}
	place(to, wanted, before, input->strict_order);
}

static size_t
labels(const char *domain)
{
	size_t count = 1;

	for (; *domain; domain++)
		count += *domain == '.';
	return count;
}

/* Sorts a domain before the domains above it. */
static int
by_depth(const void *a, const void *b)
{
	const struct servers_domain *x = *(struct servers_domain *const *)a,
				    *y = *(struct servers_domain *const *)b;
	size_t p = labels(x->domain), q = labels(y->domain);

	return p != q ? (p < q) - (p > q) : strcmp(x->domain, y->domain);
}

/* Removes the lines of those domains in `added` that must wait for a later file. The first domain always
 * stays. */
static void
postpone(struct servers_file *file, struct servers_domain **added, size_t count)
{
	size_t lines = 0, comparisons = 0, i;

	for (i = 0; i < file->count; i++)
		lines += file->items[i].count;
	for (i = 0; i < count; i++)
		lines -= added[i]->count;
	qsort(added, count, sizeof(void *), by_depth);
	for (i = 0; i < count; i++) {
		comparisons += added[i]->count * lines;
		if (i > 0 && comparisons > SERVERS_COMPARISONS_MAX)
			break;
		lines += added[i]->count;
	}
	for (; i < count; i++) {
		file->waiting += added[i]->count;
		added[i]->count = 0;
	}
}

/* Frees the entries that have lost their lines. */
static void
drop_empty(struct servers_file *file)
{
	size_t kept = 0;

	for (size_t i = 0; i < file->count; i++) {
		if (file->items[i].count) {
			file->items[kept++] = file->items[i];
			continue;
		}
		free(file->items[i].domain);
		free(file->items[i].lines);
	}
	file->count = kept;
}

static int
by_age(const void *a, const void *b)
{
	uint64_t x = (*(struct servers_domain *const *)a)->retired,
		 y = (*(struct servers_domain *const *)b)->retired;

	return (x > y) - (x < y);
}

/*
 * Drops lines of deleted domains until at most SERVERS_RETIRED_MAX of these lines are left. The
 * domains that were deleted first lose their lines first. Lines for all other names (the domain "")
 * stay.
 */
static size_t
drop_oldest(struct servers_file *file)
{
	struct servers_domain **retired = xcalloc(file->count + 1, sizeof(void *));
	size_t count = 0, lines = 0, dropped = 0;

	for (size_t i = 0; i < file->count; i++)
		if (file->items[i].retired && *file->items[i].domain) {
			retired[count++] = &file->items[i];
			lines += file->items[i].count;
		}
	qsort(retired, count, sizeof(void *), by_age);
	for (size_t i = 0; lines - dropped > SERVERS_RETIRED_MAX; i++) {
		dropped += retired[i]->count;
		retired[i]->count = 0;
	}
	free(retired);
	return dropped;
}

struct servers_file
servers_plan(const struct servers_input *input)
{
	const struct domain_table *wanted = input->wanted;
	const struct servers_file *before = input->before;
	struct servers_file file = { .items = xcalloc(
					 wanted->count + before->count + 1, sizeof *file.items) };
	struct domain_servers storage;
	const struct domain_servers *nobody = nobody_servers(input, &storage);
	struct servers_domain **added = xcalloc(wanted->count + 1, sizeof(void *));
	size_t added_count = 0;

	for (size_t w = 0, b = 0; w < wanted->count || b < before->count;) {
		const struct domain_servers *entry = w < wanted->count ? &wanted->items[w] : NULL;
		const struct servers_domain *old = b < before->count ? &before->items[b] : NULL;

		assert(entry != NULL || old != NULL);
		int order = entry == NULL ? 1
			    : old == NULL ? -1
					  : strcmp(entry->domain, old->domain);
		assert(order <= 0 ? entry != NULL : old != NULL);
		const char *domain = order <= 0 ? entry->domain : old->domain;
		bool is_wanted = order <= 0 && entry->count > 0;
		if (is_wanted || order >= 0)
			append(&file, input, domain, is_wanted ? entry : NULL,
			    order >= 0 ? old : NULL, nobody);
		if (is_wanted && order < 0 && *domain)
			added[added_count++] = &file.items[file.count - 1];
		w += order <= 0;
		b += order >= 0;
	}
	free(storage.servers);
	if (!input->fresh)
		postpone(&file, added, added_count);
	free(added);
	file.dropped = drop_oldest(&file);
	drop_empty(&file);
	return file;
}

static size_t
render_line(char *text, const char *domain, const struct server *server)
{
	char addr[ADDR_TEXT_MAX];

	addr_format(&server->addr, addr);
	const char *slash = *domain ? "/" : "";
	return (size_t)snprintf(
	    text, LINE_MAX_BYTES, "server=%s%s%s%s#%u\n", slash, domain, slash, addr, server->port);
}

/* Renders the file without the marker. The result has space for `lines` more lines. Caller
 * frees. */
static char *
render_body(const struct servers_file *file, size_t lines, size_t *len)
{
	for (size_t i = 0; i < file->count; i++)
		lines += file->items[i].count;
	char *text = xmalloc(lines * LINE_MAX_BYTES + 1);
	*len = 0;
	for (size_t i = 0; i < file->count; i++)
		for (size_t k = 0; k < file->items[i].count; k++)
			*len += render_line(
			    text + *len, file->items[i].domain, &file->items[i].lines[k]);
	text[*len] = '\0';
	return text;
}

char *
servers_render(const struct servers_file *file, uint32_t generation, uint16_t port, size_t *len)
{
	char *text = render_body(file, 1, len);
	struct server marker = { .addr = servers_generation_addr(generation), .port = port };

	if (port)
		*len += render_line(text + *len, SERVERS_MARKER, &marker);
	return text;
}
