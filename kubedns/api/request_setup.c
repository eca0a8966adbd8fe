/* Sets up a request: its connection, the verification of the server, and its headers. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kubedns/api/resource_watch.h"
#include "lib/log.h"
#include "lib/xalloc.h"

enum {
	CONNECT_TIMEOUT_MS = 10000,
	/*
	 * A half-open connection is detected after a silence of at most USER_TIMEOUT_MS plus
	 * KEEP_INTERVAL_S, together 25 s. If only our packets are lost and the server has data to
	 * send, the server retransmits at doubling intervals, and each retransmission ends a
	 * silence. An interval of more than 25 s then starts within another 50 s. Detection
	 * therefore takes at most 75 s.
	 */
	KEEP_IDLE_S = 10,
	KEEP_INTERVAL_S = 5,
	USER_TIMEOUT_MS = 20000,
};

/*
 * Enables keepalive, to detect a dead peer soon. If a user timeout is set, the kernel ignores the
 * number of probes.
 */
static int
on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	(void)arg;
	(void)purpose;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ KEEP_IDLE_S }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){ KEEP_INTERVAL_S }, sizeof(int));
	setsockopt(
	    fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &(unsigned){ USER_TIMEOUT_MS }, sizeof(unsigned));
	return CURL_SOCKOPT_OK;
}

/*
 * Watches libcurl's debug output, which is the only place where it reports a GOAWAY. An API server
 * that is stopping sends one at once, while its open watches stay silent for up to a minute. It also
 * sends one with each 401.
 */
static int
on_debug(CURL *easy, curl_infotype type, char *text, size_t len, void *arg)
{
	struct resource_watch *s = arg;

	(void)easy;
	if (type == CURLINFO_TEXT && memmem(text, len, "GOAWAY", 6) != NULL)
		s->watch->goaway = true;
	return 0;
}

static void
add_header(struct resource_watch *s, const char *line)
{
	struct curl_slist *more = curl_slist_append(s->headers, line);

	if (more == NULL)
		log_fatalx("out of memory");
	s->headers = more;
}

void
api_request_clear(struct resource_watch *s)
{
	for (struct curl_slist *h = s->headers; h != NULL; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	curl_slist_free_all(s->headers);
	curl_slist_free_all(s->connect_to);
	s->headers = s->connect_to = NULL;
}

static void
set_headers(struct resource_watch *s)
{
	const struct api_credentials *c = &s->watch->server;

	add_header(s, "Accept: application/json");
	if (c->host != NULL)
		add_header(s, c->host);
	if (c->token != NULL) {
		char *line = xasprintf("Authorization: Bearer %s", c->token);

		add_header(s, line);
		explicit_bzero(line, strlen(line));
		free(line);
	}
	curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, s->headers);
	curl_easy_setopt(s->easy, CURLOPT_USERAGENT, s->watch->user_agent);
	if (s->verb == API_VERB_LIST)
		curl_easy_setopt(s->easy, CURLOPT_ACCEPT_ENCODING, "gzip");
}

static void
set_connection(struct resource_watch *s)
{
	const struct api_credentials *c = &s->watch->server;
	CURL *e = s->easy;

	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	curl_easy_setopt(e, CURLOPT_PIPEWAIT, c->https ? 1L : 0L);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, on_socket);
	curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, s->fresh ? 1L : 0L);
	curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	/* A resumed session does not verify the certificate, so a rotated CA would be ignored. */
	curl_easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, 60L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, c->insecure ? 0L : 1L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, c->insecure ? 0L : 2L);
	if (c->ca_path != NULL)
		curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_path);
	if (c->ca_path != NULL)
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	if (c->cert_path != NULL) {
		curl_easy_setopt(e, CURLOPT_SSLCERT, c->cert_path);
		curl_easy_setopt(e, CURLOPT_SSLKEY, c->key_path);
	}
	if (c->proxy != NULL)
		curl_easy_setopt(e, CURLOPT_PROXY, c->proxy);
	if (c->connect_to != NULL) {
		s->connect_to = curl_slist_append(NULL, c->connect_to);
		curl_easy_setopt(e, CURLOPT_CONNECT_TO, s->connect_to);
	}
}

void
api_request_setup(struct resource_watch *s)
{
	curl_easy_setopt(s->easy, CURLOPT_VERBOSE, 1L); /* needed for on_debug() */
	curl_easy_setopt(s->easy, CURLOPT_DEBUGFUNCTION, on_debug);
	curl_easy_setopt(s->easy, CURLOPT_DEBUGDATA, s);
	set_connection(s);
	set_headers(s);
}
