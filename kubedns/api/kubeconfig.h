/*
 * Reads the cluster and the user of a kubeconfig file's current context, like kubectl does.
 *
 * `*-data` takes precedence over paths. Paths are relative to the file. Users that need a program
 * to be run (exec, auth-provider), YAML aliases and malformed files are rejected, with advice on
 * what to do instead.
 */
#ifndef KUBEDNS_API_KUBECONFIG_H
#define KUBEDNS_API_KUBECONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A file that the kubeconfig names by path or contains as data. Both members are NULL if it does neither. */
struct kubeconfig_file {
	char *path;
	char *data; /* decoded, NUL-terminated */
	size_t len;
};

struct kubeconfig {
	char *context; /* name of the current context */
	char *server;
	char *tls_server_name; /* NULL: the name in `server` */
	char *proxy_url;       /* NULL: none */
	bool insecure;         /* insecure-skip-tls-verify */
	struct kubeconfig_file ca, cert, key;
	char *token;      /* NULL: none */
	char *token_file; /* NULL: none; takes precedence over `token` */
};

/*
 * Reads `in`, which was opened from `path`. Returns 0, or -EINVAL and sets `*why` (the caller frees
 * it) to a text such as `current-context "x": no such context`. The caller frees `config` with
 * kubeconfig_free() in both cases.
 */
int kubeconfig_read(FILE *in, const char *path, struct kubeconfig *config, char **why);

void kubeconfig_free(struct kubeconfig *config);

/*
 * Decodes base64 (RFC 4648 section 4, ignoring white space) into new memory and adds a NUL. Returns
 * NULL if the text is invalid.
 */
char *kubeconfig_base64(const char *text, size_t *len);

#endif
