/*
 * The operator's arguments, in the form of dnsmasq's command line. Every engine reads this form, so
 * that the manifests of kube-dns work with each of them. Pure.
 *
 * For dnsmasq, the operator's arguments come first in argv, unchanged and in order. Arguments that
 * would break supervision are dropped with a warning. argv is built once and never changes.
 */
#ifndef NANNY_ARGS_H
#define NANNY_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "nanny/servers/domain_table.h"

enum {
	ARGS_LISTEN_MAX = 32,
};

/* One of the operator's arguments. */
struct arg {
	char *name;  /* without dashes; one letter for an option that args.c does not know */
	char *value; /* "" without a value */
};

struct args {
	char **argv; /* NULL-terminated, for exec */
	size_t argc;
	char **warnings; /* one for each dropped argument */
	size_t warning_count;
	unsigned tcp_max;  /* maximum number of TCP connections; 0 if not given */
	struct arg *given; /* the operator's arguments, without dropped ones */
	size_t given_count;
	char **reads, **writes; /* files and directories named by the arguments; NULL-terminated */
	size_t read_count, write_count;
	uint16_t port; /* port that dnsmasq listens on */
	struct addr listen[ARGS_LISTEN_MAX];
	size_t listen_count; /* 0 means all addresses */
	/* domains and servers of --server=/domain/...; the domain "" contains the default servers */
	struct domain_table fixed;
};

/*
 * Parses the `count` arguments in `given`. Begins argv with `exec` and the arguments that are not
 * dropped. Returns 0, or -EINVAL with one line in `why` (caller frees). Caller frees `args` with
 * args_free.
 */
int args_parse(struct args *args, const char *exec, char *const *given, size_t count, char **why);
void args_free(struct args *args);

/* Whether the operator gave the option with this long name. */
bool args_has(const struct args *args, const char *name);

/* Empties argv and begins it again with `exec`. */
void args_replace_argv(struct args *args, const char *exec);

/* Appends an argument to argv. Takes `taken`. */
void args_push(struct args *args, char *taken);

/*
 * Whether clients query this dnsmasq directly (the classic topology). Returns true if the arguments
 * forward the cluster domain to any server, or any domain to kubedns. In all other cases, clients
 * query kubedns, and kubedns queries dnsmasq.
 */
bool args_asked_first(const struct args *args, const char *domain, const struct server *kubedns);

/* The address and port at which the nanny probes dnsmasq. */
struct server args_probe_server(const struct args *args);

#endif
