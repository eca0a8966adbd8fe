#include "nanny/unbound/ca_bundle.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/hash.h"
#include "lib/log.h"
#include "lib/xalloc.h"
#include "nanny/process.h"

enum {
	SIZE_MAX_BYTES = 8 * 1024 * 1024,
	PAUSE_MIN_MS = 60 * 1000,
	PAUSE_MAX_MS = 60 * 60 * 1000,
	LOG_MAX = 8192,
	REASON_MAX = 160,
};

/* The configuration of the unbound that checks a file. It needs a port, but answers no query. */
static const char check_conf[] = "server:\n"
				 "\tdo-daemonize: no\n"
				 "\tusername: \"\"\n"
				 "\tchroot: \"\"\n"
				 "\tdirectory: \"\"\n"
				 "\tpidfile: \"\"\n"
				 "\tuse-syslog: no\n"
				 "\tlogfile: \"\"\n"
				 "\tverbosity: 1\n"
				 "\tinterface: 127.0.0.1\n"
				 "\tport: %u\n"
				 "\tdo-tcp: no\n"
				 "\taccess-control: 0.0.0.0/0 deny\n"
				 "\tnum-threads: 1\n"
				 "\tnum-queries-per-thread: 16\n"
				 "\toutgoing-range: 32\n"
				 "\tmsg-cache-size: 64k\n"
				 "\trrset-cache-size: 64k\n"
				 "\tmodule-config: \"iterator\"\n"
				 "\ttls-cert-bundle: \"%s\"\n"
				 "remote-control:\n"
				 "\tcontrol-enable: no\n";

/* Returns a port that no program uses, or 0. */
static unsigned
unused_port(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof sin;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned port = 0;

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&sin, len) == 0 &&
	    getsockname(fd, (struct sockaddr *)&sin, &len) == 0)
		port = ntohs(sin.sin_port);
	if (fd >= 0)
		close(fd);
	return port;
}

/* Returns the text of the first error in unbound's log (caller frees). */
static char *
first_error(const char *log)
{
	static const char mark[] = "error: ";
	const char *at = strstr(log, mark);

	if (at == NULL)
		return xstrdup("its log says nothing");
	at += sizeof mark - 1;
	size_t len = strcspn(at, "\n");
	return xstrndup(at, len < REASON_MAX ? len : REASON_MAX);
}

/* Whether unbound starts with the file. Returns NULL, or why it does not (caller frees). Sets `judged` to
 * whether the file is the reason, and `late` to whether the time has passed. */
static char *
check(const struct ca_bundle *bundle, const char *path, bool *judged, bool *late)
{
	char *program = xstrdup(bundle->exec), *config = xasprintf(check_conf, unused_port(), path);
	char foreground[] = "-d", from[] = "-c", standard_input[] = "/proc/self/fd/0", log[LOG_MAX];

	char *const argv[] = { program, foreground, from, standard_input, NULL };
	const struct process_try try = { .argv = argv,
		.input = config,
		.until = "info: start of service",
		.ms = bundle->check_ms };
	int rc = process_try(&try, log, sizeof log);
	*late = rc == -ETIMEDOUT;
	*judged = rc == 0 || strstr(log, "could not set up connect SSL_CTX") != NULL;
	char *why = NULL;
	if (rc != 0) {
		char *error = rc == -ECANCELED ? first_error(log) : xstrdup(strerror(-rc));

		why = *judged ? xasprintf("unbound cannot read all certificates in it: %s", error)
			      : xasprintf("unbound could not check it: %s", error);
		free(error);
	}
	free(program);
	free(config);
	return why;
}

/* Reads the whole file. Returns NULL, with the reason in `why`, if it has no certificate. */
static char *
read_all(const char *path, size_t *len, const char **why)
{
	char *text = xcalloc(SIZE_MAX_BYTES + 1, 1);
	FILE *file = fopen(path, "re");

	*why = file == NULL ? strerror(errno) : NULL;
	if (file != NULL) {
		*len = fread(text, 1, SIZE_MAX_BYTES, file);
		*why = ferror(file)                                          ? strerror(errno)
		       : *len == SIZE_MAX_BYTES                              ? "too long"
		       : strlen(text) != *len                                ? "not a text"
		       : strstr(text, "-----BEGIN CERTIFICATE-----") == NULL ? "has no certificate"
									     : NULL;
		fclose(file);
	}
	if (*why == NULL)
		return text;
	free(text);
	return NULL;
}

static int
write_copy(const char *path, const char *text, size_t len)
{
	FILE *out = fopen(path, "we");
	int rc = out == NULL ? -errno : fwrite(text, 1, len, out) == len ? 0 : -EIO;

	if (out != NULL && fclose(out) != 0 && rc == 0)
		rc = -errno;
	return rc;
}

static void
refuse(struct ca_bundle *bundle, const char *text, size_t len, const char *why)
{
	conf_key_judge(&bundle->key, bundle->source, CA_BUNDLE_KEY, text, len,
	    xasprintf("%s%s", why, bundle->path == NULL ? ": no tls:// server is trusted" : ""));
}

static bool
is_same(const char *path, const char *other)
{
	return other != NULL && strcmp(path, other) == 0;
}

/* Removes a copy (takes its path), unless it is the copy in force or the one before it: a content that comes
 * back has the same name again. */
static void
remove_copy(const struct ca_bundle *bundle, char *taken)
{
	if (bundle->dir != NULL && taken != NULL && !is_same(taken, bundle->path) &&
	    !is_same(taken, bundle->former))
		unlink(taken);
	free(taken);
}

/* Puts the copy in force (takes `path`). */
static void
put_in_force(struct ca_bundle *bundle, char *path, uint64_t hash)
{
	char *last = bundle->path;

	log_info("CA certificates %s: in use", bundle->source);
	bundle->path = path;
	if (bundle->former == NULL)
		bundle->former = last;
	else
		remove_copy(bundle, last);
	bundle->hash = hash;
}

/* Sets the time of the next check of this content. The nanny does nothing else during a check. */
static void
check_later(struct ca_bundle *bundle, uint64_t hash)
{
	int64_t pause_ms = bundle->unchecked == hash ? 2 * bundle->pause_ms : PAUSE_MIN_MS;

	bundle->unchecked = hash;
	bundle->pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
	bundle->again_ms = clock_mono_ms() + bundle->pause_ms;
}

/* Copies and checks a new content. */
static void
take_new(struct ca_bundle *bundle, const char *text, size_t len, uint64_t hash)
{
	char *path = bundle->dir == NULL
			 ? xstrdup(bundle->source)
			 : xasprintf("%s/ca-%016llx.pem", bundle->dir, (unsigned long long)hash);
	int rc = bundle->dir == NULL ? 0 : write_copy(path, text, len);
	bool judged = false, late = false;
	char *why =
	    rc < 0 ? xasprintf("%s: %s", path, strerror(-rc)) : check(bundle, path, &judged, &late);

	bundle->judged = judged ? hash : 0; /* if it is 0, a later call checks the content again */
	if (late)
		check_later(bundle, hash);
	else
		bundle->unchecked = 0;
	if (why == NULL) {
		conf_key_judge(&bundle->key, bundle->source, CA_BUNDLE_KEY, text, len, NULL);
		put_in_force(bundle, path, hash);
		return;
	}
	refuse(bundle, text, len, why);
	free(why);
	remove_copy(bundle, path);
}

/* Returns a hash that does not depend on the order of the certificates. The kubelet writes the certificates of
 * a ClusterTrustBundle in another order every few minutes. Text before a certificate belongs to it. */
static uint64_t
hash_certificates(const char *text)
{
	static const char end[] = "-----END CERTIFICATE-----\n";
	uint64_t sum = 0;

	while (*text != '\0') {
		const char *mark = strstr(text, end);
		size_t len = mark != NULL ? (size_t)(mark - text) + sizeof end - 1 : strlen(text);

		sum += hash64(HASH_START, text, len);
		text += len;
	}
	return sum;
}

void
ca_bundle_sweep(const char *dir)
{
	static const char begin[] = "ca-", end[] = ".pem";
	DIR *stream = opendir(dir);
	const struct dirent *entry;

	while (stream != NULL && (entry = readdir(stream)) != NULL) {
		size_t len = strlen(entry->d_name);

		if (len == sizeof begin - 1 + 16 + sizeof end - 1 &&
		    strncmp(entry->d_name, begin, sizeof begin - 1) == 0 &&
		    strcmp(entry->d_name + len - (sizeof end - 1), end) == 0)
			unlinkat(dirfd(stream), entry->d_name, 0);
	}
	if (stream != NULL)
		closedir(stream);
}

bool
ca_bundle_take(struct ca_bundle *bundle)
{
	uint64_t before = bundle->hash;
	const char *why;
	size_t len = 0;
	char *text = read_all(bundle->source, &len, &why);

	if (text == NULL) {
		bundle->judged = 0;
		refuse(bundle, NULL, 0, why);
		return false;
	}
	uint64_t hash = hash_certificates(text);
	if (hash == bundle->hash) { /* after a content that was refused */
		bundle->judged = hash;
		conf_key_judge(&bundle->key, bundle->source, CA_BUNDLE_KEY, text, len, NULL);
	} else if (hash != bundle->judged &&
		   (hash != bundle->unchecked || clock_mono_ms() >= bundle->again_ms)) {
		take_new(bundle, text, len, hash);
	}
	free(text);
	return bundle->hash != before;
}

void
ca_bundle_confirmed(struct ca_bundle *bundle)
{
	char *former = bundle->former;

	bundle->former = NULL;
	remove_copy(bundle, former);
}

void
ca_bundle_clear(struct ca_bundle *bundle)
{
	char *path = bundle->path;

	ca_bundle_confirmed(bundle);
	bundle->path = NULL;
	remove_copy(bundle, path);
	conf_key_clear(&bundle->key);
	*bundle = (struct ca_bundle){ 0 };
}
