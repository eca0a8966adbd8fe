/* Names of the key hosts (own_names.h): a question for one, and a CNAME that leads to one. */
#include "kubedns/answer/answer_internal.h"
#include "kubedns/answer/own_names.h"

static const struct own_name *
find(const struct reply *reply, const struct name *name)
{
	const struct answer_context *context = reply->tree->context;

	return context == NULL || context->hosts == NULL
		   ? NULL
		   : own_names_find(context->hosts, name->wire, name->len);
}

bool
answer_own(struct reply *reply, const struct name *name)
{
	const struct own_name *own = find(reply, name);
	uint16_t qtype = reply->query->qtype;
	const struct rrset *set;

	if (own == NULL)
		return false;
	bool found = qtype == TYPE_ANY || (set = own_name_rrset(own, qtype)) != NULL;
	if (qtype == TYPE_ANY)
		put_hinfo(reply, DNS_HEADER);
	else if (found)
		reply_rrset(reply, DNS_HEADER, set);
	/* In our zone the SOA is the zone's; elsewhere the name is its own zone's apex. */
	size_t soa = name_below(name, &reply->config->zone) >= 0
			 ? zone_in_message(reply, name, DNS_HEADER, &reply->config->zone)
			 : DNS_HEADER;
	set_rcode_and_soa(reply, found ? FOUND : NODATA, soa);
	return true;
}

bool
put_own(struct reply *reply, const struct name *name, size_t owner)
{
	const struct own_name *own = find(reply, name);
	const struct rrset *set;

	if (own == NULL)
		return false;
	if ((set = own_name_rrset(own, reply->query->qtype)) != NULL)
		reply_rrset(reply, owner, set);
	return true;
}
