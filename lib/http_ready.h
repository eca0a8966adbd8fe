/* --ready: the command asks the program that runs in the same pod whether it is ready: what a probe
 * of the kubelet runs where another pod may have the same port. */
#ifndef LIB_HTTP_READY_H
#define LIB_HTTP_READY_H

#include <stdint.h>

/*
 * GET /readiness at the pod's own address (lib/own_loopback.h). 0 if the answer is 200; else
 * -EAGAIN, after its text on stderr, or -errno after one log line. Waits for a second at most.
 */
int http_ready_ask(uint16_t port);

#endif
