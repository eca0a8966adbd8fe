/*
 * Answering is a pipeline. One table defines which stages a name passes, and in which order.
 *
 *	          .--- rewritten -----.     .------ an alias's target, a candidate of a module -------.
 *	          |                   v     v                                                         |
 *	question -+--> rewrites --> local names, stub domains --> zone --+--> the answer              |
 *	                                |                  |                                          |
 *	                                |   (name missing) '--> explanation, modules, or the negative answer
 *	                                v
 *	                          (other zones) --> reverse --> external --> clusterset --> upstream
 *
 * The table is STAGES below. The reasons for its order:
 * - A rewrite comes first. Its result is looked up like a query for that name, including local
 *   names.
 * - Local names come before the cluster's, because the operator's choice takes precedence.
 * - A stub domain inside one of our zones comes before this zone, because the longest domain wins.
 * - The cluster's zone comes before the external and clusterset zones, because --domain may be
 *   inside one of them.
 * - Explanations answer only names that the cluster's zone does not have. So do stages of modules.
 * - The client's view is not a stage. It is a filter on the snapshot (view.h). The caller sets it
 *   before the first stage, so it applies to every lookup of every stage.
 * - Upstream comes last. It applies --fallthrough, --filter-a and --filter-aaaa after all other
 *   stages.
 *
 * Each stage has its own configuration, which its header declares. kubedns/config/ sets it. For
 * explanations, main.c sets it. A stage without a configuration is disabled: stages_build() omits
 * the stage from the lists. answer.c walks over the lists, except that it calls the stages `zone` and
 * `upstream` by name. A stage reports how it has answered a name (lookup_reason()), and
 * kubedns/show/explain.c prints that.
 */
#ifndef KUBEDNS_ANSWER_STAGES_H
#define KUBEDNS_ANSWER_STAGES_H

#include <stdbool.h>
#include <stdint.h>

struct answer_config; /* kubedns/answer/answer.h */
struct stage;         /* kubedns/answer/stage.h */

/* A stage is called `stage_<first word>` here and `explain_<first word>` in kubedns/show/. A stage is
 * not the whole feature: options, metrics, pages and other stages may use its files too. */
#define STAGES(X)                                                                                  \
	X(rewrites, "rewrites")                                                                    \
	X(local_names, "local names")                                                              \
	X(stub_domains, "stub domains")                                                            \
	X(zone, "zone")                                                                            \
	X(explanation, "explanation")                                                              \
	X(reverse, "reverse")                                                                      \
	X(external, "external")                                                                    \
	X(clusterset, "clusterset")                                                                \
	X(upstream, "upstream")

enum stage_id {
#define STAGE_ID(id, text) STAGE_##id,
	STAGES(STAGE_ID)
#undef STAGE_ID
	    STAGE_COUNT,
	STAGE_MODULE /* any stage of a module */
};

/* The enabled stages, in NULL-terminated lists. Each list has the stages for one kind of name
 * (enum stage_order), in order. */
struct stages {
	/* Stages in `missing` only answer names that end in LABEL.ZONE, for a few LABELs. Bit n
	 * of this bitmap is set if one of these LABELs has n bytes. Most missing names end in
	 * other labels. */
	uint64_t missing_lengths;
	/* --external-address: only the external stage is called. */
	bool beside_only;
	const struct stage *context[STAGE_COUNT + 1], *missing[STAGE_COUNT + 1],
	    *outside[STAGE_COUNT + 1];
	/* The stages of enabled modules, which come after `missing`. Not NULL. */
	const struct stage *const *modules;
};

/* Fills in config->stages. A stage that is always enabled gets its standard configuration if no
 * other is set. Call this function after the configuration of the stages is set, and again after
 * it has changed. */
void stages_build(struct answer_config *config);

#endif
