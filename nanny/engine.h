/*
 * An engine is the DNS server that the nanny runs as its child. The core of the nanny decides what is
 * wanted, whether the child has it, and whether the child is healthy. It knows the child's program
 * only through this header. nanny/dnsmasq/ and nanny/unbound/
 * implement it.
 *
 *	prepare -> plan, render -> (the core writes the file and starts the program)
 *	change:    plan, render -> (the core writes the file) -> apply -> confirmed
 *	at every turn of the loop: run; next_ms and fd say when the next turn is due
 *	end: died, finish
 *
 * The core confirms a configuration in the same way for all engines: the file has a marker domain
 * (servers/servers_file.h), and a query for it arrives at the nanny. `version.bind` shows that the
 * child answers. A pointer to a function may be NULL if its comment allows it.
 */
#ifndef NANNY_ENGINE_H
#define NANNY_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/addr.h"
#include "lib/log.h"
#include "nanny/servers/servers_file.h"

struct conf_key;
struct metrics;
struct nanny;
struct options;
struct process;
struct sandbox;

enum engine_exit {
	ENGINE_EXIT_OTHER,
	ENGINE_EXIT_ARGUMENTS, /* a restart cannot help: the operator must correct an argument */
	ENGINE_EXIT_NETWORK,   /* another process may have the port */
};

/* Counts since the start of the child. */
struct engine_cache {
	double hits;   /* queries answered from the cache */
	double misses; /* queries for which the cache had no answer */
};

struct engine {
	const char *name;      /* the value of --engine; messages begin with it */
	const char *package;   /* Debian package with the program, for advice */
	const char *exec_flag; /* the flag that sets the program's path, for advice */
	bool has_tls;          /* the engine encrypts queries to tls:// servers. If not, the core
				* refuses a ConfigMap key with such a server */

	unsigned
	    keep; /* rights (enum sandbox_keep) that the nanny and the child need in addition */

	/* Returns the child's limit of open files, or 0 for the nanny's own limit. A limit above the
	 * nanny's own has no effect. May be NULL, which means 0. */
	unsigned (*files)(const struct nanny *nanny);

	/* Returns the path of the program. */
	const char *(*exec)(const struct options *options);

	/* Completes nanny->args for a program that reads its configuration from `file`. Refuses a
	 * program that the nanny cannot use. Returns the exit code, 0 for success, after one log
	 * line. */
	int (*prepare)(struct nanny *nanny, const char *file);

	/* Reads the engine's own files again, at every -syncInterval. Returns true if the servers file
	 * must change. May be NULL. */
	bool (*inputs_changed)(struct nanny *nanny);

	/* Returns the state of the engine's own file, and the name by which metrics and pages show it
	 * beside the keys of the ConfigMap. Returns NULL if no such file is in use. May be NULL. */
	const struct conf_key *(*file_key)(const struct nanny *nanny, const char **name);

	/* Plans the contents of the file: for a new child (`fresh`), or for the running child, whose
	 * file is nanny->written. `nobody` answers names that no server is left for. The core also
	 * plans to see whether the file would change, so a plan counts and logs nothing, except for the
	 * engine's own file: unbound reads and checks it when the first tls:// server appears. Caller
	 * frees with servers_free. */
	struct servers_file (*plan)(struct nanny *nanny, const struct domain_table *wanted,
	    const struct server *nobody, bool fresh);

	/* Returns the text of the file. The marker domain's server is the address of `generation` at
	 * `port`; no marker if `port` is 0. Caller frees. */
	char *(*render)(const struct nanny *nanny, const struct servers_file *file,
	    uint32_t generation, uint16_t port, size_t *len);

	/* Tells the running child to use the file. May be called again for the same file. */
	void (*apply)(struct nanny *nanny);

	/* Called when the child has confirmed the file: after apply() if nanny->reloading, otherwise
	 * after its start. */
	void (*confirmed)(struct nanny *nanny, int64_t now_ms);

	/* Called when the sidecar reports that a server answers again after a failure. Makes the child
	 * forget which servers it avoids. May be NULL, if the child tries such servers soon anyway. */
	void (*recovered)(struct nanny *nanny);

	/* Called when the child has ended. */
	void (*died)(struct nanny *nanny);

	/* run() does what is due. next_ms() returns the time of the next call of run(). fd() returns a
	 * descriptor whose input also makes run() due, or -1. */
	void (*run)(struct nanny *nanny, int64_t now_ms);
	int64_t (*next_ms)(const struct nanny *nanny);
	int (*fd)(const struct nanny *nanny);

	/* Makes the child log its statistics. */
	void (*log_statistics)(struct nanny *nanny);

	/* Returns the counts of the child's cache, as of at most some seconds ago. NULL for dnsmasq,
	 * whose counts the sidecar reads. */
	struct engine_cache (*cache)(const struct nanny *nanny);

	/* Writes metrics that only this engine has. */
	void (*metrics)(const struct nanny *nanny, struct metrics *m);

	/* Permits in the child's sandbox, and in the nanny's, what only this engine needs. May be
	 * NULL. */
	void (*sandbox)(const struct nanny *nanny, struct sandbox *s, bool child);

	/* Returns the message in a line of the child's log, and sets its level. Stores the version
	 * in `process` if the line has it. */
	const char *(*log_line)(struct process *process, const char *line, enum log_level *level);

	/* Say what the exit of the child in `process` means: for the nanny, and for people. */
	enum engine_exit (*exit_kind)(const struct process *process);
	const char *(*exit_meaning)(const struct process *process);

	/* Frees what prepare() made. */
	void (*finish)(struct nanny *nanny);
};

extern const struct engine dnsmasq_engine, unbound_engine;

#endif
