#include "kubedns/serve/net/socket_filter.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>

#include "lib/wire.h"

enum {
	WORDS_MAX = 4, /* 32-bit words in an address */
	CLIENT_CODE_MAX = 2 * WORDS_MAX + 4,
	/* Offset of the source address in an IPv4 header and in an IPv6 header. */
	SOURCE_OFFSET_4 = 12,
	SOURCE_OFFSET_6 = 8,
};

static const uint32_t accept_all = UINT32_MAX; /* a filter returns the number of bytes to keep */

/*
 * Writes the code for one client. If any word of the address differs, the code jumps to the code of the next client. For a packet of the
 * client, a random number decides whether it passes.
 */
static size_t
client_code(struct sock_filter *code, const struct client_share *client)
{
	bool v4 = client->addr.family == AF_INET;
	unsigned words = v4 ? 1 : WORDS_MAX, offset = v4 ? SOURCE_OFFSET_4 : SOURCE_OFFSET_6;
	size_t n = 0;

	for (unsigned w = 0; w < words; w++) {
		uint8_t rest = (uint8_t)(2 * (words - 1 - w) + 4);
		uint32_t at = (uint32_t)SKF_NET_OFF + offset + 4 * w;
		uint32_t word = wire_get32(client->addr.bytes + (size_t)4 * w);

		code[n++] = (struct sock_filter){ BPF_LD | BPF_W | BPF_ABS, 0, 0, at };
		code[n++] = (struct sock_filter){ BPF_JMP | BPF_JEQ | BPF_K, 0, rest, word };
	}
	uint32_t passes = (uint32_t)(client->share * (double)UINT32_MAX);
	uint32_t random = (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM);
	code[n++] = (struct sock_filter){ BPF_LD | BPF_W | BPF_ABS, 0, 0, random };
	code[n++] = (struct sock_filter){ BPF_JMP | BPF_JGE | BPF_K, 0, 1, passes };
	code[n++] = (struct sock_filter){ BPF_RET | BPF_K, 0, 0, 0 };
	code[n++] = (struct sock_filter){ BPF_RET | BPF_K, 0, 0, accept_all };
	return n;
}

int
socket_filter_set(int fd, uint8_t family, const struct client_share *clients, size_t client_count)
{
	struct sock_filter code[SOCKET_FILTER_MAX * CLIENT_CODE_MAX + 1];
	size_t n = 0;
	int unused = 0;

	assert(client_count <= SOCKET_FILTER_MAX);
	for (size_t i = 0; i < client_count; i++)
		if (clients[i].addr.family == family)
			n += client_code(code + n, &clients[i]);
	if (n == 0) {
		if (setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) == 0 ||
		    errno == ENOENT)
			return 0;
		return -errno;
	}
	code[n++] = (struct sock_filter){ BPF_RET | BPF_K, 0, 0, accept_all };
	const struct sock_fprog program = { .len = (unsigned short)n, .filter = code };
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 ? 0
											   : -errno;
}
