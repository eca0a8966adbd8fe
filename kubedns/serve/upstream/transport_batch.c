#include "kubedns/serve/upstream/transport_batch.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kubedns/serve/net/batch_io.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum { RUN_MAX = 60000 /* bytes of a run, which must fit into an IP packet with its headers */ };

/* Returns whether the kernel supports UDP_SEGMENT. A kernel without UDP_SEGMENT would send a run as one message. */
static bool
has_segments(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = 0;

	if (fd < 0)
		return false;
	bool has = setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof size) == 0;
	close(fd);
	return has;
}

void
transport_batch_init(struct transport_batch *batch)
{
	batch->segments = has_segments();
	batch->bytes = xmalloc((size_t)TRANSPORT_BATCH * DNS_UDP_QUERY_MAX);
}

void
transport_batch_free(struct transport_batch *batch)
{
	free(batch->bytes);
}

void
transport_batch_add(struct transport_batch *batch, size_t len)
{
	batch->iov[batch->count++] = (struct iovec){ transport_batch_next(batch), len };
	batch->used += len;
}

/* A control message UDP_SEGMENT. The control message contains the length of each message in a run. */
struct segment_size {
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))];
};

static void
segment_size(struct msghdr *hdr, struct segment_size *size, size_t len)
{
	uint16_t value = (uint16_t)len;

	*size = (struct segment_size){ 0 };
	hdr->msg_control = size->control;
	hdr->msg_controllen = sizeof size->control;
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(hdr);
	*cmsg = (struct cmsghdr){
		.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof value)
	};
	memcpy(CMSG_DATA(cmsg), &value, sizeof value);
}

/* Sorts the messages by length, the longest first. Messages of the same length are then adjacent. */
static void
sort_by_length(struct transport_batch *batch)
{
	for (unsigned i = 1; i < batch->count; i++) {
		struct iovec iov = batch->iov[i];
		unsigned at = i;

		for (; at > 0 && batch->iov[at - 1].iov_len < iov.iov_len; at--)
			batch->iov[at] = batch->iov[at - 1];
		batch->iov[at] = iov;
	}
}

/*
 * Returns the number of messages from `first` on that can be sent as one run. All messages of a run have the same length, except the last,
 * which may be shorter.
 */
static unsigned
run_length(const struct transport_batch *batch, unsigned first)
{
	const struct iovec *iov = batch->iov + first;
	unsigned count = 1, max = batch->segments ? batch->count - first : 1;

	for (size_t len = iov->iov_len; count < max; count++) {
		len += iov[count].iov_len;
		if (len > RUN_MAX || iov[count - 1].iov_len < iov->iov_len)
			break;
	}
	return count;
}

/*
 * Groups the messages into runs. A run passes through the kernel as one packet up to the server's
 * socket, and that path is most of the cost of a message.
 */
static unsigned
make_runs(struct transport_batch *batch, struct mmsghdr *out, struct segment_size *sizes)
{
	unsigned runs = 0;

	sort_by_length(batch);
	for (unsigned i = 0; i < batch->count; runs++) {
		struct msghdr *hdr = &out[runs].msg_hdr;
		unsigned count = run_length(batch, i);

		*hdr = (struct msghdr){ .msg_iov = batch->iov + i, .msg_iovlen = count };
		if (count > 1)
			segment_size(hdr, &sizes[runs], batch->iov[i].iov_len);
		i += count;
	}
	return runs;
}

/*
 * Sends a run message by message. The kernel rejects the whole run if a message exceeds the path's
 * MTU, or if no checksum offload is available. Returns whether all messages were sent, or wait for
 * space in the socket's buffer and so for their retry.
 */
static bool
send_singly(int fd, const struct msghdr *run)
{
	bool sent = true;

	for (size_t i = 0; i < run->msg_iovlen; i++) {
		if (send(fd, run->msg_iov[i].iov_base, run->msg_iov[i].iov_len, MSG_DONTWAIT) >= 0)
			continue;
		sent = sent && (errno == EAGAIN || errno == ENOBUFS);
		log_neterr("upstream: send: %s", strerror(errno));
	}
	return sent;
}

bool
transport_batch_send(struct transport_batch *batch, int fd)
{
	struct mmsghdr out[TRANSPORT_BATCH];
	struct segment_size sizes[TRANSPORT_BATCH];
	unsigned runs = make_runs(batch, out, sizes), sent = 0;
	bool lost = false, again = true;

	while (sent < runs) {
		int n = messages_send(fd, out + sent, runs - sent);

		if (n > 0) {
			sent += (unsigned)n;
			again = true;
		} else if (errno == ECONNREFUSED && again) {
			lost = true;
			again = false;
		} else if (errno != EINTR) {
			lost = !send_singly(fd, &out[sent++].msg_hdr) || lost;
			again = true;
		}
	}
	batch->count = 0;
	batch->used = 0;
	return lost;
}
