/*
 * Finds the address of the API server and the credentials for it. They come from the pod's
 * environment, a kubeconfig or --kube-master-url.
 *
 *	KUBERNETES_SERVICE_HOST, _PORT, serviceaccount/{token,ca.crt}  --+
 *	kubeconfig: cluster and user of the current context            --+--> struct api_credentials
 *	--kube-master-url (overrides the server)                       --+    --> libcurl handles
 *
 * libcurl gets the paths of the files and reads them for each new connection, so a rotated CA or
 * client certificate takes effect at once. Inline data of a kubeconfig is written to sealed memory
 * files with paths /proc/self/fd/N, because libcurl with GnuTLS does not accept data in memory.
 */
#ifndef KUBEDNS_API_API_CREDENTIALS_H
#define KUBEDNS_API_API_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

enum { API_TOKEN_PERIOD_MS = 30000, API_TOKEN_MAX = 64 << 10 };

struct api_credentials {
	char *origin;     /* for messages: "in-cluster", "kubeconfig FILE", "--kube-master-url" */
	char *url;        /* https://host:port/prefix, no final slash; libcurl verifies this host */
	char *shown_url;  /* the URL as the operator wrote it */
	char *host;       /* Host header, used if `url` contains the tls-server-name; else NULL */
	char *connect_to; /* libcurl's CONNECT_TO entry; NULL if `host` is NULL */
	char *ca_path;    /* NULL: use the system's certificates */
	char *ca_name;    /* name of the CA file or data, for messages */
	char *cert_path, *key_path; /* NULL: none */
	/* "": use no proxy, even if the environment names one; NULL: use the environment's proxy */
	char *proxy;
	bool https, insecure;
	int memory[3];        /* file descriptors of memory files for ca, cert, key; -1: none */
	char *token;          /* the last valid token; NULL: none */
	char *token_file;     /* NULL: none */
	int64_t token_due_ms; /* monotonic time at which to read the token file again */
	int token_error;      /* errno of the last read, or 0 */
};

struct api_credentials_source {
	const char *kubecfg_file, *master_url; /* NULL or "" if the flag is not given */
	const char *serviceaccount_dir;        /* directory of the credentials; NULL: the directory
					        * that the kubelet mounts */
};

/*
 * Fills in `c`. Returns 0, or -EINVAL after it has logged one line with the mistake and the fix.
 * The caller frees `c` with api_credentials_free() in both cases.
 */
int api_credentials_find(struct api_credentials *c, const struct api_credentials_source *source);

/*
 * Reads the token file again if it is due, or, with `force`, at once (after a 401). Returns true if
 * the token changed. If the file is unreadable or empty, the last valid token stays in use, and the
 * failure is logged once.
 */
bool api_credentials_token_refresh(struct api_credentials *c, int64_t now_ms, bool force);

/* Whether requests are possible: the token has been read, or the configuration has no token file. */
bool api_credentials_has_token(const struct api_credentials *c);

/*
 * Returns the proxy that requests may use, without its password. The proxy comes from the
 * kubeconfig's proxy-url or from an environment variable. Returns NULL if there is none. Sets
 * `from` to a static string that names the source. The caller frees the result.
 */
char *api_credentials_proxy(const struct api_credentials *c, const char **from);

struct sandbox;

/* Allows in the sandbox the files that are read again and the server's TCP port. If there is a
 * proxy, allows every port. */
void api_credentials_needs(const struct api_credentials *c, struct sandbox *s);

void api_credentials_free(struct api_credentials *c);

/*
 * Replaces ${NAME} and $NAME by environment variables ("" if unset), like Go's os.ExpandEnv. The
 * caller frees the result.
 */
char *api_credentials_expand(const char *text);

#endif
