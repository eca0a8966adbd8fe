#include "kubedns/answer/stages.h"

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/stage.h"

static const struct stage *const table[STAGE_COUNT] = {
#define STAGE_ROW(id, text) [STAGE_##id] = &stage_##id,
	STAGES(STAGE_ROW)
#undef STAGE_ROW
};

void
stages_build(struct answer_config *config)
{
	struct stages *stages = &config->stages;
	const struct external_zones *external = external_config(config);
	bool beside_only = external != NULL && external->alone;
	unsigned context = 0, missing = 0, outside = 0;

	*stages = (struct stages){ .beside_only = beside_only };
	for (unsigned i = 0, all = 0; i < STAGE_COUNT; i++) {
		const struct stage *stage = table[i];

		if (config->stage_config[i] == NULL)
			config->stage_config[i] = stage->standard;
		if (config->stage_config[i] == NULL ||
		    (beside_only && stage->order != ORDER_BESIDE))
			continue;
		stages->all[all++] = stage;
		if (stage->order == ORDER_CONTEXT)
			stages->context[context++] = stage;
		if (stage->order == ORDER_MISSING) {
			stages->missing[missing++] = stage;
			stages->missing_lengths |= stage->lengths(config);
		}
		if (stage->order == ORDER_OUTSIDE || stage->order == ORDER_BESIDE)
			stages->outside[outside++] = stage;
	}
}
