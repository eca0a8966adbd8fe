/* The rules of the verdict. Each rule looks for one cause of trouble, and adds a finding if the cause holds. verdict.c has the table of
 * causes and rules. No rule calls another one. */
#ifndef SIDECAR_VERDICT_RULES_H
#define SIDECAR_VERDICT_RULES_H

#include "sidecar/verdict/judgement.h"

/* rules_processes.c: dnsmasq and kubedns. */
void judge_dnsmasq(struct judgement *j);
void judge_kubedns(struct judgement *j);
void judge_statistics(struct judgement *j);

/* rules_api.c: the source of kubedns's data. */
void judge_sync(struct judgement *j);
void judge_manifests(struct judgement *j);
void judge_api(struct judgement *j);
void judge_drift(struct judgement *j);

/* rules_servers.c: servers that dnsmasq and kubedns send queries to. */
void judge_servers(struct judgement *j);
void judge_outside(struct judgement *j);
void judge_upstreams(struct judgement *j);
void judge_forwarding(struct judgement *j);

/* rules_configuration.c */
void judge_configuration(struct judgement *j);
void judge_loop(struct judgement *j);
void judge_stub_name(struct judgement *j);

/* rules_load.c: load and memory. */
void judge_load(struct judgement *j);
void judge_memory(struct judgement *j);

/* rules_host.c: the node. */
void judge_host(struct judgement *j);
void judge_clock(struct judgement *j);

/* rules_probes.c: failing probes. This rule runs last and is not in the table. */
void judge_probes(struct judgement *j);

#endif
