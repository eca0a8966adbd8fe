#include "kubedns/answer/stage.h"

static const struct stage *const table[STAGE_COUNT] = {
#define STAGE_ROW(id, text) [STAGE_##id] = &stage_##id,
	STAGES(STAGE_ROW)
#undef STAGE_ROW
};

const char *
stage_name(enum stage_id id)
{
	static const char *const names[STAGE_COUNT] = {
#define STAGE_NAME(id, text) [STAGE_##id] = text,
		STAGES(STAGE_NAME)
#undef STAGE_NAME
	};

	return names[id];
}

void
stages_build(struct answer_config *config)
{
	struct stages *stages = &config->stages;
	unsigned context = 0, missing = 0, outside = 0;

	*stages = (struct stages){ .all = { NULL } };
	for (unsigned i = 0, all = 0; i < STAGE_COUNT; i++) {
		const struct stage *stage = table[i];

		if (stage->on != NULL && !stage->on(config))
			continue;
		stages->all[all++] = stage;
		if (stage->turn == TURN_CONTEXT)
			stages->context[context++] = stage;
		if (stage->turn == TURN_MISSING) {
			stages->missing[missing++] = stage;
			stages->missing_lengths |= stage->lengths(config);
		}
		if (stage->turn == TURN_OUTSIDE || stage->turn == TURN_BESIDE)
			stages->outside[outside++] = stage;
	}
}
