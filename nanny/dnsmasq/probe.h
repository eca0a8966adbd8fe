/*
 * What the nanny asks dnsmasq, and what dnsmasq asks the nanny.
 *
 * The nanny asks `version.bind` to know that dnsmasq is alive, and
 * `<label>.generation.nanny.invalid` to know which servers file it has: dnsmasq forwards that query
 * to the address on the file's last line, 127.a.b.c at a port of ours, and the address at which it
 * arrives is the generation. That proves that the file is in use, takes one small packet however
 * many servers there are, and cannot be forged, since the label is a secret of this process.
 *
 * At the same port 127.0.1.2 answers SERVFAIL, for a stub domain while none of its servers' names
 * is resolved (rather than asking public servers for private names), and 127.0.1.3 REFUSED, for all
 * other names where there is no upstream.
 */
#ifndef NANNY_DNSMASQ_PROBE_H
#define NANNY_DNSMASQ_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/addr.h"

struct dnsmasq_probe;

/* Sockets for a dnsmasq at `dnsmasq`; NULL after one log line. Caller frees with
 * dnsmasq_probe_free. */
struct dnsmasq_probe *dnsmasq_probe_new(const struct server *dnsmasq);
void dnsmasq_probe_free(struct dnsmasq_probe *probe);

/* Descriptors to poll for input: of answers from dnsmasq, and of questions by it. */
int dnsmasq_probe_fd(const struct dnsmasq_probe *probe);
int dnsmasq_probe_questions_fd(const struct dnsmasq_probe *probe);

/* The port of the marker line. */
uint16_t dnsmasq_probe_port(const struct dnsmasq_probe *probe);

/* The servers that answer SERVFAIL and REFUSED. */
struct server dnsmasq_probe_servfail(const struct dnsmasq_probe *probe);
struct server dnsmasq_probe_refused(const struct dnsmasq_probe *probe);

void dnsmasq_probe_ask_version(struct dnsmasq_probe *probe);
void dnsmasq_probe_ask_generation(struct dnsmasq_probe *probe);

/* Reads answers; true if there was one to any of our questions. */
bool dnsmasq_probe_read(struct dnsmasq_probe *probe);

/* Answers questions; returns the generation that the latest of ours arrived at, 0 if none did. */
uint32_t dnsmasq_probe_answer(struct dnsmasq_probe *probe);

#endif
