/*
 * The contract of modules. A module is a feature in a folder of its own, kubedns/modules/NAME. The
 * core does not name any module. To delete a module, delete this folder, tests/modules/NAME, and
 * the module's line in kubedns/modules/list.
 *
 *	command line --> check() --> open() --> confine() --> start() --> the main loop: --> stop() --> stopped()
 *	                             |                        |           snapshot_complete()|          |
 *	                             the workers do not       in the      period()           before     the workers have ended,
 *	                             exist yet                sandbox     metrics()          workers    their rings still exist
 *
 * The module defines one `const struct module module_NAME`. module.mk in its folder tells make what
 * the module needs. Each hook may be NULL. After check(), the core calls only hooks of modules that are
 * enabled, so a module that is disabled costs nothing. A module may include headers of the core
 * (tests/lint.sh has the list), but none of another module.
 *
 * Threads. The workers call the functions of `stages` and `messages`, several workers at the same time,
 * from workers_start() until workers_stop(), thus after start() and until after stop(). Each call is
 * within a read section of the trees, which nothing of a tree may outlive. These functions must not
 * block, and a stage must not allocate. For the page /explain, the main thread calls stages, too. The
 * main thread calls all other hooks, one at a time. They must not block for long either, because the
 * main thread reads the API and answers HTTP.
 *
 * Lifetimes. The options exist from before check() until after stopped(). Only check() may change
 * them. The state is that of open(): NULL before it, and never changed or freed by the core. What the
 * core lends (struct module_core) outlives stopped(), with two exceptions: the workers end before
 * stopped(), which may only read their rings, and `listener` is the module's own.
 */
#ifndef KUBEDNS_MODULE_H
#define KUBEDNS_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubedns/cluster/tree_content.h"
#include "lib/flags.h"

struct addr;
struct answer_config;
struct dname;
struct message_handler;
struct metrics;
struct ring_listener;
struct sandbox;
struct stage;
struct treecache;
struct workers;

/* What check() gets. */
struct module_given {
	const struct flags_common *flags;
	const struct dname *zone; /* --domain, lower case */
};

/* What the core must do for the module. check() sets the members, which are 0 before. The core does
 * what at least one enabled module wants. */
struct module_wants {
	bool enabled;
	/* The workers' rings (serve/observe/ring.h) exist, and record whole messages. */
	bool messages;
	/* A label of namespaces. stage->namespace_flag is the flag of the nodes of namespaces whose label
	 * has this value. At most one enabled module may want a label. */
	struct namespace_label namespace_label;
};

/* Properties of flags (HAS() in lib/flags.h). Flags of the core exclude properties, because they do not
 * know the flags of modules. */
#define SHOWS_EVERYTHING "shows everything" /* shows names of all namespaces to its clients */

/* What the core lends to the modules, until stopped() has returned. */
struct module_core {
	/* The configuration of answers: zones (answer/zones.h), and the name and version of this
	 * server. */
	const struct answer_config *answers;
	struct treecache *tree;       /* the cluster's tree; the main thread is its writer */
	const struct addr *addresses; /* --dns-bind-address */
	size_t address_count;
	const struct workers *workers; /* NULL before start() */
	/* With wants->messages: open() may set this to a listener, which the workers wake. At
	 * most one module may do so. */
	struct ring_listener *listener;
};

struct module {
	const char *name; /* the name of the folder */

	/* Rows of the command line, as in kubedns/config/options.c, with offsets in the module's own
	 * options. The options have `options_size` bytes. The core allocates and frees them. */
	const struct flag *flags;
	size_t options_size;

	/* Reads the values, and sets wants->enabled. A module without check() is never enabled. Returns
	 * 0, or -EINVAL after a line for each mistake (flags_refuse()). --check ends after this. */
	int (*check)(void *options, const struct module_given *given, struct module_wants *wants);

	/* Stages of answering (answer/stage.h). They get names that the cluster's zone does not have,
	 * after the core's stage for such names (ORDER_MISSING). If lookup->asked is false, the name is
	 * the target of an alias. Each stage has `sentence` or `explain`, for explanations. A stage may
	 * try several names for a query, also at other servers (struct claim in answer/answer.h). */
	const struct stage *stages;
	size_t stage_count;

	size_t counters; /* number of counters for each worker, which stage_count() increments */

	/* Messages that the module answers instead of the stages, or NULL (answer/message.h). */
	const struct message_handler *messages;

	/* Opens sockets and files. Returns the module's state, which the following hooks get. */
	void *(*open)(const void *options, struct module_core *core);

	/* Adds the files and ports that the module needs after startup. Returns the permissions of
	 * enum sandbox_keep that it needs in addition. */
	unsigned (*confine)(void *state, struct sandbox *sandbox);

	/* Starts threads. */
	void (*start)(void *state, const struct module_core *core);

	/* The published trees do not change any more under their serial, because the second of that
	 * serial is over. Called before the next publish, and only after the first sync. */
	void (*snapshot_complete)(void *state);

	/* Called every --config-period, to read files again. */
	void (*period)(void *state);

	/* Writes metric families. `counters` are the sums of all workers. */
	void (*metrics)(void *state, const uint64_t *counters, struct metrics *m);

	/* Ends the work for clients, such as sending on connections that the module has taken over. It
	 * need not return them. The workers may still call the functions of `stages` and `messages`.
	 * Called after every open(), even if start() was not. */
	void (*stop)(void *state);

	/* Ends threads, and frees the state. The rings of the workers, the tree and the configuration
	 * still exist. Called after every open(), even if start() was not. */
	void (*stopped)(void *state);
};

/* The modules of this build, and the flags of modules that are not in this build: rows of
 * FLAG_ABSENT. modules/table.sh generates both lists, which end with NULL. */
extern const struct module *const modules_built_in[];
extern const struct flag modules_absent_flags[];

#endif
