#include <stdio.h>
#include <string.h>

#include "kubedns/answer/nearest.h"
#include "kubedns/answer/reason.h"
#include "kubedns/answer/view.h"
#include "lib/wire.h"

/* The texts. `$` and a letter are a placeholder. L is the label, S the Service, N the namespace. O is another namespace, followed by
 * "and others" if there are more. X is the name without its search domain. K is the kind of name that the label would be. C is the
 * count, T the type, Z the zone. */
static const struct {
	int ede;
	const char *sentence;
} reasons[REASON_SENTENCES] = {
	[REASON_NONE] = { EDE_OTHER, "" },
	[REASON_NAME] = { EDE_OTHER, "no name $L in $Z" },
	[REASON_SVC_MISSING] = { EDE_OTHER, "the label svc is missing: use $S.$N.svc.$Z" },
	[REASON_SHORT] = { EDE_OTHER, "no name $L in $Z; Service $L is in namespace $O" },
	[REASON_NAMESPACE] = { EDE_OTHER, "no namespace $N" },
	[REASON_NAMESPACE_OTHER] = { EDE_OTHER, "no namespace $N; Service $S is in namespace $O" },
	[REASON_SERVICE] = { EDE_OTHER, "no Service $S in namespace $N" },
	[REASON_SERVICE_OTHER] = { EDE_OTHER, "Service $S is in namespace $O, not in $N" },
	[REASON_NO_ADDRESS] = { EDE_OTHER, "Service $S has no address yet" },
	[REASON_SEARCHED] = { EDE_OTHER, "no $K $L: a search-list expansion of $X" },
	[REASON_SEARCHED_MAYBE] = { EDE_OTHER, "no $K $L: perhaps a search-list expansion of $X" },
	[REASON_NO_ENDPOINTS] = { EDE_OTHER, "Service $S has no endpoints" },
	[REASON_NONE_READY] = { EDE_OTHER, "no endpoint of Service $S is ready (total: $C)" },
	[REASON_MEMBER] = { EDE_OTHER, "no endpoint $L in Service $S" },
	[REASON_MEMBER_UNKNOWN] = { EDE_OTHER, "no ready endpoint $L in Service $S" },
	[REASON_MEMBER_NOT_READY] = { EDE_OTHER, "$L is not ready" },
	[REASON_PORT] = { EDE_OTHER, "Service $S has no port of this name and protocol" },
	[REASON_ZONE_NAME] = { EDE_OTHER,
	    "with --zonal, headless Services have names ZONE.pin._zone and ZONE.prefer._zone" },
	[REASON_PODS_OFF] = { EDE_OTHER, "pod names are disabled (--pods=disabled)" },
	[REASON_POD_NAME] = { EDE_OTHER, "$L is not an address with dashes, such as 10-1-2-3" },
	[REASON_POD] = { EDE_OTHER, "no running pod in namespace $N has the address $L" },
	[REASON_POD_BELOW] = { EDE_OTHER, "no name exists below the name of a pod" },
	[REASON_TYPE] = { EDE_OTHER, "the name exists, but has no records of type $T" },
	[REASON_IPV4_ONLY] = { EDE_OTHER, "the name has IPv4 addresses only" },
	[REASON_IPV6_ONLY] = { EDE_OTHER, "the name has IPv6 addresses only" },
	[REASON_ONLY_BELOW] = { EDE_OTHER, "the name has no records of its own" },
	[REASON_ZONE] = { EDE_OTHER, "no endpoint of Service $S is in this zone" },
	[REASON_ZONE_UNKNOWN] = { EDE_OTHER, "the zone of this client is unknown" },
	[REASON_NOT_SYNCED] = { EDE_NOT_READY,
	    "not synced yet: kubedns is still reading the cluster" },
	[REASON_STALE] = { EDE_STALE_ANSWER, "stale for $C s: the Kubernetes API does not answer" },
	[REASON_NO_FORWARDER] = { EDE_NOT_AUTHORITATIVE,
	    "not in $Z, and kubedns has no upstream server" },
	[REASON_CONFIG_UNREAD] = { EDE_NOT_READY,
	    "kubedns has not read its ConfigMap yet, which may ask for TLS for this name" },
	[REASON_STUB_REFUSED] = { EDE_NO_REACHABLE_AUTHORITY, "ConfigMap key stubDomains: $M" },
	[REASON_STUB_CLOSED] = { EDE_NO_REACHABLE_AUTHORITY,
	    "all servers of this stub domain are refused (ConfigMap key stubDomains); the log has "
	    "the reason" },
	[REASON_ENCRYPTED] = { EDE_OTHER,
	    "the ConfigMap asks for TLS for this name, and kubedns cannot encrypt queries" },
	[REASON_UPSTREAM_FAILED] = { EDE_NO_REACHABLE_AUTHORITY, "no upstream server answered" },
	[REASON_FILTERED] = { EDE_FILTERED, "filtered: $T" },
};

int
reason_ede(enum reason_kind kind)
{
	return reasons[kind].ede;
}

/* --- the text --- */

struct text {
	char *at, *end;
	bool cut;
};

static void
put(struct text *text, const char *bytes, size_t len)
{
	if (text->cut || len > (size_t)(text->end - text->at)) {
		text->cut = true;
		return;
	}
	memcpy(text->at, bytes, len);
	text->at += len;
}

static void
put_string(struct text *text, const char *string)
{
	put(text, string, strlen(string));
}

static bool
is_plain(uint8_t c)
{
	return c > ' ' && c <= '~' && c != '.' && c != '\\';
}

/* Writes a label, which a client may have chosen. Unprintable bytes are escaped as in a zone file. Most labels have no unprintable
 * bytes. */
static void
put_label(struct text *text, const uint8_t *label)
{
	unsigned end = label == NULL ? 0 : *label + 1u, plain = 1;

	for (unsigned i = 1; i < end; i = plain) {
		char escaped[5];

		while (plain < end && is_plain(label[plain]))
			plain++;
		put(text, (const char *)label + i, plain - i);
		if (plain == end)
			break;
		snprintf(escaped, sizeof escaped, "\\%03u", label[plain++]);
		put(text, escaped, 4);
	}
}

static void
put_name(struct text *text, const uint8_t *wire, unsigned labels)
{
	for (unsigned i = 0; i < labels && *wire != 0; i++, wire += 1u + *wire) {
		if (i > 0)
			put(text, ".", 1);
		put_label(text, wire);
	}
}

/* Writes as much of the message as fits, whole characters only. */
static void
put_message(struct text *text, const char *message)
{
	for (size_t len; *message != '\0' && !text->cut; message += len) {
		for (len = 1; ((uint8_t)message[len] & 0xc0) == 0x80;)
			len++;
		put(text, message, len);
	}
}

static void
put_argument(struct text *text, const struct reason *reason, char letter)
{
	char number[12];

	switch (letter) {
	case 'L':
		put_label(text, reason->label);
		break;
	case 'S':
		put_label(text, reason->service);
		break;
	case 'N':
		put_label(text, reason->namespace);
		break;
	case 'O':
		put_label(text, reason->other);
		put_string(text, reason->more_others ? " and others" : "");
		break;
	case 'X':
		put_name(text, reason->name->wire + reason->name->offsets[reason->first],
		    reason->last - reason->first + 1);
		break;
	case 'K':
		put_string(text, reason->level);
		break;
	case 'C':
		snprintf(number, sizeof number, "%u", reason->count);
		put_string(text, number);
		break;
	case 'M':
		put_message(text, reason->text);
		break;
	case 'T':
		put_string(text, type_name(reason->qtype, number));
		break;
	default: /* 'Z' */
		put_name(text, reason->zone->wire, DNAME_LABELS_MAX);
		break;
	}
}

size_t
reason_text(const struct reason *reason, char out[REASON_TEXT_MAX])
{
	struct text text = { .at = out, .end = out + REASON_TEXT_MAX - sizeof "..." };
	const char *p = reasons[reason->kind].sentence;

	while (*p != '\0') {
		size_t plain = strcspn(p, "$");

		put(&text, p, plain);
		p += plain;
		if (*p == '$') {
			put_argument(&text, reason, p[1]);
			p += 2;
		}
	}
	if (text.cut) {
		memcpy(text.at, "...", 3);
		text.at += 3;
	}
	*text.at = '\0';
	return (size_t)(text.at - out);
}

/* --- reasons of answers --- */

/* Returns where the label is in the copy of the name. Labels of the tree are not copied. */
static const uint8_t *
moved(const uint8_t *label, const struct name *from, const struct name *to)
{
	size_t at = (uintptr_t)label - (uintptr_t)from->wire;

	return at < from->len ? to->wire + at : label;
}

void
reason_keep(struct answer_reason *answer, const struct reason *reason)
{
	struct reason *denial = &answer->denial;

	*denial = *reason;
	if (reason->name == NULL)
		return;
	answer->denied = name_copy(&answer->denied_buf, reason->name->wire, reason->name->len);
	denial->name = &answer->denied;
	denial->label = moved(reason->label, reason->name, denial->name);
	denial->service = moved(reason->service, reason->name, denial->name);
	denial->namespace = moved(reason->namespace, reason->name, denial->name);
	denial->other = moved(reason->other, reason->name, denial->name);
}

/* --- finding the reason --- */

static const uint8_t *
label_at(const struct name *name, unsigned i)
{
	return name->wire + name->offsets[i];
}

static bool
label_is(const uint8_t *label, const char *text)
{
	return *label == strlen(text) && memcmp(label + 1, text, *label) == 0;
}

static bool
same_label(const uint8_t *a, const uint8_t *b)
{
	return memcmp(a, b, 1u + *a) == 0;
}

bool
reason_may_name(
    const struct answer_config *config, const struct tree *tree, const struct owner *owner)
{
	const struct node *node = tree_find(tree, owner->name);

	if (node == NULL || (node->flags & (NODE_CLUSTERIP | NODE_HEADLESS)) == 0)
		return false;
	return !service_without_ready_endpoints(config, node);
}

/* Looks for Services called `service` in namespaces other than `namespace`, which may be NULL. Sets `*here` if `namespace` itself has
 * such a Service. If there are few such Services, sets reason->other to the first of their namespaces, in canonical order, that may be
 * named. Returns false if there is no such Service, or if there are too many. */
static bool
find_others(struct reason *reason, const struct answer_config *config, const struct tree *tree,
    const uint8_t *service, const uint8_t *namespace, bool *here)
{
	struct owner_walk walk;
	const struct owner *owner;
	unsigned seen = 0;

	*here = false;
	/* The client may not learn the number of these Services, and a look at each of them would take long. */
	if (view_limited(tree))
		return false;
	owners_find(&walk, tree, service);
	while ((owner = owners_next(&walk)) != NULL) {
		const uint8_t *in = owner->name + 1 + owner->name[0];

		if (namespace != NULL && same_label(in, namespace)) {
			*here = true;
			continue;
		}
		if (++seen > REASON_OWNERS_MAX) {
			/* Their order depends on earlier changes, so the first few would not always be the same. */
			reason->other = NULL;
			return false;
		}
		if (!reason_may_name(config, tree, owner))
			continue;
		reason->more_others = reason->other != NULL;
		if (reason->other == NULL || dname_compare(in, reason->other) < 0)
			reason->other = in;
	}
	return reason->other != NULL;
}

/* Returns whether the label looks like the name of an endpoint ("db-0", "10-1-2-3"), not like the name of a host outside the cluster. */
static bool
looks_like_member(const uint8_t *label)
{
	unsigned i = *label;

	while (i > 0 && label[i] >= '0' && label[i] <= '9')
		i--;
	return i < *label && i > 0 && label[i] == '-';
}

/* Returns whether the labels up to `last` look like an external name to which a resolver has appended a search domain. Returns false if
 * they look like an endpoint below a Service. */
static bool
looks_searched(const struct name *name, unsigned last)
{
	for (unsigned i = 0; i <= last; i++)
		if (label_at(name, i)[1] == '_')
			return false;
	return last > 1 || (last == 1 && !looks_like_member(label_at(name, 0)));
}

static bool
searched(struct reason *reason, unsigned last, const char *level)
{
	if (!looks_searched(reason->name, last))
		return false;
	reason->label = label_at(reason->name, last);
	reason->last = last;
	reason->level = level;
	return true;
}

/* Finds the reason if the zone has no name that ends in the last label. */
static enum reason_kind
name_missing(struct reason *reason, const struct answer_config *config, const struct tree *tree,
    unsigned below)
{
	bool here;

	reason->label = label_at(reason->name, below - 1);
	if (below > 1 &&
	    tree_child(tree, tree->root, reason->label) != NULL) { /* `dns` or `dns-version` */
		reason->label = label_at(reason->name, below - 2);
		return REASON_NAME;
	}
	if (below == 1)
		return find_others(reason, config, tree, reason->label, NULL, &here) ? REASON_SHORT
										     : REASON_NAME;
	reason->namespace = reason->label;
	reason->service = label_at(reason->name, below - 2);
	const struct node *node = view_namespace(tree, reason->namespace);
	node = node == NULL ? NULL : view_service(tree, node, reason->service);
	if (below == 2 && node != NULL && !service_without_ready_endpoints(config, node))
		return REASON_SVC_MISSING;
	return searched(reason, below - 1, "name") ? REASON_SEARCHED : REASON_NAME;
}

static enum reason_kind
namespace_missing(struct reason *reason, const struct answer_config *config,
    const struct tree *tree, unsigned below)
{
	bool here;

	reason->namespace = label_at(reason->name, below - 2);
	if (below < 3)
		return REASON_NAMESPACE;
	reason->service = label_at(reason->name, below - 3);
	if (find_others(reason, config, tree, reason->service, NULL, &here))
		return REASON_NAMESPACE_OTHER;
	if (!searched(reason, below - 2, "namespace"))
		return REASON_NAMESPACE;
	return below == 3 ? REASON_SEARCHED_MAYBE : REASON_SEARCHED;
}

static enum reason_kind
service_missing(struct reason *reason, const struct answer_config *config, const struct tree *tree,
    unsigned below)
{
	bool here;

	reason->namespace = label_at(reason->name, below - 2);
	reason->service = label_at(reason->name, below - 3);
	bool other = find_others(reason, config, tree, reason->service, reason->namespace, &here);
	if (here)
		return REASON_NO_ADDRESS;
	if (other)
		return REASON_SERVICE_OTHER;
	return searched(reason, below - 3, "Service") ? REASON_SEARCHED : REASON_SERVICE;
}

/* Returns whether an endpoint that is not ready has this name. Looks at no more than `*left` endpoints, and subtracts their number from
 * it. */
static bool
not_ready_has(const struct slice_endpoints *slice, const uint8_t *label, unsigned *left)
{
	unsigned from = slice->published, to = slice->count;
	struct addr addr;

	if (to - from > *left)
		to = from + *left;
	*left -= to - from;
	if (slice_find_name(slice, from, to, label) < to)
		return true;
	if (tree_label_addr(label, &addr) < 0 || addr.family != slice->family)
		return false;
	for (; (from = slice_find_addr(slice, from, to, addr.bytes)) < to; from++)
		if (slice_name(slice, from) == NULL)
			return true;
	return false;
}

static enum reason_kind
member_missing(struct reason *reason, const struct endpoint_set *endpoints, const uint8_t *label)
{
	unsigned left = REASON_ENDPOINTS_MAX, slices = 0;

	reason->label = label;
	for (; slices < endpoints->count && slices < REASON_ENDPOINTS_MAX && left > 0; slices++)
		if (not_ready_has(endpoints->slices[slices].slice, label, &left))
			return REASON_MEMBER_NOT_READY;
	return left > 0 && slices == endpoints->count ? REASON_MEMBER : REASON_MEMBER_UNKNOWN;
}

/* Finds the reason if the Service exists, but its name, or the name below it, cannot be resolved. */
static enum reason_kind
below_service(struct reason *reason, const struct answer_config *config, const struct node *node,
    unsigned below)
{
	const struct endpoint_set *endpoints = node->endpoints;

	reason->namespace = label_at(reason->name, below - 2);
	reason->service = label_at(reason->name, below - 3);
	const uint8_t *label = below > 3 ? label_at(reason->name, below - 4) : NULL;
	bool member = below == 4 && label[1] != '_';
	if (endpoints != NULL && member) {
		enum reason_kind kind = member_missing(reason, endpoints, label);

		if (kind == REASON_MEMBER_NOT_READY)
			return kind;
	}
	if (endpoints != NULL && service_without_ready_endpoints(config, node)) {
		for (unsigned i = 0; i < endpoints->count && i < REASON_ENDPOINTS_MAX; i++)
			reason->count += endpoints->slices[i].slice->count;
		return reason->count == 0 ? REASON_NO_ENDPOINTS : REASON_NONE_READY;
	}
	if (label != NULL && label[1] == '_')
		return label_is(label, "_zone") ? REASON_ZONE_NAME : REASON_PORT;
	reason->label = label;
	if (member && endpoints != NULL)
		return member_missing(reason, endpoints, label);
	return REASON_MEMBER;
}

static enum reason_kind
pod_missing(struct reason *reason, const struct answer_config *config, const struct tree *tree,
    unsigned below)
{
	struct addr addr;

	if (zone_config(config)->pods == PODS_DISABLED)
		return REASON_PODS_OFF;
	if (below < 2)
		return REASON_NONE;
	reason->namespace = label_at(reason->name, below - 2);
	const struct node *node = view_namespace(tree, reason->namespace);
	if (node == NULL || !view_sees(tree, node))
		return REASON_NAMESPACE;
	if (below > 3)
		return REASON_POD_BELOW;
	reason->label = label_at(reason->name, 0);
	if (below < 3 || tree_label_addr(reason->label, &addr) < 0)
		return REASON_POD_NAME;
	return REASON_POD;
}

/* Finds out which label of a missing name is missing, and why. */
static enum reason_kind
why_missing(struct reason *reason, const struct answer_config *config, const struct tree *tree,
    unsigned below)
{
	const struct node *node = tree->root, *above;
	const uint8_t *last = label_at(reason->name, below - 1);
	bool svc = label_is(last, "svc");

	if (label_is(last, "pod"))
		return pod_missing(reason, config, tree, below);
	for (unsigned depth = 0; depth < 3 && depth < below; depth++) {
		const uint8_t *label = label_at(reason->name, below - 1 - depth);

		above = node;
		node = !svc || depth == 0 ? tree_child(tree, above, label)
		       : depth == 1       ? view_namespace(tree, label)
					  : view_service(tree, above, label);
		if (node != NULL && svc)
			continue;
		return depth == 0   ? name_missing(reason, config, tree, below)
		       : depth == 1 ? namespace_missing(reason, config, tree, below)
				    : service_missing(reason, config, tree, below);
	}
	return below < 3 ? REASON_NONE : below_service(reason, config, node, below);
}

static enum reason_kind
family_only(const struct endpoint_set *endpoints)
{
	return endpoints->total6 == 0 ? REASON_IPV4_ONLY : REASON_IPV6_ONLY;
}

/* Finds out why a name has no records. The name may be a name of --zonal, or a name with names below it. */
static enum reason_kind
why_empty(struct reason *reason, const struct answer_config *config, const struct tree *tree,
    unsigned below)
{
	if (below < 4 || !label_is(label_at(reason->name, below - 4), "_zone"))
		return REASON_ONLY_BELOW;
	reason->namespace = label_at(reason->name, below - 2);
	reason->service = label_at(reason->name, below - 3);
	return nearest_knows_zone(config->choice, tree, reason->name, below - 3)
		   ? REASON_ZONE
		   : REASON_ZONE_UNKNOWN;
}

/* Finds out why an existing name has no record of this type. */
static enum reason_kind
why_no_type(const struct resolved *resolved, uint16_t qtype)
{
	bool address = qtype == TYPE_A || qtype == TYPE_AAAA;
	uint16_t other = qtype == TYPE_A ? TYPE_AAAA : TYPE_A;
	const struct node *node = resolved->node;

	if (!address)
		return REASON_TYPE;
	if (resolved->kind == RESOLVED_HEADLESS)
		return family_only(resolved->endpoints);
	if (resolved->kind == RESOLVED_ENDPOINT || resolved->kind == RESOLVED_ZONAL ||
	    resolved->kind == RESOLVED_POD ||
	    (resolved->kind == RESOLVED_NODE && node_rrset(node, other) != NULL))
		return qtype == TYPE_AAAA ? REASON_IPV4_ONLY : REASON_IPV6_ONLY;
	return REASON_TYPE;
}

void
reason_find(struct reason *reason, const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below, const struct resolved *resolved, uint16_t qtype)
{
	*reason = (struct reason){ .name = name, .qtype = qtype, .zone = &config->zone };
	reason->kind = resolved->kind == RESOLVED_NOTHING ? why_missing(reason, config, tree, below)
		       : resolved->kind == RESOLVED_EMPTY ? why_empty(reason, config, tree, below)
							  : why_no_type(resolved, qtype);
}
