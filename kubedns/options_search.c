/*
 * The flags with the address of a dnsmasq or of other DNS pods, and those of search completion.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/answer/search.h"
#include "kubedns/options_internal.h"
#include "lib/xalloc.h"

static int
refuse_flag(const char *flag, const char *value, const char *why)
{
	log_errorx("--%s: \"%s\": %s", flag, value, why);
	return -EINVAL;
}

/* Reads the address of a dnsmasq; `where` is its place in the topology, for messages. */
static int
read_dnsmasq(const struct options *o, const char *flag, const char *text, const char *where,
    bool *given, struct server *server)
{
	const char *why;

	*given = *text != '\0';
	if (!*given)
		return 0;
	if (server_parse(text, 53, server, &why) < 0 || conf_addr_useless(&server->addr, &why))
		return refuse_flag(flag, text, why);
	if (!forwarding_loop_is(&o->forwarding_loop, server, &why))
		return 0;
	log_errorx("--%s: \"%s\" %s; give the address and port of the dnsmasq %s it", flag, text,
	    why, where);
	return -EINVAL;
}

int
options_read_resolver(struct options *o)
{
	return read_dnsmasq(
	    o, "resolver", o->resolver_text, "behind", &o->has_resolver, &o->resolver);
}

/*
 * The kubelet leaves $(NAME) as it is where the environment has no such variable: a Service that was
 * not there yet when the pod was made. The pod is not to fail for that.
 */
int
options_read_until_synced(struct options *o)
{
	enum { SERVERS_MAX = 5 };
	char *text = xstrdup(o->until_synced_text), *rest = text, *item;
	struct conf_upstreams *to = &o->until_synced;
	const char *why = NULL;
	int rc = 0;

	while (rc == 0 && (item = strsep(&rest, ",")) != NULL) {
		struct server *server = &to->servers[to->count];
		if (*item == '\0' && rest == NULL)
			break;
		if (strncmp(item, "$(", 2) == 0)
			log_warnx("--until-synced=%s: there was no such Service when the pod was "
				  "made: SERVFAIL until the first sync",
			    item);
		else if (to->count == SERVERS_MAX)
			rc = refuse_flag("until-synced", item, "at most 5 servers");
		else if (server_parse(item, 53, server, &why) < 0 ||
			 conf_addr_useless(&server->addr, &why) ||
			 forwarding_loop_is(&o->forwarding_loop, server, &why))
			rc = refuse_flag("until-synced", item, why);
		else
			to->count++;
	}
	free(text);
	o->answers.until_synced = to->count > 0;
	return rc;
}

/* --- --search-completion, --search-extra, --search-resolver --- */

static int
read_search_extra(struct options *o, const char *text, struct dname *domain)
{
	const struct answer_config *a = &o->answers;
	struct dname arpa;

	if (dname_from_text(domain, text) < 0 || domain->len == 1)
		return refuse_flag("search-extra", text, "not a domain, such as corp.example");
	dname_lower(domain->wire, domain->len);
	dname_from_text(&arpa, "arpa.");
	if (dname_in_zone(domain->wire, a->zone.wire) >= 0 ||
	    dname_in_zone(domain->wire, arpa.wire) >= 0)
		return refuse_flag("search-extra", text,
		    "must be outside of --domain and of arpa: pods' own search domains are walked "
		    "already");
	return 0;
}

int
options_read_search(struct options *o)
{
	struct answer_config *a = &o->answers;
	int rc = read_dnsmasq(o, "search-resolver", o->search_resolver_text, "in front of",
	    &o->has_search_resolver, &o->search_resolver);

	a->search_inferred = strcmp(o->search_text, "inferred") == 0;
	if (!a->search_inferred && strcmp(o->search_text, "declared") != 0)
		rc = refuse_flag(
		    "search-completion", o->search_text, "must be declared or inferred");
	a->search_resolver = o->has_search_resolver;
	if (o->has_search_resolver && *o->resolver_text != '\0') {
		log_errorx("--search-resolver=%s and --resolver=%s: the first is for the classic "
			   "topology, the second for front; give one of them",
		    o->search_resolver_text, o->resolver_text);
		return -EINVAL;
	}
	if (o->search_extra.count > SEARCH_EXTRA_MAX)
		return refuse_flag("search-extra", o->search_extra.items[SEARCH_EXTRA_MAX],
		    "at most 8 domains: each may cost a question");
	a->search_extra = xcalloc(SEARCH_EXTRA_MAX, sizeof *a->search_extra);
	for (size_t i = 0; i < o->search_extra.count; i++) {
		int bad = read_search_extra(o, o->search_extra.items[i], &a->search_extra[i]);
		rc = bad < 0 ? bad : rc;
		a->search_extra_count++;
	}
	return rc;
}
