#include "kubedns/api/api_credentials.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include "kubedns/api/kubeconfig.h"
#include "lib/log.h"
#include "lib/sandbox.h"
#include "lib/xalloc.h"

#define SERVICEACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

static bool
given(const char *s)
{
	return s != NULL && *s;
}

char *
api_credentials_expand(const char *text)
{
	char *out = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&out, &len);

	if (f == NULL)
		log_fatal("out of memory");
	while (*text) {
		const char *name = text + 1;
		bool braces = *text == '$' && *name == '{';
		size_t n = 0;

		name += braces;
		while (*text == '$' && (isalnum((unsigned char)name[n]) || name[n] == '_'))
			n++;
		if (n == 0 || (braces && name[n] != '}')) {
			fputc(*text++, f);
			continue;
		}
		char *variable = xstrndup(name, n);
		const char *value = getenv(variable);
		fputs(value != NULL ? value : "", f);
		free(variable);
		text = name + n + braces;
	}
	fclose(f);
	return out;
}

/* Returns a part of a URL in new memory, or NULL. */
static char *
url_part(CURLU *u, CURLUPart which, unsigned flags)
{
	char *value = NULL, *copy = NULL;

	if (curl_url_get(u, which, &value, flags) == CURLUE_OK)
		copy = xstrdup(value);
	curl_free(value);
	return copy;
}

/*
 * libcurl verifies the name in the URL. The URL therefore gets the name in the certificate, and
 * CONNECT_TO gets the server's address.
 */
static void
verify_as(struct api_credentials *c, CURLU *u, const char *name)
{
	char *host = url_part(u, CURLUPART_HOST, 0),
	     *port = url_part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT);

	if (host != NULL && port != NULL && curl_url_set(u, CURLUPART_HOST, name, 0) == CURLUE_OK) {
		c->connect_to = xasprintf("%s:%s:%s:%s", name, port, host, port);
		c->host = xasprintf("Host: %s:%s", host, port);
	}
	free(host);
	free(port);
}

/* Checks the server's URL and stores it. Returns 0, or -EINVAL after a log line. */
static int
set_url(struct api_credentials *c, const char *url, const char *tls_server_name)
{
	CURLU *u = curl_url();
	int error = -EINVAL;
	CURLUcode code = curl_url_set(u, CURLUPART_URL, url, 0);
	char *scheme = url_part(u, CURLUPART_SCHEME, 0), *user = url_part(u, CURLUPART_USER, 0);
	char *query = url_part(u, CURLUPART_QUERY, 0);

	if (code != CURLUE_OK || scheme == NULL ||
	    (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)) {
		log_errorx("%s: \"%s\": not a URL such as https://HOST:PORT", c->origin, url);
		goto out;
	}
	if (user != NULL || query != NULL) {
		log_errorx("%s: \"%s\": the server's URL must not have a user name or a query",
		    c->origin, url);
		goto out;
	}
	c->https = strcmp(scheme, "https") == 0;
	curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
	c->shown_url = url_part(u, CURLUPART_URL, 0);
	if (given(tls_server_name) && c->https)
		verify_as(c, u, tls_server_name);
	c->url = url_part(u, CURLUPART_URL, 0);
	for (char *s = c->url; s != NULL && *s && s[strlen(s) - 1] == '/';)
		s[strlen(s) - 1] = '\0';
	for (char *s = c->shown_url; s != NULL && *s && s[strlen(s) - 1] == '/';)
		s[strlen(s) - 1] = '\0';
	error = 0;
out:
	free(scheme);
	free(user);
	free(query);
	curl_url_cleanup(u);
	return error;
}

static int
find_in_cluster(struct api_credentials *c, const char *dir)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"),
		   *port = getenv("KUBERNETES_SERVICE_PORT");

	c->origin = xstrdup("in-cluster");
	if (!given(host) || !given(port)) {
		log_errorx("no API server configured: not in a cluster (KUBERNETES_SERVICE_HOST "
			   "and KUBERNETES_SERVICE_PORT are "
			   "not set); use --kubecfg-file, --kube-master-url or --objects-dir");
		return -EINVAL;
	}
	bool brackets = strchr(host, ':') != NULL && *host != '[';
	char *url =
	    xasprintf("https://%s%s%s:%s", brackets ? "[" : "", host, brackets ? "]" : "", port);
	int error = set_url(c, url, NULL);
	free(url);
	dir = given(dir) ? dir : SERVICEACCOUNT_DIR;
	c->ca_path = xasprintf("%s/ca.crt", dir);
	c->ca_name = xstrdup(c->ca_path);
	c->token_file = xasprintf("%s/token", dir);
	c->proxy = xstrdup("");
	return error;
}

/* Creates a file in memory that contains `data`, and returns its path. */
static char *
memory_file(
    struct api_credentials *c, unsigned which, const char *name, const char *data, size_t len)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		log_fatal("memory file for %s", name);
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
	c->memory[which] = fd;
	return xasprintf("/proc/self/fd/%d", fd);
}

static char *
take_file(
    struct api_credentials *c, unsigned which, const char *name, const struct kubeconfig_file *file)
{
	if (file->data != NULL)
		return memory_file(c, which, name, file->data, file->len);
	return file->path != NULL ? xstrdup(file->path) : NULL;
}

/* Checks that a file named by the configuration is readable. A typo is then reported at startup,
 * not by the first handshake. */
static int
check_readable(const struct api_credentials *c, const char *what, const char *path)
{
	if (path == NULL || access(path, R_OK) == 0)
		return 0;
	log_error("%s: %s: %s", c->origin, what, path);
	return -EINVAL;
}

/*
 * Whether the file contains a PEM certificate. Its base64 text starts with "MI", which stands for a
 * long DER SEQUENCE. GnuTLS would silently ignore any other content, and would then report that the
 * server's certificate is not signed by this CA.
 */
static bool
holds_certificate(const char *path)
{
	static const char mark[] = "CERTIFICATE-----";
	FILE *in = fopen(path, "re");
	char line[256];
	bool begun = false, found = false;

	while (in != NULL && !found && fgets(line, sizeof line, in) != NULL) {
		line[strcspn(line, "\r\n")] = '\0';
		if (begun && *line)
			found = strncmp(line, "MI", 2) == 0;
		if (*line)
			begun = strncmp(line, "-----BEGIN ", 11) == 0 && strstr(line, mark) != NULL;
	}
	if (in != NULL)
		fclose(in);
	return found;
}

static int
check_certificate(const struct api_credentials *c, const char *what, const char *path,
    const struct kubeconfig_file *file)
{
	if (check_readable(c, what, path) < 0)
		return -EINVAL;
	if (path == NULL || holds_certificate(path))
		return 0;
	log_errorx("%s: %s%s%s%s: holds no certificate: give %s that begins with -----BEGIN "
		   "CERTIFICATE-----",
	    c->origin, what, file->data != NULL ? "-data" : "", file->data != NULL ? "" : ": ",
	    file->data != NULL ? "" : file->path,
	    file->data != NULL ? "the base64 of a PEM file" : "a PEM file");
	return -EINVAL;
}

static int
find_kubeconfig(struct api_credentials *c, const char *path, const char *master_url)
{
	struct kubeconfig k = { 0 };
	char *why = NULL;

	c->origin = xasprintf("kubeconfig %s", path);
	FILE *in = fopen(path, "re");
	if (in == NULL) {
		log_error("%s", c->origin);
		return -EINVAL;
	}
	int error = kubeconfig_read(in, path, &k, &why);
	if (error)
		log_errorx("%s: %s", c->origin, why);
	else
		error = set_url(c, given(master_url) ? master_url : k.server, k.tls_server_name);
	if (error == 0) {
		c->insecure = k.insecure;
		c->proxy = k.proxy_url != NULL ? xstrdup(k.proxy_url) : NULL;
		c->ca_path = take_file(c, 0, "certificate-authority", &k.ca);
		c->ca_name = k.ca.data != NULL ? xasprintf("%s (certificate-authority-data)", path)
			     : k.ca.path != NULL ? xstrdup(k.ca.path)
						 : NULL;
		c->cert_path = take_file(c, 1, "client-certificate", &k.cert);
		c->key_path = take_file(c, 2, "client-key", &k.key);
		c->token_file = k.token_file != NULL ? xstrdup(k.token_file) : NULL;
		c->token = k.token != NULL && k.token_file == NULL ? xstrdup(k.token) : NULL;
		error = check_certificate(c, "certificate-authority", c->ca_path, &k.ca);
		error = error ? error
			      : check_certificate(c, "client-certificate", c->cert_path, &k.cert);
		error = error ? error : check_readable(c, "client-key", c->key_path);
	}
	free(why);
	kubeconfig_free(&k);
	fclose(in);
	return error;
}

static void
warn_of_exposure(const struct api_credentials *c)
{
	if (!(c->token != NULL || c->token_file != NULL))
		return;
	if (!c->https)
		log_warnx(
		    "%s: %s: the token is sent unencrypted; use https", c->origin, c->shown_url);
	else if (c->insecure)
		log_warnx("%s: %s: insecure-skip-tls-verify: the token is sent to a server that is "
			  "not verified",
		    c->origin, c->shown_url);
}

int
api_credentials_find(struct api_credentials *c, const struct api_credentials_source *source)
{
	*c = (struct api_credentials){ .memory = { -1, -1, -1 } };
	char *master =
	    given(source->master_url) ? api_credentials_expand(source->master_url) : NULL;
	int error;
	if (given(source->kubecfg_file)) {
		error = find_kubeconfig(c, source->kubecfg_file, master);
	} else if (master != NULL) {
		c->origin = xstrdup("--kube-master-url");
		error = set_url(c, master, NULL);
	} else {
		error = find_in_cluster(c, source->serviceaccount_dir);
	}
	free(master);
	if (error == 0)
		warn_of_exposure(c);
	return error;
}

bool
api_credentials_has_token(const struct api_credentials *c)
{
	return c->token != NULL || c->token_file == NULL;
}

/* Reads the token, without surrounding white space. Returns NULL and sets errno if there is no
 * usable token. */
static char *
read_token(const char *path)
{
	char *buf = xmalloc(API_TOKEN_MAX + 1);
	ssize_t len = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0)
		len = read(fd, buf, API_TOKEN_MAX + 1);
	int error = len < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	char *start = buf, *end = buf + (len > 0 ? len : 0);
	while (start < end && isspace((unsigned char)*start))
		start++;
	while (end > start && isspace((unsigned char)end[-1]))
		end--;
	for (const char *p = start; p < end; p++) {
		if (*p <= ' ' || *p > '~') /* the token becomes part of a header line */
			error = EINVAL;
	}
	if (error == 0)
		error = start == end ? ENODATA : len > API_TOKEN_MAX ? EFBIG : 0;
	char *token = error ? NULL : xstrndup(start, (size_t)(end - start));
	explicit_bzero(buf, API_TOKEN_MAX + 1);
	free(buf);
	errno = error;
	return token;
}

bool
api_credentials_token_refresh(struct api_credentials *c, int64_t now_ms, bool force)
{
	if (c->token_file == NULL || (now_ms < c->token_due_ms && !force))
		return false;
	char *token = read_token(c->token_file);
	int error = token != NULL ? 0 : errno;
	/* If there is no token yet, looks every second, because the kubelet may be about to mount it. */
	c->token_due_ms = now_ms + (token != NULL || c->token != NULL ? API_TOKEN_PERIOD_MS : 1000);
	if (error && error != c->token_error) {
		errno = error;
		log_warn("token %s: %s", c->token_file,
		    c->token != NULL ? "keeping the last one" : "waiting for it");
	}
	c->token_error = error;
	bool changed = token != NULL && (c->token == NULL || strcmp(token, c->token) != 0);
	if (!changed) {
		free(token);
		return false;
	}
	free(c->token);
	c->token = token;
	return true;
}

char *
api_credentials_proxy(const struct api_credentials *c, const char **from)
{
	/* the environment variables, in libcurl's order of precedence */
	static const char *const of_https[] = { "https_proxy", "HTTPS_PROXY", "all_proxy",
		"ALL_PROXY", NULL };
	static const char *const of_http[] = { "http_proxy", "all_proxy", "ALL_PROXY", NULL };
	const char *proxy = c->proxy;

	*from = "proxy-url";
	for (const char *const *name = c->https ? of_https : of_http;
	     proxy == NULL && *name != NULL; name++)
		if (given(proxy = getenv(*name)))
			*from = *name;
		else
			proxy = NULL;
	if (!given(proxy))
		return NULL;
	const char *at = strrchr(proxy, '@'), *scheme = strstr(proxy, "://");
	int prefix = at != NULL && scheme != NULL ? (int)(scheme + 3 - proxy) : 0;
	return xasprintf("%.*s%s", prefix, proxy, at != NULL ? at + 1 : proxy);
}

/* Whether requests may go through a proxy. */
static bool
has_proxy(const struct api_credentials *c)
{
	const char *from;
	char *proxy = api_credentials_proxy(c, &from);

	free(proxy);
	return proxy != NULL;
}

void
api_credentials_needs(const struct api_credentials *c, struct sandbox *s)
{
	const char *const files[] = { c->ca_path, c->cert_path, c->key_path, c->token_file };
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (files[i] != NULL && strncmp(files[i], "/proc/self/", 11) != 0)
			sandbox_read_replaced(s, files[i]);
	CURLU *u = curl_url();
	char *port = NULL;
	if (curl_url_set(u, CURLUPART_URL, c->url, 0) == CURLUE_OK)
		port = url_part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT);
	if (port == NULL || has_proxy(c))
		sandbox_connect_any(s);
	else
		sandbox_connect(s, (uint16_t)strtoul(port, NULL, 10));
	free(port);
	curl_url_cleanup(u);
}

void
api_credentials_free(struct api_credentials *c)
{
	for (unsigned i = 0; i < 3; i++) {
		if (c->memory[i] >= 0)
			close(c->memory[i]);
	}
	free(c->origin);
	free(c->url);
	free(c->shown_url);
	free(c->host);
	free(c->connect_to);
	free(c->ca_path);
	free(c->ca_name);
	free(c->cert_path);
	free(c->key_path);
	free(c->proxy);
	free(c->token);
	free(c->token_file);
}
