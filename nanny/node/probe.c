#include "nanny/node/probe.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "lib/wire.h"

static void
refused(struct node_probe *probe)
{
	probe->answered_ms = probe->doubts = 0;
	probe->valid = probe->next;
}

void
node_probe_send(struct node_probe *probe, const struct dname *name, uint16_t class, int64_t now_ms)
{
	uint8_t wire[512];
	uint16_t id;

	if (getrandom(&id, sizeof id, 0) != sizeof id)
		return;
	probe->sent[probe->next % NODE_PROBES].id = id;
	probe->sent[probe->next % NODE_PROBES].sent_ms = now_ms;
	probe->next++;
	probe->doubts -= probe->doubts > 0;
	size_t len = query_write(wire, sizeof wire, id, name->wire, TYPE_TXT, class, 0);
	/* A refusal is about an earlier probe. The kernel does not send this one then. */
	if (send(probe->fd, wire, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == ECONNREFUSED)
		refused(probe);
}

/* Handles an answer with this ID. The newest probe comes first, because it is the likely one. */
static void
answered(struct node_probe *probe, uint16_t id, int64_t now_ms)
{
	for (uint64_t number = probe->next; number > probe->valid; number--) {
		uint64_t i = (number - 1) % NODE_PROBES;

		if (probe->next - number == NODE_PROBES ||
		    now_ms - probe->sent[i].sent_ms >= NODE_PATIENCE_MS)
			return;
		if (probe->sent[i].id != id)
			continue;
		probe->answered_ms = now_ms;
		probe->answers++;
		if (number > probe->doubted)
			probe->doubts = 0;
		return;
	}
}

void
node_probe_read(struct node_probe *probe, int64_t now_ms)
{
	uint8_t wire[4096];
	ssize_t got;

	while ((got = recv(probe->fd, wire, sizeof wire, MSG_DONTWAIT)) >= 0 ||
	       errno == ECONNREFUSED) {
		if (got < 0)
			refused(probe);
		else if (got >= DNS_HEADER && (wire[2] & 0x80) && (wire[3] & 0xf) == 0)
			answered(probe, (uint16_t)wire_get16(wire), now_ms);
	}
}

void
node_probe_doubt(struct node_probe *probe)
{
	probe->doubts = NODE_DOUBTS_MAX;
	probe->doubted = probe->next;
}

bool
node_probe_alive(const struct node_probe *probe, int64_t now_ms)
{
	return probe->answered_ms != 0 && now_ms - probe->answered_ms < NODE_PATIENCE_MS;
}
