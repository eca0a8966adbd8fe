/* Explains the operator's own names: which source they are from, and what it has of them. */
#include "kubedns/answer/own_names.h"
#include "kubedns/show/explain_internal.h"
#include "lib/rdata_text.h"
#include "treecache/treecache.h"

enum { SHOWN_MAX = 20, SHOWN_BRIEFLY = 4 };

static void
say_sets(const struct explanation *e, const struct own_name *own)
{
	const struct rrset *set = NULL;
	unsigned shown = e->config->store == NULL ? SHOWN_BRIEFLY : SHOWN_MAX, left = 0;
	char type[12];

	while ((set = own_name_rrset_next(own, set)) != NULL) {
		const uint8_t *record = set->data;
		for (unsigned i = 0; i < set->count; i++) {
			size_t len = wire_get16(record + 10);
			if (shown > 0) {
				fprintf(e->out, "  %s %u %s ", e->text, wire_get32(record + 6),
				    type_name(set->type, type));
				rdata_print(e->out, set->type, record + 12, len);
				fprintf(e->out, "\n");
			}
			left += shown == 0;
			shown -= shown > 0;
			record += 12 + len;
		}
	}
	if (left > 0)
		fprintf(e->out, "  and %u more\n", left);
}

/* Where an alias leads, as an address is looked up. */
static void
say_alias(const struct explanation *e)
{
	unsigned records = 0;

	fprintf(e->out, "It is an alias, followed for each type; for A:\n");
	explain_query(e, e->name.wire, TYPE_A, &records);
}

bool
explain_own(struct explanation *e)
{
	const struct own_answer own = own_ask(e->config->answers, e->config->tree, &e->name);
	char text[DNAME_TEXT_MAX];

	if (own.kind == OWN_NONE)
		return false;
	const struct answer_context *context = e->config->tree->context;
	const struct own_name *of = own.kind == OWN_FOUND ? own.name : own.zone;
	const char *source = own_names_source(context->names, of);
	dname_to_text(of->wire, text);
	if (own.kind == OWN_DENIED)
		fprintf(e->out, "%s does not exist in the zone %s of %s.\n", e->text, text, source);
	else if (own.kind == OWN_EMPTY)
		fprintf(e->out,
		    "%s has no records (NODATA) in the zone %s of %s: only names below it.\n",
		    e->text, text, source);
	else if (own.wildcard)
		fprintf(e->out, "%s is what %s stands for, in %s.\n", e->text, text, source);
	else
		fprintf(e->out, "%s is in %s.\n", e->text, source);
	if (own.kind != OWN_FOUND)
		return true;
	say_sets(e, own.name);
	if (own_name_rrset(own.name, TYPE_CNAME) != NULL)
		say_alias(e);
	return true;
}
