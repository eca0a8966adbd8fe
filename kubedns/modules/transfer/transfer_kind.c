/* Decides what a secondary gets: the whole zone (AXFR), changes (IXFR, RFC 1995), or only the SOA. */
#include "kubedns/modules/transfer/transfer_internal.h"
#include "lib/log.h"

/* Returns the entry for a client and a zone, or NULL. */
static struct given *
find_given(struct transfer *t, const struct job *job)
{
	for (size_t i = 0; i < GIVEN_MAX; i++)
		if (t->given_to[i].client.family != AF_UNSPEC && t->given_to[i].zone == job->zone &&
		    addr_equal(&t->given_to[i].client, &job->client))
			return &t->given_to[i];
	return NULL;
}

void
transfer_note_given(struct transfer *t, const struct job *job, uint32_t serial)
{
	struct given *given = find_given(t, job);

	if (job->kind == KIND_CURRENT)
		return; /* only an SOA was sent */
	if (given == NULL) {
		given = &t->given_to[0];
		for (size_t i = 1; i < GIVEN_MAX; i++)
			if (t->given_to[i].used < given->used)
				given = &t->given_to[i];
	}
	*given = (struct given){ job->client, job->zone, serial, ++t->given_count };
}

/* Logs a client's serial that is too far ahead. Serials from other replicas can be ahead by seconds. If a serial is ahead by more, our
 * clock was set back before a restart. */
static void
say_if_ahead(const struct transfer *t, const struct job *job, uint32_t serial)
{
	char zone[DNAME_TEXT_MAX], client[ADDR_TEXT_MAX];

	if (serial_before(serial + AHEAD_S, job->has))
		log_neterr("transfer of %s to %s: the secondary has serial %u, and kubedns has the "
			   "older serial %u, so the secondary gets no changes: was the clock of "
			   "this machine set back? Retransfer the zone on the secondary",
		    dname_to_text(zone_name(t->answers, job->zone)->wire, zone),
		    addr_format(&job->client, client), job->has, serial);
}

void
transfer_choose_kind(struct transfer *t, struct job *job, uint32_t serial)
{
	const struct given *given = find_given(t, job);

	job->kind = KIND_AXFR;
	if (!job->incremental)
		return;
	if (!serial_before(job->has, serial)) {
		job->kind = KIND_CURRENT;
		say_if_ahead(t, job, serial);
	} else if (given != NULL && given->serial == job->has &&
		   journal_take(
		       &t->journal, job->zone, job->has, &job->changes, &job->change_count)) {
		job->kind = KIND_IXFR;
	}
}
