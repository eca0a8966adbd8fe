/*
 * Implements --ready: asks the program in this pod whether it is ready. The kubelet's readiness
 * probe runs --ready if two pods share a port. A request to the node's address could reach the
 * other pod.
 */
#ifndef LIB_HTTP_READY_H
#define LIB_HTTP_READY_H

#include <stdint.h>

/*
 * Sends GET /readiness to the pod's own address (lib/own_loopback.h). Returns 0 if the status is
 * 200. Otherwise returns -EAGAIN after printing the response to stderr, or -errno after one log
 * line. Waits for at most one second (-ETIMEDOUT).
 */
int http_ready_ask(uint16_t port);

#endif
