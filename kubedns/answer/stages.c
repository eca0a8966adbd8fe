#include "kubedns/answer/stages.h"

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/stage.h"

static const struct stage *const table[STAGE_COUNT] = {
#define STAGE_ROW(id, text) [STAGE_##id] = &stage_##id,
	STAGES(STAGE_ROW)
#undef STAGE_ROW
};

/* The next free places in the lists. */
struct places {
	unsigned context, missing, outside;
};

static void
add_stage(struct answer_config *config, struct places *at, const struct stage *stage)
{
	struct stages *stages = &config->stages;

	if (stage->order == ORDER_CONTEXT)
		stages->context[at->context++] = stage;
	if (stage->order == ORDER_MISSING) {
		stages->missing[at->missing++] = stage;
		stages->missing_lengths |= stage->lengths(config->stage_config[stage->id]);
	}
	if (stage->order == ORDER_OUTSIDE || stage->order == ORDER_BESIDE)
		stages->outside[at->outside++] = stage;
}

void
lookup_report(struct lookup *l, enum stage_id stage, unsigned kind, const void *object)
{
	struct answer_reason *reason = l->reply->reason;

	if (reason->stage != STAGE_COUNT || !l->asked)
		return;
	reason->stage = stage;
	reason->kind = kind;
	reason->object = object;
	reason->name = name_copy(&reason->name_buf, l->name.wire, l->name.len);
	reason->below = l->below;
	if (object != &l->resolved)
		return;
	reason->resolved = l->resolved;
	reason->object = &reason->resolved;
}

void
stages_build(struct answer_config *config)
{
	static const struct stage *const none[] = { NULL };
	const struct external_zones *external = external_config(config);
	bool beside_only = external != NULL && external->alone;
	const struct stage *const *modules =
	    config->module_stages == NULL || beside_only ? none : config->module_stages;
	struct places at = { 0 };

	config->stages = (struct stages){ .beside_only = beside_only, .modules = modules };
	for (unsigned i = 0; i < STAGE_COUNT; i++) {
		if (config->stage_config[i] == NULL)
			config->stage_config[i] = table[i]->standard;
		if (config->stage_config[i] != NULL &&
		    (!beside_only || table[i]->order == ORDER_BESIDE))
			add_stage(config, &at, table[i]);
	}
	for (const struct stage *const *stage = modules; *stage != NULL; stage++)
		config->stages.missing_lengths |= (*stage)->lengths((*stage)->options);
}
