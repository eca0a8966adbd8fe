/* Endpoint sets in the order in which they are near the client, and names of --zonal. */
#include "kubedns/answer/nearest.h"
#include "kubedns/answer/reply_internal.h"

static void
count_one(uint64_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

static void
count_answer(const struct reply *reply, enum near first)
{
	if (reply->thread != NULL && reply->thread->nearest != NULL)
		count_one(&reply->thread->nearest[first]);
}

unsigned
nearest_classes(
    const struct reply *reply, const struct endpoint_set *endpoints, struct nearest *nearest)
{
	struct client_place place;

	if (!reply->config->nearest)
		return 0;
	place = view_place(reply->config, reply->tree);
	nearest->endpoints = endpoints;
	nearest->node = place.node;
	nearest->zone = place.zone;
	if ((place.node == 0 && place.zone == 0) || endpoints->count > NEAREST_SLICES) {
		count_answer(reply, NEAR_UNKNOWN);
		return 0;
	}
	nearest_count(nearest);
	count_answer(reply, nearest->counts[NEAR_NODE] > 0   ? NEAR_NODE
			    : nearest->counts[NEAR_ZONE] > 0 ? NEAR_ZONE
							     : NEAR_FAR);
	return reply->config->nearest_only && nearest_is_ready(nearest) ? NEAR_FAR : NEAR_CLASSES;
}

struct put {
	struct reply *reply;
	size_t owner;
};

static bool
put_addr(void *arg, const struct slice_endpoints *slice, unsigned i)
{
	const struct put *put = arg;

	record_addr(put->reply, put->owner, slice->family, slice_addr(slice, i));
	return !put->reply->full;
}

bool
reply_nearest(
    struct reply *reply, size_t owner, const struct endpoint_set *endpoints, uint8_t family)
{
	struct nearest nearest = { .family = family };
	struct put put = { reply, owner };
	unsigned classes = nearest_classes(reply, endpoints, &nearest);

	for (unsigned k = NEAR_NODE; k < classes && !reply->full; k++)
		nearest_each(&nearest, k, reply->rotation, put_addr, &put);
	return classes > 0;
}

void
reply_zonal(struct reply *reply, size_t owner, const struct resolved *resolved, uint16_t qtype)
{
	struct nearest in = { .endpoints = resolved->endpoints,
		.zone = resolved->zone,
		.family = qtype == TYPE_A      ? AF_INET
			  : qtype == TYPE_AAAA ? AF_INET6
					       : AF_UNSPEC,
		.doubles = qtype == TYPE_SRV,
		.by_port = qtype == TYPE_SRV };
	unsigned before = reply->counts[SECTION_ANSWER];
	struct put put = { reply, owner };

	if (qtype != TYPE_SRV && in.family == AF_UNSPEC)
		return;
	if (reply->thread != NULL && reply->thread->zonal != NULL)
		count_one(&reply->thread->zonal[in.zone == 0]);
	if (in.zone == 0) { /* "prefer", and none is in the zone */
		if (qtype == TYPE_SRV)
			reply_endpoint_set_srv(reply, owner, in.endpoints, 0, NULL);
		else
			reply_endpoint_set(reply, owner, in.endpoints, in.family);
		return;
	}
	nearest_count(&in);
	if (qtype == TYPE_SRV) {
		reply_nearest_srv(reply, owner, &in, NEAR_ZONE, NEAR_FAR, NULL);
		return;
	}
	nearest_each(&in, NEAR_ZONE, reply->rotation, put_addr, &put);
	if (reply->config->udp_subset && !reply->tcp && reply->counts[SECTION_ANSWER] > before)
		reply->truncated = false;
}
