/*
 * The ConfigMap key records. The parser must return records or a reason. A lookup must find the
 * names of accepted records, and each name must have an answer. The records must be the same after
 * they are written and parsed again.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/local_names.h"
#include "kubedns/answer/zone_lookup.h"
#include "lib/conf_records.h"
#include "lib/rdata_text.h"
#include "lib/wire.h"
#include "treecache/treecache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *
written(const struct conf_records *records)
{
	char *text = NULL, name[DNAME_TEXT_MAX];
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 0; i < records->count; i++) {
		const struct conf_record *r = &records->items[i];

		fprintf(f, "%s ", dname_to_text(r->name, name));
		if (r->ttl_s != CONF_RECORDS_TTL_UNSET)
			fprintf(f, "%u ", r->ttl_s);
		fprintf(f, "TYPE%u ", r->type);
		rdata_print(f, r->type, r->rdata, r->rdata_len);
		fprintf(f, "\n");
	}
	fclose(f);
	return text;
}

/* Whether the records can be parsed again after printing. SVCB and HTTPS are printed in the form
 * for unknown types, which the parser does not accept for these types. */
static bool
is_printed(const struct conf_records *records)
{
	for (size_t i = 0; i < records->count; i++)
		if (records->items[i].type == 64 || records->items[i].type == TYPE_HTTPS)
			return false;
	return records->count > 0;
}

static void
check_again(const struct conf_records *records)
{
	struct conf_records again;
	char *text = written(records), *why = NULL;

	if (conf_records_parse(text, strlen(text), "cluster.local", &again, &why) < 0 ||
	    again.count != records->count)
		abort();
	for (size_t i = 0; i < again.count; i++) {
		const struct conf_record *a = &again.items[i], *b = &records->items[i];

		if (a->type != b->type || a->ttl_s != b->ttl_s || a->name_len != b->name_len ||
		    a->rdata_len != b->rdata_len || memcmp(a->name, b->name, a->name_len) != 0 ||
		    memcmp(a->rdata, b->rdata, a->rdata_len) != 0)
			abort();
	}
	conf_records_free(&again);
	free(text);
}

static struct own_answer
ask(const struct local_names *names, const uint8_t *wire, size_t len)
{
	struct name_buf buf;

	const struct name name = name_copy(&buf, wire, len);
	return local_names_ask(names, &name, false);
}

static void
check_names(const struct conf_records *records, const struct local_names *names)
{
	for (size_t i = 0; i < records->count; i++) {
		const struct conf_record *r = &records->items[i];
		struct own_answer own = ask(names, r->name, r->name_len);

		if (own.kind != OWN_FOUND || own.wildcard ||
		    own_name_rrset(own.name, r->type) == NULL)
			abort();
		if (own.zone != NULL && own_name_rrset(own.zone, TYPE_SOA) == NULL)
			abort();
		/* Names above this name may have any answer, but the lookup must end. */
		ask(names, r->name + 1 + *r->name, r->name_len - 1u - *r->name);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_records records;
	char *why = NULL;

	if (conf_records_parse((const char *)data, size, "cluster.local", &records, &why) < 0) {
		if (why == NULL || records.count > 0 || strlen(why) > 400 ||
		    strchr(why, '\n') != NULL)
			abort();
		free(why);
		return 0;
	}
	struct local_names *block = local_names_of_records(&records, 30, 7);
	if ((block == NULL) != (records.count == 0))
		abort();
	const struct local_names *const blocks[] = { NULL, block };
	static const char *const sources[] = { "hosts", "records" };
	struct local_names *names = local_names_merge(&(struct own_sources){
	    blocks, sources, 2, 2, (const uint8_t *)"\1s\1z", 5, NULL, NULL });
	if (names != NULL) {
		check_names(&records, block);
		check_names(&records, names);
	}
	if (is_printed(&records))
		check_again(&records);
	free(names);
	free(block);
	conf_records_free(&records);
	return 0;
}
