/*
 * TLS to a tls:// server (RFC 7858), strict: the certificate must be valid now, must have the server's
 * name, and must come from a CA of the bundle. If one of these is missing, no query is sent.
 *
 *	tls_open --> tls_handshake (again after each poll) --> tls_send, tls_recv --> tls_close
 *
 * No function waits. The bundle is read when the first connection needs it, and again after the file
 * has changed. So a sidecar without tls:// servers does not have the memory for the certificates.
 */
#ifndef SIDECAR_PROBES_TLS_H
#define SIDECAR_PROBES_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sidecar/probes/reply_check.h"

struct tls_trust;
struct tls;

/* `path` is a file with CA certificates in PEM form; it must live as long as the result. Caller frees. */
struct tls_trust *tls_trust_new(const char *path);
void tls_trust_free(struct tls_trust *trust);

/* Begins TLS on a connected, non-blocking socket. Returns NULL if the bundle cannot be read; the reason
 * is logged once. Caller frees with tls_close, before the socket is closed. */
struct tls *tls_open(struct tls_trust *trust, int fd, const char *name);
void tls_close(struct tls *tls);

/* Returns 0 when the handshake is complete. Returns -EAGAIN if the handshake waits for `events` of the
 * socket, and -EPROTO if it failed, with the reason in `cause`. */
int tls_handshake(struct tls *tls, short *events, enum cause *cause);

/* As send() and recv() of a non-blocking socket, but return a negative errno value. */
ssize_t tls_send(struct tls *tls, const void *data, size_t len);
ssize_t tls_recv(struct tls *tls, void *data, size_t len);

/* Whether there are decrypted bytes that tls_recv has not returned yet. poll() does not report them. */
bool tls_has_input(const struct tls *tls);

#endif
