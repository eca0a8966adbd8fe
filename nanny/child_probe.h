/*
 * The nanny's queries to dnsmasq, and dnsmasq's queries to the nanny.
 *
 * The nanny sends two kinds of queries. `version.bind` shows that dnsmasq is alive.
 * `<label>.generation.nanny.invalid` shows which servers file dnsmasq uses. The last line of the
 * file forwards that domain to 127.a.b.c at a port of the nanny. Each file has its own address. The
 * address at which the query arrives therefore tells which file dnsmasq uses. The proof needs one small packet, whatever the size of the file. Other processes cannot forge the
 * proof, because the label contains a secret of this process.
 *
 * The nanny also answers at two fixed addresses at the same port. At 127.0.1.2 it returns SERVFAIL.
 * This address stands in for the servers of a stub domain while their host names are not resolved
 * yet. Private names are therefore not sent to public servers. At 127.0.1.3 the nanny returns
 * REFUSED. This address stands in for the upstream if none is configured.
 */
#ifndef NANNY_CHILD_PROBE_H
#define NANNY_CHILD_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"

struct child_probe;

/* Opens the sockets for the dnsmasq at address `dnsmasq`. Returns NULL after one log line. Caller
 * frees with child_probe_free. */
struct child_probe *child_probe_new(const struct server *dnsmasq);
void child_probe_free(struct child_probe *probe);

/* Descriptors to poll for input: one for answers from dnsmasq, one for queries from dnsmasq. */
int child_probe_fd(const struct child_probe *probe);
int child_probe_questions_fd(const struct child_probe *probe);

/* Port for the marker line of the servers file. */
uint16_t child_probe_port(const struct child_probe *probe);

/* Addresses at which the nanny answers SERVFAIL and REFUSED. */
struct server child_probe_servfail(const struct child_probe *probe);
struct server child_probe_refused(const struct child_probe *probe);

void child_probe_ask_version(struct child_probe *probe);
void child_probe_ask_generation(struct child_probe *probe);

/* Reads responses. Returns true if one of the responses answers one of our queries. */
bool child_probe_read(struct child_probe *probe);

/* Number of answers to version.bind so far. dnsmasq counts these queries as cache hits. */
uint64_t child_probe_version_answers(const struct child_probe *probe);

/* Answers queries from dnsmasq. Returns the generation that the latest of our own queries shows, or
 * 0 if none of the queries is ours. */
uint32_t child_probe_answer(struct child_probe *probe);

#endif
