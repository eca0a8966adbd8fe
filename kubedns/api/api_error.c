#include "kubedns/api/api_error.h"

#include <stdlib.h>
#include <string.h>

#include "kubedns/api/resource_watch.h"
#include "lib/xalloc.h"

/* Status bits of gnutls_certificate_verify_peers2(). libcurl returns these bits, but its error text
 * is the same for all of them. */
enum { GNUTLS_NOT_YET_VALID = 1 << 9, GNUTLS_EXPIRED = 1 << 10 };

static enum api_problem
certificate_problem(const struct resource_watch *s)
{
	long verified = 0;

	curl_easy_getinfo(s->easy, CURLINFO_SSL_VERIFYRESULT, &verified);
	if (verified & GNUTLS_NOT_YET_VALID)
		return API_PROBLEM_CERTIFICATE_EARLY;
	return verified & GNUTLS_EXPIRED || strcasestr(s->curl_error, "expir") != NULL
		   ? API_PROBLEM_CERTIFICATE_EXPIRED
		   : API_PROBLEM_CERTIFICATE;
}

static char *
certificate(const struct resource_watch *s)
{
	const struct api_credentials *c = &s->watch->server;
	const char *text = s->curl_error;
	enum api_problem problem = certificate_problem(s);

	if (problem != API_PROBLEM_CERTIFICATE)
		return xasprintf(
		    "the server's certificate %s; check the clocks of both, or renew it",
		    problem == API_PROBLEM_CERTIFICATE_EARLY ? "is not valid yet" : "has expired");
	if (strstr(text, "does not match") != NULL)
		return xasprintf("the server's certificate is for another host name (%s); use a "
				 "name that it contains, or set tls-server-name in the kubeconfig",
		    text);
	return xasprintf("the server's certificate is not signed by the CA in %s; is this the CA "
			 "of this server?",
	    c->ca_name != NULL ? c->ca_name : "the system's store");
}

/* Returns the text for a failed connection to the server or to the proxy. */
static char *
not_connected(const struct resource_watch *s)
{
	const struct api_credentials *c = &s->watch->server;
	const char *from;
	char *proxy = api_credentials_proxy(c, &from);
	long os_error = 0;
	char *text;

	curl_easy_getinfo(s->easy, CURLINFO_OS_ERRNO, &os_error);
	const char *why = os_error ? strerror((int)os_error) : "no route";
	if (proxy == NULL)
		text = xasprintf("cannot connect: %s; is the API server running, and is this its "
				 "address (from %s)?",
		    why, c->origin);
	else if (c->proxy != NULL)
		text = xasprintf("cannot connect to the proxy %s (%s of the %s): %s; is the proxy "
				 "running? without it, remove %s",
		    proxy, from, c->origin, why, from);
	else
		text =
		    xasprintf("cannot connect: %s; requests go through the proxy %s (environment "
			      "variable %s) unless no_proxy has the server: are the proxy and the "
			      "API server running?",
			why, proxy, from);
	free(proxy);
	return text;
}

/* Returns the text for a connection that ended before the response. */
static char *
broken(const struct resource_watch *s)
{
	const struct api_credentials *c = &s->watch->server;
	const char *from;
	long tunnel = 0;

	curl_easy_getinfo(s->easy, CURLINFO_HTTP_CONNECTCODE, &tunnel);
	if (tunnel >= 300) {
		char *proxy = api_credentials_proxy(c, &from);
		char *text =
		    xasprintf("the proxy %s (%s) refuses the connection to the API server (%ld); "
			      "does it allow this address, and does it need a password?",
			proxy != NULL ? proxy : "", from, tunnel);

		free(proxy);
		return text;
	}
	if (!c->https && !s->status)
		return xasprintf(
		    "the connection broke before an HTTP answer; trying again; if this port "
		    "speaks https, write https:// in the server's URL (from %s)",
		    c->origin);
	return xstrdup("the connection broke; trying again");
}

/* libcurl's texts contain times and port numbers, which change with each attempt. This function
 * therefore uses them only if it has no better text. */
char *
api_error_transport(const struct resource_watch *s, CURLcode code)
{
	const struct api_credentials *c = &s->watch->server;

	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
		return xstrdup("cannot resolve the server's host name; use a name server that does "
			       "not depend on kubedns");
	case CURLE_COULDNT_RESOLVE_PROXY:
		return xstrdup("cannot resolve the proxy's host name");
	case CURLE_COULDNT_CONNECT:
		return not_connected(s);
	case CURLE_PEER_FAILED_VERIFICATION:
		return certificate(s);
	case CURLE_SSL_CACERT_BADFILE:
		return xasprintf("cannot read the CA certificate %s",
		    c->ca_name != NULL ? c->ca_name : "of the system");
	case CURLE_SSL_CERTPROBLEM:
		return xasprintf("cannot use the client certificate %s with the key %s (%s)",
		    c->cert_path, c->key_path, s->curl_error);
	case CURLE_SSL_CONNECT_ERROR:
		return xasprintf(
		    "TLS handshake failed: %s; does the server speak https?", s->curl_error);
	case CURLE_OPERATION_TIMEDOUT:
		return xstrdup("no connection within 10 s; is the address right, and does a "
			       "network policy allow it?");
	case CURLE_ABORTED_BY_CALLBACK:
		return xstrdup(s->curl_error);
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_PARTIAL_FILE:
	case CURLE_GOT_NOTHING:
	case CURLE_HTTP2:
	case CURLE_HTTP2_STREAM:
	case CURLE_UNSUPPORTED_PROTOCOL: /* the bytes are not HTTP */
		return broken(s);
	default:
		return xasprintf("%s", *s->curl_error ? s->curl_error : curl_easy_strerror(code));
	}
}

enum api_problem
api_problem_of_transport(const struct resource_watch *s, CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION ? certificate_problem(s)
						      : API_PROBLEM_UNREACHABLE;
}

enum api_problem
api_problem_of_status(int status)
{
	return status == 401   ? API_PROBLEM_UNAUTHORIZED
	       : status == 403 ? API_PROBLEM_FORBIDDEN
			       : API_PROBLEM_OTHER;
}

/* Copies `from`. If it is too long, cuts it between two words. */
static void
copy_words(char *text, size_t max, const char *from)
{
	static const char dots[] = " ...";

	if (snprintf(text, max, "%s", from) < (int)max)
		return;
	text[max - sizeof dots] = '\0';
	char *end = strrchr(text, ' ');
	strcpy(end != NULL ? end : text + max - sizeof dots, dots);
}

/* Writes the message of the Status as one line of limited length. */
static void
server_says(const struct resource_watch *s, char *text, size_t max)
{
	const char *type = NULL;

	curl_easy_getinfo(s->easy, CURLINFO_CONTENT_TYPE, &type);
	if (s->why != NULL && *s->why)
		copy_words(text, max, s->why);
	else if (type != NULL && strncmp(type, "application/json", 16) != 0)
		snprintf(text, max,
		    "the response is %s, not JSON: is there a proxy between kubedns and the API "
		    "server?",
		    type);
	else
		snprintf(text, max, "no reason given");
}

char *
api_error_status(const struct resource_watch *s)
{
	const struct api_resource *r = s->resource;
	const struct api_credentials *c = &s->watch->server;
	const char *verb = s->verb == API_VERB_WATCH ? "watch" : "list";
	char says[400];

	server_says(s, says, sizeof says);
	switch (s->status) {
	case 401:
		return xasprintf("%s is not authenticated (401): %s; %s%s", verb, says,
		    c->token_file != NULL ? "the token is refused: "
					  : "no valid token or client certificate: see ",
		    c->token_file != NULL ? c->token_file : c->origin);
	case 403:
		/* kube-apiserver reads the roles after its start. */
		if (strstr(says, "RBAC: ") != NULL && strstr(says, " not found") != NULL)
			return xasprintf(
			    "%s is forbidden (403): %s; the server knows the bindings but "
			    "not these roles: if it has just started, wait; "
			    "otherwise create the roles",
			    verb, says);
		return xasprintf(
		    "%s is forbidden (403): %s; grant list and watch of %s%s%s by RBAC "
		    "(a %s)",
		    verb, says, r->name, *r->group ? "." : "", r->group,
		    s->hosts_namespace != NULL ? "Role in this namespace" : "ClusterRole");
	case 404:
		return xasprintf("%s found nothing at %s%s (404): %s; is this the URL of a "
				 "Kubernetes API server?",
		    verb, c->shown_url, s->place, says);
	case 400:
		if (!c->https)
			return xasprintf("%s failed (400): %s; if this port speaks https, write "
					 "https:// in the server's URL (from %s)",
			    verb, says, c->origin);
		return xasprintf("%s failed (400): %s", verb, says);
	default:
		if (s->status >= 300 && s->status < 400)
			return xasprintf("%s was redirected (%d), and redirects are not followed; "
					 "give the server's own URL",
			    verb, s->status);
		return xasprintf("%s failed (%d): %s", verb, s->status, says);
	}
}
