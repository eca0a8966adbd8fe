/*
 * What the kernel drops before dnsmasq can read it, from /proc/net/udp and udp6.
 */
#ifndef NANNY_DNSMASQ_UDP_DROPS_H
#define NANNY_DNSMASQ_UDP_DROPS_H

#include <stdint.h>

/* Packets dropped since they were bound, because a buffer was full, of the sockets that are bound to
 * `port` now, in both families. */
uint64_t udp_receive_drops(uint16_t port);

#endif
