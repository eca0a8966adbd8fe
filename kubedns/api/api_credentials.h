/*
 * Where the API server is, and the credentials for it: in-cluster, from a kubeconfig, or by
 * --kube-master-url.
 *
 *	KUBERNETES_SERVICE_HOST, _PORT, serviceaccount/{token,ca.crt}  --+
 *	kubeconfig: cluster and user of the current context            --+--> struct api_credentials
 *	--kube-master-url (overrides the server)                       --+    --> libcurl handles
 *
 * libcurl gets the paths of the files and reads them at each new connection, so a rotated CA or
 * client certificate is used at once. Data that a kubeconfig has inline is put into sealed memory
 * files, whose paths are /proc/self/fd/N, since libcurl with GnuTLS takes no blobs.
 */
#ifndef KUBEDNS_API_API_CREDENTIALS_H
#define KUBEDNS_API_API_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

enum { API_TOKEN_PERIOD_MS = 30000, API_TOKEN_MAX = 64 << 10 };

struct api_credentials {
	char *origin;     /* for messages: "in-cluster", "kubeconfig FILE", "--kube-master-url" */
	char *url;        /* https://host:port/prefix, no final slash; libcurl verifies this host */
	char *shown_url;  /* the same as the operator wrote it */
	char *host;       /* Host header where `url` names the tls-server-name; else NULL */
	char *connect_to; /* libcurl's CONNECT_TO entry for the same; else NULL */
	char *ca_path;    /* NULL: the system's */
	char *ca_name;    /* the same for messages */
	char *cert_path, *key_path; /* NULL: none */
	char *proxy; /* "": none whatever the environment says; NULL: as the environment says */
	bool https, insecure;
	int memory[3];        /* memory files of ca, cert, key; -1: none */
	char *token;          /* the last good one; NULL: none */
	char *token_file;     /* NULL: none */
	int64_t token_due_ms; /* when to read it again */
	int token_error;      /* errno of the last read; 0: good */
};

struct api_credentials_source {
	const char *kubecfg_file, *master_url; /* NULL or "": not given */
	const char *serviceaccount_dir;        /* NULL: where the kubelet mounts it */
};

/*
 * Fills `c`; 0, or -EINVAL after one log line with what is wrong and what to do. Caller frees with
 * api_credentials_free in both cases.
 */
int api_credentials_find(struct api_credentials *c, const struct api_credentials_source *source);

/*
 * Reads the token file again if it is due, or now with `force` (after a 401). True if the token
 * changed. A failed or empty read keeps the last good one and is logged once.
 */
bool api_credentials_token_refresh(struct api_credentials *c, int64_t now_ms, bool force);

/* Whether a request can be made: there is a token, or none is needed. */
bool api_credentials_has_token(const struct api_credentials *c);

/*
 * The proxy that requests may go through: the kubeconfig's proxy-url, or that of an environment
 * variable, without a password, and in `from` where it comes from. NULL without one. Caller frees
 * the result; `from` is static.
 */
char *api_credentials_proxy(const struct api_credentials *c, const char **from);

struct sandbox;

/* Adds the files that are read again and the port that is connected to; any port where there is a
 * proxy. */
void api_credentials_needs(const struct api_credentials *c, struct sandbox *s);

void api_credentials_free(struct api_credentials *c);

/*
 * The text with ${NAME} and $NAME replaced by environment variables ("" where unset), as Go's
 * os.ExpandEnv. Caller frees.
 */
char *api_credentials_expand(const char *text);

#endif
