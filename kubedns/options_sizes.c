/*
 * --recorder, --answer-cache, --transfer-journal and --memory: sizes of memory.
 */
#include <errno.h>
#include <string.h>

#include "kubedns/options_internal.h"
#include "kubedns/serve/forwarded_cache.h"
#include "lib/log.h"
#include "lib/size.h"

enum {
	RECORDER_LEAST = 256 * 1024,
	JOURNAL_LEAST = 64 * 1024,
	JOURNAL_MOST = 4 * 1024 * 1024,
	MEMORY_LEAST = 16 * 1024 * 1024,
	/* Parts of --memory; the rest is the cluster's, and the program itself. */
	RECORDER_PART = 16,
	TCP_PART = 8,
	/*
	 * A query has its message, its client, its deadline and its attempts. With dnsmasq behind,
	 * no more than that takes: a fortieth of the same --memory at 1 KB each (nanny.8).
	 */
	IN_FLIGHT_PART = 24,
	IN_FLIGHT_BYTES = 2048,
};

/* A size of at least `least_bytes`, or "off": 0. */
static int
read_size(const char *flag, const char *text, size_t least_bytes, const char *why, size_t *bytes)
{
	*bytes = 0;
	if (strcmp(text, "off") == 0)
		return 0;
	if (size_parse(text, bytes) < 0 || *bytes < least_bytes || *bytes > SIZE_MOST)
		return options_refuse(flag, text, why);
	return 0;
}

/* The parts of --memory, none more than what it would be without. */
static int
divide_memory(struct options *o, const struct flags_common *common)
{
	size_t memory;

	if (*o->memory_text == '\0')
		return 0;
	if (size_parse(o->memory_text, &memory) < 0 || memory < MEMORY_LEAST || memory > SIZE_MOST)
		return options_refuse(
		    "memory", o->memory_text, "must be a size from 16M to 1G, such as 32Mi");
	size_t recorder = memory / RECORDER_PART;
	if (!flags_given(common, "recorder") && recorder < o->recorder_bytes)
		o->recorder_bytes = recorder;
	o->tcp_bytes = memory / TCP_PART;
	o->in_flight = (unsigned)(memory / IN_FLIGHT_PART / IN_FLIGHT_BYTES);
	log_info("--memory=%s: recorder %zu kB, answer cache %zu kB, TCP %zu kB, %u queries in "
		 "flight; the rest is the cluster's",
	    o->memory_text, o->recorder_bytes / 1024, o->answer_cache_bytes / 1024,
	    o->tcp_bytes / 1024, o->in_flight);
	return 0;
}

int
options_read_sizes(struct options *o, const struct flags_common *common)
{
	int recorder = read_size("recorder", o->recorder_text, RECORDER_LEAST,
	    "must be off, or a size from 256k to 1G, such as 2M", &o->recorder_bytes);
	int cache = read_size("answer-cache", o->answer_cache_text, FORWARDED_CACHE_LEAST,
	    "must be off, or a size from 64k to 1G, such as 1M", &o->answer_cache_bytes);

	int memory = divide_memory(o, common);
	int journal = read_size("transfer-journal", o->transfer_journal_text, JOURNAL_LEAST,
	    "must be off, or a size from 64k to 4M, such as 1M", &o->transfer.journal_bytes);

	if (o->transfer.journal_bytes > JOURNAL_MOST)
		journal = options_refuse("transfer-journal", o->transfer_journal_text,
		    "must be off, or a size from 64k to 4M, such as 1M");
	return recorder < 0 ? recorder : cache < 0 ? cache : journal < 0 ? journal : memory;
}
