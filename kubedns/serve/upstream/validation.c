#include "kubedns/serve/upstream/validation.h"

#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/wire.h"
#include "lib/xalloc.h"

static const char *const checking[] = { "\10validate", "\5dns64" };
static const int64_t again_ns = 10 * INT64_C(1000000);
/* A resolver that replies to other queries, but not to this one for this time, does not check. Then the
 * query is sent only once in this time. */
static const int64_t late_ns = NS_PER_S;

enum validation_state { VALIDATION_UNKNOWN, VALIDATION_OFF, VALIDATION_ON };

struct validation {
	struct worker_context *context;
	enum validation_state state;
	struct exchange exchange;
	int64_t again_ns; /* when the query may be sent again */
	int64_t alive_ns; /* the resolver's first reply to another query after this one; 0: none */
};

struct validation *
validation_new(
    struct worker_context *context, struct remote *resolver, const struct inflight *question)
{
	struct validation *v = xcalloc(1, sizeof *v);

	v->context = context;
	v->exchange.remote = resolver;
	v->exchange.question = question;
	return v;
}

void
validation_free(struct validation *v)
{
	if (v != NULL)
		exchange_end(&v->exchange);
	free(v);
}

bool
validation_checks(const struct validation *v)
{
	if (v->state != VALIDATION_UNKNOWN)
		return v->state == VALIDATION_ON;
	return v->alive_ns == 0 || v->context->now_ns < v->alive_ns + late_ns;
}

void
validation_ask(struct validation *v)
{
	if (v->state != VALIDATION_UNKNOWN || v->context->now_ns < v->again_ns)
		return;
	v->again_ns = v->context->now_ns + (validation_checks(v) ? again_ns : late_ns);
	if (exchange_is_open(&v->exchange))
		exchange_send_again(&v->exchange);
	else
		exchange_send_at_once(&v->exchange); /* if it fails, the next query tries again */
}

bool
validation_owns(const struct validation *v, const struct exchange *exchange)
{
	return v != NULL && exchange == &v->exchange;
}

void
validation_answer(struct validation *v, const uint8_t *reply, size_t len)
{
	bool on = false;

	for (size_t i = 0; i < sizeof checking / sizeof *checking && wire_get16(reply + 6) > 0; i++)
		on |= memmem(reply + DNS_HEADER, len - DNS_HEADER, checking[i],
			  strlen(checking[i])) != NULL;
	v->state = on ? VALIDATION_ON : VALIDATION_OFF;
	exchange_end(&v->exchange);
}

void
validation_replied(struct validation *v)
{
	if (v->alive_ns == 0 && exchange_is_open(&v->exchange))
		v->alive_ns = v->context->now_ns;
}
