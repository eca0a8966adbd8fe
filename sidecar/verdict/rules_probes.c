/* The rule about probes adds a finding for each probe that fails, or that failed often in the last minutes. If a cause explains the
 * failure, the finding is only a note. */
#include <math.h>
#include <stdio.h>

#include "lib/clock.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

/* For each kind of failure, the meaning and what to do. */
static const struct {
	const char *says, *meaning, *todo;
	enum command command;
} causes[CAUSE_COUNT] = {
	[CAUSE_NOT_READY] = { "is waiting for its first sync",
	    "The server is alive, but it has not read the cluster's Services yet. Until then, "
	    "cluster names get SERVFAIL. Other names work.",
	    "Can kubedns reach the API server, and may it list services and endpointslices?",
	    COMMAND_LOGS_KUBEDNS },
	[CAUSE_TIMEOUT] = { "does not answer",
	    "No answer arrived in time: the process hangs, gets no CPU, or its packets are "
	    "dropped.",
	    "Does the process get CPU, and does it restart?", COMMAND_USAGE },
	[CAUSE_CONNECTION_REFUSED] = { "refuses connections",
	    "No process listens at that address and port.",
	    "Is the server running, and does it listen there?", COMMAND_RUNNING },
	[CAUSE_UNREACHABLE] = { "cannot be reached", "There is no route to that address.",
	    "Check the address in --probe, and the network interfaces.", COMMAND_NONE },
	[CAUSE_MALFORMED] = { "answers with something that is not DNS",
	    "The reply is not a DNS message, or it answers another query.",
	    "Check the address and port in --probe: another program may be listening there.",
	    COMMAND_NONE },
	[CAUSE_WRONG_ID] = { "answers with the wrong ID",
	    "The replies do not have the ID of the query: the server or a proxy is broken, or "
	    "somebody tries to forge answers.",
	    "Which program answers there? The sidecar did not use these replies.", COMMAND_NONE },
	[CAUSE_NXDOMAIN] = { "answers that the name does not exist",
	    "The server answers, but does not know the name of the probe.",
	    "Does the probed Service exist, and is --domain the cluster's domain?",
	    COMMAND_SERVICES },
	[CAUSE_SERVFAIL] = { "answers with SERVFAIL",
	    "The server is alive, but it could not find an answer: usually the servers that it "
	    "queries do not answer.",
	    "If this is $engine, check kubedns and the upstream servers below. If this is kubedns, "
	    "check its upstream servers.",
	    COMMAND_LOGS_KUBEDNS },
	[CAUSE_REFUSED] = { "answers with REFUSED",
	    "The server refuses to answer: it has no upstream server for this name, or too many "
	    "queries are already waiting.",
	    "Check the servers in force below, and $engine's --dns-forward-max.",
	    COMMAND_LOGS_DNSMASQ },
	[CAUSE_RCODE] = { "answers with an error", "The server is alive, but rejects the query.",
	    "Is it a DNS server for this zone? The error code is shown with the probe.",
	    COMMAND_NONE },
	[CAUSE_NO_RECORDS] = { "has no such records",
	    "The name exists, but has no record of the probe's type.",
	    "Check name and type in --probe.", COMMAND_NONE },
#define NOT_USED " Queries are never sent to it unencrypted, so it is not used."
	[CAUSE_TLS_WRONG_NAME] = { "has a certificate for another name",
	    "The certificate does not have the server name that the configuration gives." NOT_USED,
	    "Which names does the certificate have? Correct the name after '#' in tls://, or the "
	    "certificate.",
	    COMMAND_CONFIG_SHOW },
	[CAUSE_TLS_EXPIRED] = { "has an expired certificate",
	    "The certificate, or one of its CA, has expired." NOT_USED,
	    "Renew the server's certificate. Is this machine's clock right?", COMMAND_CONFIG_SHOW },
	[CAUSE_TLS_NOT_YET_VALID] = { "has a certificate that is not valid yet",
	    "The certificate is valid from a later time on." NOT_USED,
	    "Is this machine's clock right? Otherwise correct the server's certificate.",
	    COMMAND_CONFIG_SHOW },
	[CAUSE_TLS_UNKNOWN_CA] = { "has a certificate of an unknown CA",
	    "No CA of the bundle has signed the certificate." NOT_USED,
	    "Is the server's CA in the file of --upstream-ca, and does the server send its "
	    "intermediate certificates?",
	    COMMAND_CONFIG_SHOW },
	[CAUSE_TLS_CERTIFICATE] = { "has a certificate that is not acceptable",
	    "The certificate has weak keys, is revoked, or may not be used for a server." NOT_USED,
	    "Renew the server's certificate.", COMMAND_CONFIG_SHOW },
	[CAUSE_TLS_HANDSHAKE] = { "fails the TLS handshake",
	    "The server accepts connections, but TLS 1.2 or later does not begin." NOT_USED,
	    "Does the server have DNS over TLS at this port? The usual port is 853.",
	    COMMAND_CONFIG_SHOW },
	[CAUSE_TLS_STALLED] = { "does not complete the TLS handshake",
	    "The server accepts the connection, but then does not continue in time.",
	    "Is the server overloaded, or does a firewall drop its packets?", COMMAND_CONFIG_SHOW },
	[CAUSE_TLS_CA_BUNDLE] = { "cannot be verified",
	    "The sidecar cannot read the CA bundle, so it does not check tls:// servers.",
	    "Mount a file with CA certificates and name it in --upstream-ca.", COMMAND_NONE },
};

const char *
cause_says(enum cause cause)
{
	return causes[cause].says;
}

const char *
cause_meaning(enum cause cause)
{
	return causes[cause].meaning;
}

const char *
cause_todo(enum cause cause)
{
	return causes[cause].todo;
}

/* Adds a note if the probe works now, but failed often in the last minutes. */
static void
judge_past(struct judgement *j, const struct probe *probe)
{
	struct history_summary summary;

	history_summary(&probe->history, j->view->now_ns - HISTORY_S * NS_PER_S, &summary);
	if (summary.total < PAST_MIN || summary.failed * 100 < summary.total * FAILED_PERCENT)
		return;
	finding_explain(j,
	    finding_add(j, LEVEL_NOTE, 0, "Probe %s failed %u of %u times in the last 10 minutes",
		probe->spec.label, summary.failed, summary.total),
	    "The probe is answered now. The chart shows when it failed, and the figures below the "
	    "chart show why.",
	    "If it fails again, check for restarts and for a CPU limit that is too low.",
	    COMMAND_USAGE);
}

/* Whether a cause that was found explains why the probe fails. */
static bool
is_explained(const struct judgement *j, const struct probe *probe)
{
	bool through_dnsmasq = server_equal(&probe->spec.server, &j->view->dnsmasq);

	if (probe->cause == CAUSE_NOT_READY)
		return j->blamed & (BLAMED_SYNC | BLAMED_KUBEDNS);
	if (is_answering(probe->cause))
		return false;
	return through_dnsmasq ? j->blamed & (BLAMED_DNSMASQ | BLAMED_KUBEDNS | BLAMED_UPSTREAM)
			       : j->blamed & BLAMED_KUBEDNS;
}

static void
judge_probe(struct judgement *j, const struct probe *probe)
{
	char server[SERVER_TEXT_MAX], since[FORMAT_MAX];
	bool decides = j->tally.client == 0 || is_client_path(j->view, probe);
	bool explained = is_explained(j, probe);

	if (probe->cause == CAUSE_OK) {
		judge_past(j, probe);
		return;
	}
	enum level level = explained                        ? LEVEL_NOTE
			   : clients_get_none(j) && decides ? LEVEL_DOWN
							    : LEVEL_DEGRADED;
	struct finding *finding = finding_add(j, level, probe->since_ns, "Probe %s: %s %s, for %s",
	    probe->spec.label, server_format(&probe->spec.server, server),
	    causes[probe->cause].says, verdict_ago(j->view, probe->since_ns, since));
	finding_brief(finding, "%s %s", probe->spec.label, causes[probe->cause].says);
	if (explained)
		finding_explain(j, finding, "This follows from the problem above.",
		    "Fix that problem first.", COMMAND_NONE);
	else
		finding_explain(j, finding, causes[probe->cause].meaning, causes[probe->cause].todo,
		    causes[probe->cause].command);
}

/* Judges failing servers first, then the servers that forward to them. */
void
judge_probes(struct judgement *j)
{
	const struct view *view = j->view;

	for (int through = 0; through < 2; through++)
		for (size_t i = 0; i < view->probe_count; i++) {
			const struct probe *probe = &view->probes[i];
			bool first = j->dnsmasq_answers && !is_answering(probe->cause) &&
				     !server_equal(&probe->spec.server, &view->dnsmasq);

			if (probe->asked && first == (through == 0))
				judge_probe(j, probe);
		}
}
