/* What the records of the key may be together: RFC 1034 section 3.6, RFC 2181 section 5, RFC 4592. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/conf_internal.h"
#include "lib/conf_records_internal.h"
#include "lib/dname.h"
#include "lib/wire.h"

static int
by_name_and_data(const void *a, const void *b)
{
	const struct conf_record *x = a, *y = b;
	int order = dname_compare(x->name, y->name);

	if (order == 0)
		order = (int)x->type - (int)y->type;
	if (order == 0)
		order = (int)x->rdata_len - (int)y->rdata_len;
	return order != 0 ? order : memcmp(x->rdata, y->rdata, x->rdata_len);
}

static bool
same_name(const struct conf_record *a, const struct conf_record *b)
{
	return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

static bool
same_set(const struct conf_record *a, const struct conf_record *b)
{
	return a->type == b->type && same_name(a, b);
}

static int
refuse(const struct conf_record *record, const char *reason, char **why)
{
	char text[DNAME_TEXT_MAX];

	return conf_refuse_word(why, record->line, dname_to_text(record->name, text), reason);
}

/* Leaves each record once; what differs in its TTL alone is no other record. */
static int
sort(struct conf_records *records, char **why)
{
	struct conf_record *items = records->items;
	size_t kept = 0;

	if (records->count > 1)
		qsort(items, records->count, sizeof *items, by_name_and_data);
	for (size_t i = 0; i < records->count; i++) {
		if (kept > 0 && same_set(&items[kept - 1], &items[i]) &&
		    items[kept - 1].ttl_s != items[i].ttl_s)
			return refuse(&items[i],
			    "has another TTL than its other records of this type; give all the "
			    "same",
			    why);
		if (kept == 0 || by_name_and_data(&items[kept - 1], &items[i]) != 0)
			items[kept++] = items[i];
	}
	records->count = kept;
	return 0;
}

/* --- names --- */

/* How many labels both have at the end. */
static unsigned
common_labels(const uint8_t *a, const uint8_t *b)
{
	const uint8_t *at_a[DNAME_LABELS_MAX], *at_b[DNAME_LABELS_MAX];
	unsigned count_a = 0, count_b = 0, common = 0;

	for (; *a != 0; a += 1u + *a)
		at_a[count_a++] = a;
	for (; *b != 0; b += 1u + *b)
		at_b[count_b++] = b;
	for (; count_a > 0 && count_b > 0; common++) {
		const uint8_t *last = at_a[--count_a], *other = at_b[--count_b];
		if (*last != *other || memcmp(last, other, 1u + *last) != 0)
			break;
	}
	return common;
}

/* Counts the names, and those between them and the root. */
static int
check_count(const struct conf_records *records, char **why)
{
	size_t names = 0;

	for (size_t i = 0; i < records->count; i++) {
		const struct conf_record *item = &records->items[i];
		if (i > 0 && same_name(item - 1, item))
			continue;
		names += dname_labels(item->name) -
			 (i > 0 ? common_labels(item[-1].name, item->name) : 0);
		if (names > CONF_RECORDS_NAMES_MAX)
			return refuse(item,
			    "more than 20000 names, those between them and the root included", why);
	}
	return 0;
}

/* Labels that the name has before the domain, -1: it is not in it. */
static int
labels_before(const struct conf_record *item, const char *domain)
{
	struct dname name;

	if (dname_from_text(&name, domain) < 0)
		return -1;
	dname_lower(name.wire, name.len);
	return dname_in_zone(item->name, name.wire);
}

static bool
is_in(const struct conf_record *item, const char *domain)
{
	return labels_before(item, domain) >= 0;
}

/* The reverse names of addresses, or all of them; others in arpa are as others (home.arpa, RFC 8375). */
static bool
is_reverse(const struct conf_record *item)
{
	static const uint8_t arpa[] = "\4arpa", below[] = "\1*\4arpa";

	return is_in(item, "in-addr.arpa") || is_in(item, "ip6.arpa") ||
	       dname_equal(item->name, arpa) || dname_equal(item->name, below);
}

/* The cluster's own name; zones and wildcards, which are about names that are not written there. */
static int
check_place(const struct conf_record *item, const char *cluster_domain, char **why)
{
	bool wildcard = memcmp(item->name, "\1*", 2) == 0;

	if (wildcard && item->type == TYPE_SOA)
		return refuse(item, "a wildcard cannot be a zone", why);
	if (item->type != TYPE_SOA && labels_before(item, cluster_domain) == 0)
		return refuse(item,
		    "is the cluster's domain itself, which would lose its SOA and NS records; "
		    "use a name in it",
		    why);
	if (!wildcard && item->type != TYPE_SOA)
		return 0;
	if (is_in(item, cluster_domain))
		return refuse(item,
		    "is in the cluster's domain, where neither a SOA record nor a wildcard may be; "
		    "write the names",
		    why);
	if (is_reverse(item))
		return refuse(item,
		    "is a reverse name, where neither a SOA record nor a wildcard may be; write "
		    "the "
		    "PTR records",
		    why);
	return 0;
}

/* --- record sets --- */

/* The records [0, count) of one name. */
static int
check_name(const struct conf_record *items, size_t count, char **why)
{
	size_t soas = 0, cnames = 0;
	const struct conf_record *ns = NULL;

	for (size_t i = 0; i < count; i++) {
		soas += items[i].type == TYPE_SOA;
		cnames += items[i].type == TYPE_CNAME;
		if (items[i].type == TYPE_NS)
			ns = &items[i];
	}
	if (soas > 1)
		return refuse(&items[count - 1], "has two SOA records; take one out", why);
	if (cnames > 0 && count > 1)
		return refuse(&items[count - 1],
		    "has a CNAME record beside others; an alias has that one alone", why);
	if (ns != NULL && soas == 0)
		return refuse(ns,
		    "has NS records and no SOA record: names are not delegated from here; the key "
		    "stubDomains does that",
		    why);
	return 0;
}

static int
check_set(const struct conf_record *items, size_t count, char **why)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += 12u + items[i].rdata_len;
	if (count > CONF_RECORDS_SET_MAX)
		return refuse(items, "more than 256 records of one name and type", why);
	if (bytes > CONF_RECORDS_SET_BYTES_MAX)
		return refuse(items, "more than 32 KB of records of one name and type", why);
	return 0;
}

/* Calls `check` for each run of items that are the same. */
static int
each_run(const struct conf_records *records,
    bool (*same)(const struct conf_record *a, const struct conf_record *b),
    int (*check)(const struct conf_record *items, size_t count, char **why), char **why)
{
	const struct conf_record *items = records->items;
	int rc = 0;

	for (size_t first = 0, i = 1; i <= records->count && rc == 0; i++)
		if (i == records->count || !same(&items[first], &items[i])) {
			rc = check(&items[first], i - first, why);
			first = i;
		}
	return rc;
}

int
conf_records_judge(struct conf_records *records, const char *cluster_domain, char **why)
{
	int rc = sort(records, why);

	for (size_t i = 0; i < records->count && rc == 0; i++)
		rc = check_place(&records->items[i], cluster_domain, why);
	if (rc == 0)
		rc = each_run(records, same_name, check_name, why);
	if (rc == 0)
		rc = each_run(records, same_set, check_set, why);
	return rc < 0 ? rc : check_count(records, why);
}
