#include "kubedns/settings_names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kubedns/answer/answer.h"
#include "kubedns/answer/own_names.h"
#include "kubedns/answer/rewrites.h"
#include "lib/conf_hosts.h"
#include "lib/conf_rewrites.h"
#include "lib/log.h"
#include "lib/metrics.h"
#include "lib/rcu.h"
#include "lib/xalloc.h"

void
settings_names_init(struct settings_names *names)
{
	if (getrandom(&names->seed, sizeof names->seed, 0) != sizeof names->seed)
		log_fatal("getrandom");
}

bool
settings_names_hosts(
    struct settings_names *names, const char *value, size_t len, uint32_t ttl_s, char **why)
{
	struct conf_hosts hosts = { 0 };
	struct own_names *before = names->hosts;

	if (value != NULL && conf_hosts_parse(value, len, &hosts, why) < 0)
		return false;
	names->hosts = own_names_of_hosts(&hosts, ttl_s, names->seed);
	conf_hosts_free(&hosts);
	bool same = before == NULL || names->hosts == NULL
			? before == names->hosts
			: before->size == names->hosts->size &&
			      memcmp(before, names->hosts, before->size) == 0;
	free(before);
	return !same;
}

bool
settings_names_rewrites(struct settings_names *names, const char *value, size_t len, char **why)
{
	struct conf_rewrites conf = { 0 };
	struct rewrites *rewrites = NULL;

	if (value != NULL && conf_rewrites_parse(value, len, &conf, why) < 0)
		return false;
	int rc = rewrites_new(&conf, names->seed, &rewrites, why);
	conf_rewrites_free(&conf);
	if (rc < 0 || rewrites_equal(names->rewrites, rewrites)) {
		rewrites_free(rewrites);
		return false;
	}
	rewrites_retire(&names->retired, names->rewrites);
	names->rewrites = rewrites;
	return true;
}

void
settings_names_period(struct settings_names *names)
{
	if (names->expired != NULL)
		rcu_wait();
	rewrites_free(names->expired);
	names->expired = names->retired;
	names->retired = NULL;
}

struct answer_context *
settings_names_context(const struct settings_names *names, size_t size)
{
	size_t hosts_at = (size + 7) & ~(size_t)7; /* its words are of 64 bits */
	size_t hosts_size = names->hosts == NULL ? 0 : names->hosts->size;
	struct answer_context *context = xcalloc(1, hosts_at + hosts_size);

	if (names->hosts != NULL)
		context->hosts = memcpy((char *)context + hosts_at, names->hosts, hosts_size);
	context->rewrites = names->rewrites;
	context->own = names->hosts != NULL || names->rewrites != NULL;
	return context;
}

void
settings_names_metrics(const struct settings_names *names, struct metrics *m)
{
	metrics_family(m, "kubedns_own_names", METRIC_GAUGE,
	    "Names of one's own, reverse names among them, by the ConfigMap's key.");
	metrics_value(m, names->hosts == NULL ? 0 : names->hosts->count, "key", "hosts", NULL);
	metrics_family(m, "kubedns_rewrites", METRIC_GAUGE, "Rewrites in force.");
	metrics_value(m, (double)rewrites_count(names->rewrites), NULL);
}

void
settings_names_free(struct settings_names *names)
{
	free(names->hosts);
	rewrites_free(names->rewrites);
	rewrites_free(names->retired);
	rewrites_free(names->expired);
}
