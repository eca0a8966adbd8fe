#include "kubedns/config/module_set.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/tree_content.h"
#include "lib/xalloc.h"

/* The heading of the modules' flags in --help, and the core's heading that follows. */
static const struct flag heading = { "Modules", .type = FLAG_GROUP };
static const char next_heading[] = "Commands";

static void
add_row(struct module_set *set, size_t *count, const struct flag *row, void *base)
{
	set->flags = xreallocarray(set->flags, *count + 1, sizeof *set->flags);
	set->flags[*count] = *row;
	set->flags[(*count)++].base = base;
}

static void
add_rows(struct module_set *set, size_t *count, const struct flag *rows, void *base)
{
	for (; rows->name != NULL; rows++)
		add_row(set, count, rows, base);
}

static void
join_flags(struct module_set *set, const struct flag *core_flags)
{
	size_t count = 0;

	for (const struct flag *f = core_flags; f->name != NULL; f++) {
		if (strcmp(f->name, next_heading) == 0 && set->count > 0) {
			add_row(set, &count, &heading, NULL);
			for (size_t i = 0; i < set->count; i++)
				if (set->instances[i].module->flags != NULL)
					add_rows(set, &count, set->instances[i].module->flags,
					    set->instances[i].options);
		}
		add_row(set, &count, f, NULL);
	}
	add_rows(set, &count, modules_absent_flags, NULL);
	add_row(set, &count, &(struct flag){ .name = NULL }, NULL);
}

void
modules_init(struct module_set *set, const struct flag *core_flags)
{
	*set = (struct module_set){ .names = xstrdup("modules:") };
	while (modules_built_in[set->count] != NULL)
		set->count++;
	set->instances = xcalloc(set->count + 1, sizeof *set->instances);
	for (size_t i = 0; i < set->count; i++) {
		struct module_instance *instance = &set->instances[i];

		instance->module = modules_built_in[i];
		instance->options = xcalloc(1, instance->module->options_size + 1);
		char *longer = xasprintf("%s %s", set->names, instance->module->name);
		free(set->names);
		set->names = longer;
	}
	char *line = xasprintf("%s%s\n", set->names, set->count == 0 ? " none" : "");
	free(set->names);
	set->names = line;
	join_flags(set, core_flags);
}

/* Adds what an enabled module wants to what the core must do. */
static void
join_wants(struct module_wants *all, const struct module_wants *one)
{
	all->messages |= one->messages;
	if (one->namespace_label.key != NULL) {
		assert(all->namespace_label.key == NULL); /* NODE_LABELLED is one flag */
		all->namespace_label = one->namespace_label;
	}
}

int
modules_check(struct module_set *set, const struct module_given *given)
{
	int rc = 0, result;

	for (size_t i = 0; i < set->count; i++) {
		struct module_instance *m = &set->instances[i];

		if (m->module->check != NULL &&
		    (result = m->module->check(m->options, given, &m->wants)) < 0)
			rc = result;
		if (m->wants.enabled)
			join_wants(&set->wants, &m->wants);
	}
	return rc;
}

/* Makes the module's stages, and adds them to the list. */
static void
add_stages(struct module_set *set, struct module_instance *m, size_t *count)
{
	m->stages = xcalloc(m->module->stage_count + 1, sizeof *m->stages);
	for (size_t i = 0; i < m->module->stage_count; i++) {
		struct stage *stage = &m->stages[i];

		*stage = m->module->stages[i];
		stage->order = ORDER_MISSING;
		stage->options = m->options;
		stage->first_counter = m->first_counter;
		stage->namespace_flag = NODE_LABELLED;
		assert(stage->lengths != NULL);
		assert(stage->sentence != NULL || stage->explain != NULL);
		set->stages[(*count)++] = stage;
	}
}

void
modules_add_answers(struct module_set *set, struct answer_config *config)
{
	size_t stages = 0, added = 0, handlers = 0;

	for (size_t i = 0; i < set->count; i++)
		stages += set->instances[i].module->stage_count;
	/* The lists end with NULL. */
	set->stages = xcalloc(stages + 1, sizeof(const struct stage *));
	set->handlers = xcalloc(set->count + 1, sizeof(const struct message_handler *));
	for (size_t i = 0; i < set->count; i++) {
		struct module_instance *m = &set->instances[i];

		if (!m->wants.enabled)
			continue;
		m->first_counter = set->counters;
		set->counters += m->module->counters;
		if (m->module->messages != NULL) {
			m->messages = *m->module->messages;
			set->handlers[handlers++] = &m->messages;
		}
		add_stages(set, m, &added);
	}
	config->module_stages = set->stages;
	config->handlers = set->handlers;
}

void
modules_open(struct module_set *set, struct module_core *core)
{
	for (size_t i = 0; i < set->count; i++) {
		struct module_instance *m = &set->instances[i];

		if (!m->wants.enabled)
			continue;
		struct ring_listener *before = core->listener;
		if (m->module->open != NULL)
			m->state = m->module->open(m->options, core);
		assert(before == NULL || core->listener == before); /* a ring wakes one listener */
		for (size_t s = 0; s < m->module->stage_count; s++)
			m->stages[s].state = m->state;
		m->messages.state = m->state;
		m->open = true;
	}
}

unsigned
modules_confine(const struct module_set *set, struct sandbox *sandbox)
{
	unsigned keeps = 0;

	for (size_t i = 0; i < set->count; i++)
		if (set->instances[i].open && set->instances[i].module->confine != NULL)
			keeps |=
			    set->instances[i].module->confine(set->instances[i].state, sandbox);
	return keeps;
}

void
modules_start(const struct module_set *set, const struct module_core *core)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->instances[i].open && set->instances[i].module->start != NULL)
			set->instances[i].module->start(set->instances[i].state, core);
}

bool
modules_take_snapshots(const struct module_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->instances[i].open && set->instances[i].module->snapshot_complete != NULL)
			return true;
	return false;
}

void
modules_snapshot_complete(const struct module_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->instances[i].open && set->instances[i].module->snapshot_complete != NULL)
			set->instances[i].module->snapshot_complete(set->instances[i].state);
}

void
modules_period(const struct module_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->instances[i].open && set->instances[i].module->period != NULL)
			set->instances[i].module->period(set->instances[i].state);
}

void
modules_stop(const struct module_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->instances[i].open && set->instances[i].module->stop != NULL)
			set->instances[i].module->stop(set->instances[i].state);
}

void
modules_metrics(const struct module_set *set, const uint64_t *counters, struct metrics *m)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct module_instance *instance = &set->instances[i];

		if (instance->open && instance->module->metrics != NULL)
			instance->module->metrics(
			    instance->state, counters + instance->first_counter, m);
	}
}

void
modules_stopped(struct module_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		struct module_instance *m = &set->instances[i];

		if (m->open && m->module->stopped != NULL)
			m->module->stopped(m->state);
		m->open = false;
	}
}

void
modules_free(struct module_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		struct module_instance *m = &set->instances[i];

		free(m->stages);
		explicit_bzero(m->options, m->module->options_size); /* may have keys */
		free(m->options);
	}
	free(set->instances);
	free(set->stages);
	free(set->handlers);
	free(set->flags);
	free(set->names);
	*set = (struct module_set){ 0 };
}
