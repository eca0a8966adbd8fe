/*
 * The rule about probes: a probe that fails, or failed in the last minutes, is a finding with its meaning
 * and with what to do. If a cause explains the failure already, the finding is only a note.
 */
#include <math.h>
#include <stdio.h>

#include "lib/clock.h"
#include "sidecar/format.h"
#include "sidecar/verdict/rules.h"

/* What each way to fail means, and where to look. */
static const struct {
	const char *says, *meaning, *todo;
	enum command command;
} causes[CAUSE_COUNT] = {
	[CAUSE_NOT_READY] = { "is waiting for its first sync",
	    "The server is alive, but it has not read the cluster's Services yet. Until it has, "
	    "cluster names are answered with SERVFAIL; other names work.",
	    "Can kubedns reach the API server, and may it list services and endpointslices?",
	    COMMAND_LOGS_KUBEDNS },
	[CAUSE_TIMEOUT] = { "does not answer",
	    "The question was sent and nothing came back in time: the process hangs, is starved of "
	    "CPU, or its packets are dropped.",
	    "Does the process get CPU, and does it restart?", COMMAND_USAGE },
	[CAUSE_CONNECTION_REFUSED] = { "refuses connections",
	    "No process listens at that address and port.",
	    "Is the server running, and does it listen there?", COMMAND_RUNNING },
	[CAUSE_UNREACHABLE] = { "cannot be reached",
	    "The network says that there is no way to that address.",
	    "Check the address in --probe, and the network interfaces.", COMMAND_NONE },
	[CAUSE_MALFORMED] = { "answers with something that is not DNS",
	    "Bytes came back that are no DNS message, or that answer another question.",
	    "Check the address and port in --probe: another program may be listening there.",
	    COMMAND_NONE },
	[CAUSE_WRONG_ID] = { "answers with the wrong ID",
	    "Replies came back whose ID is not that of the question: a broken server or proxy, or "
	    "somebody who guesses.",
	    "See who answers there; the replies were not used.", COMMAND_NONE },
	[CAUSE_NXDOMAIN] = { "says that the name does not exist",
	    "The server is alive and answers, but the probed name is unknown to it.",
	    "Does the probed Service exist, and is --domain the cluster's domain?",
	    COMMAND_SERVICES },
	[CAUSE_SERVFAIL] = { "answers with SERVFAIL",
	    "The server is alive, but it could not find an answer: usually whoever it asks in turn "
	    "is away.",
	    "For dnsmasq look at kubedns and the upstream servers below, for kubedns at its "
	    "upstreams.",
	    COMMAND_LOGS_KUBEDNS },
	[CAUSE_REFUSED] = { "answers with REFUSED",
	    "The server will not answer: it has no server for this name, or too many questions are "
	    "waiting already.",
	    "Check the servers in force below, and dnsmasq's --dns-forward-max.",
	    COMMAND_LOGS_DNSMASQ },
	[CAUSE_RCODE] = { "answers with an error",
	    "The server is alive, and rejects the question itself.",
	    "Is it a DNS server for this zone? The error code is shown with the probe.",
	    COMMAND_NONE },
	[CAUSE_NO_RECORDS] = { "has no such records",
	    "The name exists, but not with the record type that the probe asks for.",
	    "Check name and type in --probe.", COMMAND_NONE },
};

const char *
cause_says(enum cause cause)
{
	return causes[cause].says;
}

/* Answered now, but often not in the last minutes: worth knowing, no reason for alarm. */
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
	    "It is answered now. The chart shows when it was not, and the figures under it why.",
	    "If it happens again, look for restarts and for a CPU limit that is too low.",
	    COMMAND_USAGE);
}

/* Whether a cause that was found is why the probe fails. */
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
		finding_explain(j, finding, "This follows from the problem that is named above.",
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
