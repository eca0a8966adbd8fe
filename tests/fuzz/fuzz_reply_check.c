/*
 * Replies of DNS servers, including dnsmasq's statistics. The first byte selects the question. The
 * target corrects the ID of the message, so that the parser examines more than the first two bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/wire.h"
#include "lib/xalloc.h"
#include "sidecar/containers/dnsmasq_stats.h"
#include "sidecar/probes/reply_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct dnsmasq_stats cache;
	struct dnsmasq_stats_sample sample = { 0 };
	struct dns_exchange answer = { .question = {
					   .id = 0x1234, .type = TYPE_A, .class = CLASS_IN } };
	struct dns_reply reply;

	if (size < 1)
		return 0;
	bool statistics = data[0] & 1;
	if (statistics) {
		answer.question.type = TYPE_TXT;
		answer.question.class = CLASS_CH;
	}
	dname_from_text(&answer.question.name, statistics ? "servers.bind." : "a.example.");
	/* A separate copy, so that a sanitizer detects an overread. */
	answer.message_len = size - 1;
	answer.message = xmalloc(answer.message_len);
	memcpy(answer.message, data + 1, answer.message_len);
	if (answer.message_len >= 2)
		wire_put16(answer.message, answer.question.id);

	enum dns_reply_kind kind =
	    dns_reply_read(&reply, &answer.question, answer.message, answer.message_len);
	if (reply.cause >= CAUSE_COUNT || reply.cause == CAUSE_TIMEOUT ||
	    (kind == DNS_REPLY_STRAY && reply.cause == CAUSE_OK))
		abort();
	if (kind == DNS_REPLY_DONE && reply.cause == CAUSE_OK) {
		char *text = dns_reply_text(answer.message, answer.message_len, 50);

		for (const char *p = text; *p != '\0'; p++)
			if ((*p < ' ' || *p > '~') && *p != '\n')
				abort();
		free(text);
	}
	if (kind == DNS_REPLY_DONE && statistics)
		for (int stat = 0; stat < STAT_COUNT; stat++)
			if (dnsmasq_stats_read(&sample, (enum dnsmasq_stats_stat)stat, &answer) ==
			    0)
				dnsmasq_stats_update(&cache, &sample, 0, 0);
	free(answer.message);
	return 0;
}
