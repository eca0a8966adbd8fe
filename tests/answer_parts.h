/*
 * The parts of a configuration of answers, which a test may change one by one. The program has them in struct options.
 */
#ifndef TESTS_ANSWER_PARTS_H
#define TESTS_ANSWER_PARTS_H

#include "kubedns/answer/external_zones.h"
#include "kubedns/answer/nearest.h"
#include "kubedns/answer/upstream_stage.h"
#include "kubedns/answer/zones.h"

struct answer_parts {
	struct zone_config zone;
	struct reverse_config reverse;
	struct upstream_config upstream;
	struct view_config view;
	struct endpoint_choice choice;
};

/* Makes them the configuration's. */
static inline void
answer_parts_use(struct answer_config *config, const struct answer_parts *parts)
{
	config->stage_config[STAGE_zone] = &parts->zone;
	config->stage_config[STAGE_reverse] = &parts->reverse;
	config->stage_config[STAGE_upstream] = &parts->upstream;
	config->view = &parts->view;
	config->choice = &parts->choice;
	stages_build(config);
}

#endif
