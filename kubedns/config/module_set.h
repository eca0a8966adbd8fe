/*
 * The modules of this build: their flags and options, and the calls of the hooks of those that are
 * enabled (kubedns/module.h). The core walks over the modules here and in no other place.
 */
#ifndef KUBEDNS_CONFIG_MODULE_SET_H
#define KUBEDNS_CONFIG_MODULE_SET_H

#include "kubedns/answer/message.h"
#include "kubedns/answer/stage.h"
#include "kubedns/module.h"

struct module_instance {
	const struct module *module;
	void *options, *state;
	struct module_wants wants;
	bool open;                       /* open() has been called */
	struct stage *stages;            /* the module's stages, with what the core sets in them */
	struct message_handler messages; /* the module's handler, with the state */
	size_t first_counter;
};

struct module_set {
	struct module_instance *instances; /* all modules of this build, in the order of the list */
	size_t count;
	/* Of the enabled modules: their stages and handlers for struct answer_config, and the number of
	 * their counters. */
	const struct stage **stages;
	const struct message_handler **handlers;
	size_t counters;
	struct module_wants wants; /* what at least one of them wants */
	struct flag *flags;        /* the core's rows and the modules' */
	char *names;               /* "modules: a b\n", for --version */
};

/* Allocates the options of all modules, and joins the rows of the core with the rows of the
 * modules. */
void modules_init(struct module_set *set, const struct flag *core_flags);

/* Returns 0, or -EINVAL if a check() returns an error. Calls all of them. */
int modules_check(struct module_set *set, const struct module_given *given);

/* Adds the stages and message handlers of the enabled modules to the configuration, and counts their
 * counters. */
void modules_add_answers(struct module_set *set, struct answer_config *config);

void modules_open(struct module_set *set, struct module_core *core);
unsigned modules_confine(const struct module_set *set, struct sandbox *sandbox);
void modules_start(const struct module_set *set, const struct module_core *core);

/* The hooks of kubedns/module.h. */
bool modules_take_snapshots(const struct module_set *set); /* whether one has snapshot_complete() */
void modules_snapshot_complete(const struct module_set *set);
void modules_period(const struct module_set *set);
void modules_stop(const struct module_set *set);

/* `counters` are set->counters sums of all workers. */
void modules_metrics(const struct module_set *set, const uint64_t *counters, struct metrics *m);

/* Calls stopped() of each module that was opened. */
void modules_stopped(struct module_set *set);

/* Frees the options and the rows, after flags_free(). */
void modules_free(struct module_set *set);

#endif
