#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <gnutls/gnutls.h>

#include "lib/log.h"
#include "lib/xalloc.h"
#include "sidecar/probes/tls.h"

/* The certificates of one content of the bundle. Connections that use an old content keep it. */
struct bundle {
	gnutls_certificate_credentials_t credentials;
	unsigned users;
};

struct tls_trust {
	const char *path;
	struct stat seen;      /* the file of `bundle`, or of the failure */
	struct bundle *bundle; /* NULL: not read, or not usable */
	bool failed;
};

struct tls {
	gnutls_session_t session;
	struct bundle *bundle;
};

/* --- the bundle --- */

static void
release(struct bundle *bundle)
{
	if (bundle == NULL || --bundle->users > 0)
		return;
	gnutls_certificate_free_credentials(bundle->credentials);
	free(bundle);
}

struct tls_trust *
tls_trust_new(const char *path)
{
	struct tls_trust *trust = xcalloc(1, sizeof *trust);

	trust->path = path;
	return trust;
}

void
tls_trust_free(struct tls_trust *trust)
{
	if (trust == NULL)
		return;
	release(trust->bundle);
	free(trust);
}

/* Logs a new reason why the bundle cannot be used. The former one stays in force, as in the nanny. */
static void
refuse(struct tls_trust *trust, const char *reason)
{
	if (!trust->failed)
		log_errorx("--upstream-ca=%s: %s: %s: give a file with CA certificates in PEM form",
		    trust->path, reason,
		    trust->bundle != NULL ? "the former certificates stay in force"
					  : "tls:// servers cannot be checked");
	trust->failed = true;
}

static bool
is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the bundle, if the file is new. */
static void
read_bundle(struct tls_trust *trust)
{
	struct stat now;

	if (stat(trust->path, &now) < 0) {
		trust->seen = (struct stat){ 0 };
		refuse(trust, strerror(errno));
		return;
	}
	if (is_same_file(&now, &trust->seen))
		return;
	trust->seen = now;
	struct bundle *bundle = xcalloc(1, sizeof *bundle);
	bundle->users = 1;
	if (gnutls_certificate_allocate_credentials(&bundle->credentials) < 0)
		log_fatalx("out of memory");
	int count = gnutls_certificate_set_x509_trust_file(
	    bundle->credentials, trust->path, GNUTLS_X509_FMT_PEM);
	if (count <= 0) {
		release(bundle);
		refuse(trust, count < 0 ? gnutls_strerror(count) : "no certificate in it");
		return;
	}
	release(trust->bundle);
	trust->bundle = bundle;
	trust->failed = false;
}

/* --- a connection --- */

struct tls *
tls_open(struct tls_trust *trust, int fd, const char *name)
{
	/* 1.2 and later; RFC 8310 requires 1.2 at least. */
	static const char priority[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
	static const char protocol[] = "dot";

	read_bundle(trust);
	if (trust->bundle == NULL)
		return NULL;
	struct tls *tls = xcalloc(1, sizeof *tls);
	tls->bundle = trust->bundle;
	tls->bundle->users++;
	const gnutls_datum_t alpn = { (unsigned char *)(uintptr_t)protocol, sizeof protocol - 1 };
	if (gnutls_init(&tls->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0 ||
	    gnutls_priority_set_direct(tls->session, priority, NULL) < 0 ||
	    gnutls_credentials_set(tls->session, GNUTLS_CRD_CERTIFICATE, tls->bundle->credentials) <
		0 ||
	    gnutls_server_name_set(tls->session, GNUTLS_NAME_DNS, name, strlen(name)) < 0 ||
	    gnutls_alpn_set_protocols(tls->session, &alpn, 1, 0) < 0)
		log_fatalx("GnuTLS: a connection cannot be set up");
	gnutls_session_set_verify_cert(tls->session, name, 0);
	gnutls_transport_set_int(tls->session, fd);
	return tls;
}

void
tls_close(struct tls *tls)
{
	if (tls == NULL)
		return;
	gnutls_deinit(tls->session);
	release(tls->bundle);
	free(tls);
}

/* Returns why the certificate was refused. A certificate may have several faults. The fault that the
 * operator must fix first comes first. */
static enum cause
certificate_cause(unsigned status)
{
	if (status & (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNER_NOT_CA))
		return CAUSE_TLS_UNKNOWN_CA;
	if (status & GNUTLS_CERT_EXPIRED)
		return CAUSE_TLS_EXPIRED;
	if (status & GNUTLS_CERT_NOT_ACTIVATED)
		return CAUSE_TLS_NOT_YET_VALID;
	if (status & GNUTLS_CERT_UNEXPECTED_OWNER)
		return CAUSE_TLS_WRONG_NAME;
	return CAUSE_TLS_CERTIFICATE;
}

int
tls_handshake(struct tls *tls, short *events, enum cause *cause)
{
	int rc = gnutls_handshake(tls->session);

	if (rc == GNUTLS_E_SUCCESS)
		return 0;
	if (!gnutls_error_is_fatal(rc)) {
		*events = gnutls_record_get_direction(tls->session) == 0 ? POLLIN : POLLOUT;
		return -EAGAIN;
	}
	*cause = rc == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR
		     ? certificate_cause(gnutls_session_get_verify_cert_status(tls->session))
		     : CAUSE_TLS_HANDSHAKE;
	return -EPROTO;
}

static ssize_t
errno_of(ssize_t rc)
{
	if (rc >= 0)
		return rc;
	return gnutls_error_is_fatal((int)rc) ? -ECONNRESET : -EAGAIN;
}

ssize_t
tls_send(struct tls *tls, const void *data, size_t len)
{
	return errno_of(gnutls_record_send(tls->session, data, len));
}

ssize_t
tls_recv(struct tls *tls, void *data, size_t len)
{
	return errno_of(gnutls_record_recv(tls->session, data, len));
}

bool
tls_has_input(const struct tls *tls)
{
	return gnutls_record_check_pending(tls->session) > 0;
}
