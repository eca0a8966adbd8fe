#include "nanny/node_rules.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/log.h"

static const char *const chains[] = { "in", "out" };

static FILE *
open_text(char **text, size_t *len)
{
	FILE *out = open_memstream(text, len);
	if (out == NULL)
		log_fatal("out of memory");
	return out;
}

static const char *
family_name(const struct addr *addr)
{
	return addr->family == AF_INET ? "ip" : "ip6";
}

static char
set_of(const struct addr *addr)
{
	return addr->family == AF_INET ? '4' : '6';
}

char *
node_rules_make(const char *table, bool owner)
{
	char *text;
	size_t len;
	FILE *out = open_text(&text, &len);
	if (!owner)
		fprintf(out, "add table inet %s\ndelete table inet %s\n", table, table);
	fprintf(out, "table inet %s {\n%s", table, owner ? "flags owner;\n" : "");
	for (int v = 4; v <= 6; v += 2)
		fprintf(out,
		    "set alive%d { type ipv%d_addr; size 16; flags dynamic,timeout; timeout %ds; "
		    "}\n"
		    "set here%d { type ipv%d_addr . inet_service; size %d; flags dynamic,timeout; "
		    "timeout %ds; }\n",
		    v, v, NODE_RULES_ALIVE_S, v, v, NODE_RULES_TCP_MAX, NODE_RULES_TCP_S);
	fprintf(out, "chain in { type filter hook prerouting priority raw; policy accept; }\n"
		     "chain out { type filter hook output priority raw; policy accept; }\n}\n");
	fclose(out);
	return text;
}

/* A reply's packet keeps its connection in @here for this long. `end`: "!=" for packets with FIN or RST,
 * "==" for all others. */
static void
add_here(FILE *out, const char *table, const struct addr *addr, const char *end, int seconds)
{
	char a[ADDR_TEXT_MAX];
	const char *family = family_name(addr);
	fprintf(out,
	    "add rule inet %s out %s saddr %s tcp sport %d tcp flags & (fin | rst) %s 0 update "
	    "@here%c { %s daddr . tcp dport timeout %ds }\n",
	    table, family, addr_format(addr, a), DNS_PORT, end, set_of(addr), family, seconds);
}

/* A connection that does not begin here takes its port out of @here, where an earlier one may have
 * left it. `up`: those to an address in @alive begin here. */
static void
add_forget(FILE *out, const char *table, const struct addr *addr, bool up)
{
	char a[ADDR_TEXT_MAX], except[64] = "";
	const char *family = family_name(addr);
	addr_format(addr, a);
	if (up)
		snprintf(except, sizeof(except), " %s daddr != @alive%c", family, set_of(addr));
	for (unsigned c = 0; c < 2; c++)
		fprintf(out,
		    "add rule inet %s %s %s daddr %s tcp dport %d tcp flags syn / syn,ack%s delete "
		    "@here%c { %s saddr . tcp sport }\n",
		    table, chains[c], family, a, DNS_PORT, except, set_of(addr), family);
}

/*
 * The rules that hold whether an address is in @alive or not. They leave untracked: the probe's
 * questions, which kube-proxy's rules would send to another pod, replies, and TCP connections that
 * have begun here.
 */
static void
add_always(FILE *out, const char *table, const struct addr *addr, uint16_t probe_port)
{
	char a[ADDR_TEXT_MAX];
	const char *family = family_name(addr);
	addr_format(addr, a);
	fprintf(out,
	    "add rule inet %s out %s saddr %s %s daddr %s udp sport %u udp dport %d notrack\n"
	    "add rule inet %s out %s saddr %s udp sport %d notrack\n"
	    "add rule inet %s out %s saddr %s tcp sport %d notrack\n",
	    table, family, a, family, a, probe_port, DNS_PORT, table, family, a, DNS_PORT, table,
	    family, a, DNS_PORT);
	add_here(out, table, addr, "==", NODE_RULES_TCP_S);
	add_here(out, table, addr, "!=", NODE_RULES_TCP_ENDED_S);
	for (unsigned c = 0; c < 2; c++)
		fprintf(out,
		    "add rule inet %s %s %s daddr %s tcp dport %d %s saddr . tcp sport @here%c "
		    "notrack\n",
		    table, chains[c], family, a, DNS_PORT, family, set_of(addr));
}

/* A probe's answer without an error (rcode 0: the low four bits of the fourth byte after the UDP
 * header) renews the address in @alive; addresses in @alive get new queries and connections. */
static void
add_alive(FILE *out, const char *table, const struct addr *addr, uint16_t probe_port)
{
	char a[ADDR_TEXT_MAX];
	const char *family = family_name(addr);
	addr_format(addr, a);
	fprintf(out,
	    "add rule inet %s out %s saddr %s %s daddr %s udp sport %d udp dport %u @th,92,4 0 "
	    "update @alive%c { %s saddr timeout %ds }\n",
	    table, family, a, family, a, DNS_PORT, probe_port, set_of(addr), family,
	    NODE_RULES_ALIVE_S);
	for (unsigned c = 0; c < 2; c++)
		fprintf(out,
		    "add rule inet %s %s %s daddr %s udp dport %d %s daddr @alive%c notrack\n"
		    "add rule inet %s %s %s daddr %s tcp dport %d tcp flags syn / syn,ack %s daddr "
		    "@alive%c notrack\n",
		    table, chains[c], family, a, DNS_PORT, family, set_of(addr), table, chains[c],
		    family, a, DNS_PORT, family, set_of(addr));
}

static char *
replace(const char *table, const struct node_address *addresses, size_t count, bool up, bool owner)
{
	char *text;
	size_t len;
	FILE *out = open_text(&text, &len);
	for (unsigned c = 0; c < 2; c++)
		fprintf(out, "flush chain inet %s %s\n", table, chains[c]);
	for (size_t i = 0; i < count; i++) {
		if (up)
			add_alive(out, table, &addresses[i].addr, addresses[i].probe_port);
		if (owner)
			add_forget(out, table, &addresses[i].addr, up);
		add_always(out, table, &addresses[i].addr, addresses[i].probe_port);
	}
	fclose(out);
	return text;
}

char *
node_rules_up(const char *table, const struct node_address *addresses, size_t count, bool owner)
{
	return replace(table, addresses, count, true, owner);
}

char *
node_rules_down(const char *table, const struct node_address *addresses, size_t count, bool owner)
{
	return replace(table, addresses, count, false, owner);
}
