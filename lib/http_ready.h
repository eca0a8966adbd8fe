/* --ready: asks the program that runs in this pod whether it is ready. For a readiness probe of the
 * kubelet, where two pods share a port and a request to the node may reach the other one. */
#ifndef LIB_HTTP_READY_H
#define LIB_HTTP_READY_H

#include <stdint.h>

/*
 * GET /readiness at the pod's own address (lib/own_loopback.h). 0 if the answer is 200; else
 * -EAGAIN, after its text on stderr, or -errno after one log line. Waits for a second at
 * most (-ETIMEDOUT).
 */
int http_ready_ask(uint16_t port);

#endif
