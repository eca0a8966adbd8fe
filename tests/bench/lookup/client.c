/*
 * A program in a pod that looks up names one after the other. The lookups use the C library's
 * getaddrinfo(), or c-ares (-DCARES). tests/bench/lookup.py counts its packets.
 *
 *	client COUNT NAME [PAUSE_US]
 *
 * prints {"found": number of lookups with an IPv4 address, "us": [duration of each lookup in
 * microseconds]}.
 */
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef CARES
#include <ares.h>
#endif

static long long
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#ifdef CARES
struct result {
	bool done, found;
};

static void
take(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct result *result = arg;

	(void)timeouts;
	result->done = true;
	for (struct ares_addrinfo_node *n = status == ARES_SUCCESS ? info->nodes : NULL; n != NULL;
	     n = n->ai_next)
		result->found |= n->ai_family == AF_INET;
	if (info != NULL)
		ares_freeaddrinfo(info);
}

static bool
lookup(const char *name)
{
	static ares_channel channel;
	const struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM };
	struct result result = { false, false };

	if (channel == NULL && (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS ||
				   ares_init(&channel) != ARES_SUCCESS))
		exit(1);
	ares_getaddrinfo(channel, name, NULL, &hints, take, &result);
	while (!result.done) {
		fd_set in, out;
		struct timeval most = { 1, 0 }, wait;

		FD_ZERO(&in);
		FD_ZERO(&out);
		int count = ares_fds(channel, &in, &out);
		if (select(count, &in, &out, NULL, ares_timeout(channel, &most, &wait)) < 0)
			exit(1);
		ares_process(channel, &in, &out);
	}
	return result.found;
}
#else
static bool
lookup(const char *name)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *all = NULL;
	bool found = false;

	if (getaddrinfo(name, NULL, &hints, &all) != 0)
		return false;
	for (const struct addrinfo *one = all; one != NULL; one = one->ai_next)
		found |= one->ai_family == AF_INET;
	freeaddrinfo(all);
	return found;
}
#endif

int
main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int count = atoi(argv[1]), found = 0;
	useconds_t pause_us = argc > 3 ? (useconds_t)atoi(argv[3]) : 0;
	long long *took = calloc((size_t)count, sizeof *took);

	if (took == NULL)
		return 1;
	for (int i = 0; i < count; i++) {
		long long begun = now_ns();

		found += lookup(argv[2]);
		took[i] = now_ns() - begun;
		usleep(pause_us);
	}
	printf("{\"found\": %d, \"us\": [", found);
	for (int i = 0; i < count; i++)
		printf("%s%lld", i > 0 ? ", " : "", took[i] / 1000);
	printf("]}\n");
	free(took);
	return 0;
}
