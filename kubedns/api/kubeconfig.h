/*
 * A kubeconfig file: the cluster and the user of its current context, as kubectl reads them.
 *
 * `*-data` wins over paths; paths are relative to the file. Users that need a program to be run
 * (exec, auth-provider), YAML aliases and malformed files are refused, with what to do instead.
 */
#ifndef KUBEDNS_API_KUBECONFIG_H
#define KUBEDNS_API_KUBECONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A file's content given in place, or its path; neither: not given. */
struct kubeconfig_file {
	char *path;
	char *data; /* decoded, NUL-terminated */
	size_t len;
};

struct kubeconfig {
	char *context; /* its name */
	char *server;
	char *tls_server_name; /* NULL: the server's own */
	char *proxy_url;       /* NULL: none */
	bool insecure;         /* insecure-skip-tls-verify */
	struct kubeconfig_file ca, cert, key;
	char *token;      /* NULL: none */
	char *token_file; /* NULL: none; wins over `token` */
};

/*
 * Reads `in`, which was opened as `path`. 0, or -EINVAL with `*why` (caller frees) such as
 * `current-context "x": no such context`. Caller frees `config` with kubeconfig_free in both cases.
 */
int kubeconfig_read(FILE *in, const char *path, struct kubeconfig *config, char **why);

void kubeconfig_free(struct kubeconfig *config);

/*
 * Decodes base64 (RFC 4648 section 4, white space ignored) into fresh memory with a NUL after it;
 * NULL if it is not that.
 */
char *kubeconfig_base64(const char *text, size_t *len);

#endif
