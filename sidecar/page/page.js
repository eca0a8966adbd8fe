/*
 * Fetches /status.json every 2.5 seconds and draws the page from it.
 *
 *	/status.json --> draw() --> one function per panel --> elements --> replaced where they differ
 *	/ask         --> the question box
 *
 * Names in the document come from the cluster, so an attacker may have chosen them. Text enters the page in one place only, clean(), and
 * only as text nodes and attribute values.
 */
"use strict";

const INTERVAL_MS = 2500, PENDING_MS = 150, TIMEOUT_MS = 4000;
const HISTORY_S = 600, BUCKETS = 60, BUCKET_S = HISTORY_S / BUCKETS;
const EVENTS_SHOWN = 30, STUBS_SHOWN = 40, ADDRESSES_SHOWN = 8;

/* Elements */

/* Characters that could mislead a reader: C0 except tab and newline, DEL, C1, line separators and
 * the marks that change the direction of writing. utf8_unsafe() in lib/utf8.h has the same list. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

function clean(text) {
	return String(text).replace(HIDDEN, "\ufffd");
}

/* Sets attributes and children of an element. Children are elements or text; null and false are skipped. */
function fill(element, attributes, children) {
	for (const [name, value] of Object.entries(attributes))
		if (value !== null && value !== false)
			element.setAttribute(name, clean(value));
	for (const child of children.flat(Infinity))
		if (child instanceof Node)
			element.append(child);
		else if (child !== null && child !== undefined && child !== false)
			element.append(clean(child));
	return element;
}

function html(tag, attributes, ...children) {
	return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
	return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function paragraph(kind, ...children) {
	return html("p", { class: kind }, ...children);
}

function command(text) {
	return html("pre", { class: "command", tabindex: 0 }, text);
}

/* Returns a panel of the page: the heading, a remark next to the heading, and the content. */
function panel(id, title, remark, ...children) {
	return html("section", { id, "aria-labelledby": "h-" + id },
		html("h2", { id: "h-" + id }, title, " ", html("small", {}, remark)), ...children);
}

/* Returns the first line of a card: the subject and its current state. */
function headline(title, now) {
	return html("div", { class: "top" }, html("h3", {}, title), paragraph("now", now));
}

/* Returns a list of figures. Each figure is below its name. */
function facts(pairs) {
	return html("dl", { class: "facts" },
		pairs.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value))));
}

/* Members of the configuration may have any type, because the nanny may have another version. */
const text = value => typeof value === "string" ? value : "";
const list = value => Array.isArray(value) ? value : [];
const object = value => value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};

/* Numbers for people */

const format = {
	ms(ms) {
		if (ms === null || !Number.isFinite(ms))
			return "-";
		if (ms < 0.995)
			return ms.toFixed(2) + " ms";
		if (ms < 9.95)
			return ms.toFixed(1) + " ms";
		return ms < 999.5 ? ms.toFixed(0) + " ms" : (ms / 1000).toFixed(1) + " s";
	},
	/* Shows at least two of a unit, so that 90 seconds do not become "1 minute". */
	duration(seconds) {
		for (const [size, unit] of [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]])
			if (seconds >= (size > 1 ? 2 * size : 1)) {
				const n = Math.floor(seconds / size);
				return `${n} ${unit}${n >= 2 ? "s" : ""}`;
			}
		return "less than a second";
	},
	count(count) {
		return Math.max(0, count || 0).toLocaleString("en-US", { maximumFractionDigits: 0 });
	},
	/* Rounds down, so that a ratio below 1 is never shown as 100 %. */
	percent(ratio) {
		return ratio === null ? "-" : (Math.floor(ratio * 1000) / 10).toFixed(1) + " %";
	},
	time(wall_s) {
		if (!(wall_s > 0) || wall_s > 253402300799)
			return "never";
		return new Date(wall_s * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC";
	},
	/* Rounds an estimate down to two digits. */
	about(value) {
		let unit = 1;
		for (; value >= 100; value /= 10)
			unit *= 10;
		return format.count(Math.floor(value) * unit);
	},
};

const sum = counts => counts.reduce((a, b) => a + b, 0);

/*
 * Charts of the last ten minutes. One unit of x is one second, so a plot is HISTORY_S wide. The plot stretches with the page. The labels of
 * the axes are HTML next to the plot, so their size does not change.
 */

/* Returns the shortest window of 2, 5 or 10 minutes that covers the time since the start. The charts of a new process are therefore not
 * almost empty. The oldest bucket may begin before the start, so the window also covers one bucket more. */
function window_s(uptime_s) {
	const oldest_s = uptime_s + BUCKET_S;
	return oldest_s < 120 ? 120 : oldest_s < 300 ? 300 : HISTORY_S;
}

/* Returns a chart with a horizontal line for each label. The labels are listed from top to bottom. */
function chart(title, seconds, labels, ...paths) {
	const grid = labels.map((_, i) => `M${HISTORY_S - seconds} ${(100 * i / (labels.length - 1)).toFixed(1)}H${HISTORY_S}`);
	return html("figure", { class: "chart" },
		svg("svg", { class: "plot", viewBox: `${HISTORY_S - seconds} 0 ${seconds} 100`, preserveAspectRatio: "none", role: "img" },
			svg("title", {}, title), svg("path", { class: "grid", d: grid.join("") }), ...paths),
		html("div", { class: "y", "aria-hidden": "true" }, labels.map(label => html("span", {}, label))),
		html("div", { class: "x", "aria-hidden": "true" },
			html("span", {}, `${seconds / 60} min ago`), html("span", {}, `${seconds / 120} min`), html("span", {}, "now")));
}

const path = (kind, d) => svg("path", { class: kind, d });

/* Returns the decades 10^low..10^high ms that contain both latencies. There are at least two decades. */
function decades(min_ms, max_ms) {
	const log = ms => Math.log10(Math.min(Math.max(ms, 1e-9), 1e9));
	const low = Math.min(Math.max(Math.floor(log(min_ms)), -2), 2);
	return [low, Math.max(Math.min(Math.ceil(log(max_ms)), 4), low + 2)];
}

function decade_label(decade) {
	return decade < 0 ? (10 ** decade).toFixed(-decade) + " ms" : decade < 3 ? 10 ** decade + " ms" : 10 ** (decade - 3) + " s";
}

/*
 * Returns a chart of latencies on a logarithmic axis of whole decades, so that a spike of 100 ms does not flatten the other points.
 * Failures are bars over the full height. `history` is [[ms ago, microseconds or failure], ...], with one point every `interval_s`.
 */
function latency_chart(title, seconds, history, interval_s) {
	const answered = history.filter(([, result]) => typeof result === "number").map(([, us]) => us / 1000);
	const [low, high] = answered.length > 0
		? decades(answered.reduce((a, b) => Math.min(a, b)), answered.reduce((a, b) => Math.max(a, b))) : [-1, 1];
	const y = ms => 100 * (1 - Math.min(Math.max((Math.log10(Math.max(ms, 1e-9)) - low) / (high - low), 0), 1));
	let line = "", last = null, before = null;
	const bars = { fail: "", wait: "" };
	for (const [ago_ms, result] of history) {
		const x = (HISTORY_S - ago_ms / 1000).toFixed(1);
		if (typeof result !== "number") {
			bars[result === "not_ready" ? "wait" : "fail"] += `M${x} 0V100`;
			before = null;
			continue;
		}
		/* Points that are far apart are not connected, because there is no measurement between them. A single point is a line of
		 * length 0. Because of its round ends, it looks like a dot. */
		const at = `${x} ${y(result / 1000).toFixed(1)}`, gap = before === null || before - ago_ms > 2500 * interval_s;
		line += gap ? `M${at}h0` : `L${at}`;
		before = ago_ms;
		last = at;
	}
	const labels = [];
	for (let decade = high; decade >= low; decade--)
		labels.push(decade_label(decade));
	return chart(title, seconds, labels, bars.fail && path("fail", bars.fail), bars.wait && path("wait", bars.wait),
		path("line", line), last && path("last", `M${last}h0`));
}

/* Returns the x coordinate of the middle of a bucket. The last bucket is the current bucket. */
const bucket_x = i => HISTORY_S - (BUCKETS - 1 - i + 0.5) * BUCKET_S;

/* Returns a chart of the share of `part` in `part + rest`. An empty bucket has no share, and the line continues to the next bucket. */
function ratio_chart(title, seconds, part, rest) {
	let line = "", last = null;
	part.forEach((count, i) => {
		if (count + rest[i] === 0)
			return;
		const at = `${bucket_x(i).toFixed(1)} ${(100 * (1 - count / (count + rest[i]))).toFixed(1)}`;
		line += last === null ? `M${at}h0` : `L${at}`;
		last = at;
	});
	return chart(title, seconds, ["100 %", "50 %", "0 %"], path("line", line), last && path("last", `M${last}h0`));
}

/* Returns the top of the axis for these counts: 1, 2 or 5 times a power of ten. */
function axis_top(counts) {
	const max = counts.reduce((a, b) => Math.max(a, b), 1);
	for (let decade = 1; ; decade *= 10)
		for (const step of [1, 2, 5])
			if (step * decade >= max)
				return step * decade;
}

/* Returns a chart of several series as stacked bars. A bucket covers ten seconds, but the labels are per second. */
function bar_chart(title, seconds, top, ...series) {
	const below = Array(BUCKETS).fill(0);
	const paths = series.map(([kind, counts]) => path(kind, counts.map((count, i) => {
		if (count === 0)
			return "";
		const y = 100 * (1 - below[i] / top), height = (100 * count / top).toFixed(1);
		below[i] += count;
		return `M${bucket_x(i) - 4} ${y.toFixed(1)}v-${height}h8v${height}z`;
	}).join("")));
	const label = top < BUCKET_S ? String(top / BUCKET_S) : format.count(Math.floor(top / BUCKET_S));
	return chart(title, seconds, [label + "/s", "0"], ...paths);
}

/* The verdict and what is wrong */

/* Each level has a shape and a word as well as a colour. */
const MARKS = {
	well: "M9 16.5l5 5 9.5-11",
	note: "M16 14v9M16 9v.1",
	starting: "M9 16h.1M16 16h.1M23 16h.1",
	degraded: "M16 8v10M16 23v.1",
	down: "M10.5 10.5l11 11M21.5 10.5l-11 11",
};

function mark(level) {
	return svg("svg", { class: "mark", viewBox: "0 0 32 32", "aria-hidden": "true" },
		svg("circle", { cx: 16, cy: 16, r: 15 }), path(null, MARKS[level]));
}

/* Returns a note that the page shows only one pod. An operator must also know whether the other pods work. */
function alone(doc) {
	return html("div", { class: "alone" },
		html("p", {}, `This is what ${doc.host} sees, one of several DNS pods. The other pods may work; each has its own page:`),
		command(doc.podsCommand));
}

function findings(doc) {
	const items = doc.findings.map(f => html("li", { class: f.level }, mark(f.level),
		html("div", {}, html("h3", {}, f.what), html("p", {}, f.meaning), paragraph("todo", f.todo), f.command !== "" && command(f.command))));
	const heading = doc.findings.some(f => f.level !== "note") ? "What is wrong, and what to do" : "Worth knowing";
	return html("section", { id: "findings", "aria-label": heading },
		items.length > 0 && [html("h2", {}, heading), html("ul", { class: "findings" }, items)],
		doc.moreFindings > 0 && html("p", {}, `And ${doc.moreFindings} more.`),
		(doc.level === "degraded" || doc.level === "down") && doc.surroundings === "pod" && alone(doc));
}

/* Probes */

const FAILURES = { timeout: "timeout", connection_refused: "connection refused", unreachable: "unreachable", malformed: "malformed", wrong_id: "wrong ID",
	nxdomain: "NXDOMAIN", servfail: "SERVFAIL", refused: "REFUSED", rcode: "other error", no_records: "no records" };

/* Returns " (timeout)" if all failures have the same cause, else for example " (5 timeout, 1 SERVFAIL)". */
function causes(probe) {
	const failures = Object.entries(probe.recentCauses).filter(([cause]) => cause !== "not_ready")
		.map(([cause, count]) => (count < probe.recentFailed ? count + " " : "") + (FAILURES[cause] || cause));
	return failures.length > 0 ? ` (${failures.join(", ")})` : "";
}

function probe_card(doc, probe) {
	const level = { waiting: "starting", ok: "well", not_ready: "degraded" }[probe.state] || "down";
	const now = probe.state === "waiting" ? "waiting" : probe.state === "ok" ? format.ms(probe.latencySeconds * 1000)
		: [probe.error, " ", html("small", {}, `for ${format.duration(probe.sinceSeconds)}`)];
	const ms = seconds => format.ms(seconds === null ? null : seconds * 1000);
	const title = `Latency of probe ${probe.label} over the last 10 minutes: median ${ms(probe.recentMedianSeconds)}, slowest ${ms(probe.recentMaxSeconds)}, ` +
		`${probe.recentFailed} of ${probe.recentQueries} failed.`;
	const figures = facts([["median", ms(probe.recentMedianSeconds)], ["99 % within", ms(probe.recentP99Seconds)], ["slowest", ms(probe.recentMaxSeconds)]]);
	figures.append(html("div", { class: "rest" }, html("dt", {}, "failed"), html("dd", {}, `${probe.recentFailed} of ${probe.recentQueries}${causes(probe)}`)));
	return html("article", { class: "card " + level },
		html("div", { class: "top" }, mark(level), html("h3", {}, probe.label), paragraph("now", now)),
		paragraph("what", html("code", {}, probe.name), " ", html("span", {}, probe.type), html("br", {}),
			`sent to ${probe.server} every ${probe.intervalSeconds}\u00a0s`),
		latency_chart(title, window_s(doc.uptimeSeconds), probe.history, probe.intervalSeconds * doc.historyStep), figures);
}

function probes(doc) {
	return panel("probes", "Probes", "latency, last 10 minutes; failures are marked",
		doc.probes.length === 0 && html("p", {}, "None. Give the sidecar a ", html("code", {}, "--probe"), ", and it sends real queries."),
		html("div", { class: "cards" }, doc.probes.map(probe => probe_card(doc, probe))));
}

/* Returns a note that the page shows `what` only to loopback clients. The note explains how to connect from loopback. */
function loopback_only(doc, what) {
	return paragraph("off", what, " to loopback peers only: ", doc.surroundings === "pod"
		? ["use ", html("code", {}, "kubectl port-forward"), "."] : "open the page on this machine itself.");
}

/* dnsmasq or unbound */

const engine = doc => doc.nanny !== null && doc.nanny.engine === "unbound" ? "unbound" : "dnsmasq";

/* Returns the panel of dnsmasq's cache. unbound has no statistics for the sidecar. */
function cache(doc) {
	const c = doc.dnsmasq;
	if (engine(doc) === "unbound")
		return null;
	const title = `Share of queries answered from the cache over the last 10 minutes: ${format.percent(c.recentHitRatio)}.`;
	const figures = [["size, records", format.count(c.cacheSize)], ["hits", format.count(c.hits)], ["misses", format.count(c.misses)],
		["inserted", format.count(c.insertions)], ["evicted", format.count(c.evictions)]];
	if (c.flushedTime !== null || c.restartedTime !== null)
		figures.push([c.flushedTime > c.restartedTime ? "emptied" : "restarted",
			format.duration(doc.time - Math.max(c.flushedTime, c.restartedTime)) + " ago"]);
	return panel("cache", "Cache", "dnsmasq", html("article", { class: c.up ? "card well" : "card stale" },
		!c.up && paragraph("off", `dnsmasq returns no statistics: ${c.error || "no query yet"}`, c.seen && ". The figures below are old."),
		c.seen && [headline("Answered from the cache", format.percent(c.recentHitRatio)),
			ratio_chart(title, window_s(doc.uptimeSeconds), c.recentHits, c.recentMisses), facts(figures)]));
}

function upstream(doc, u) {
	const queries = format.count(u.recentQueries), failed = format.count(u.recentFailed);
	const probe = doc.probes.find(p => p.server === u.server);
	return html("li", {},
		html("h3", {}, u.server, " ", html("small", {}, probe ? probe.label : "")),
		paragraph("figures", u.failure !== "" && [html("span", { class: "bad" }, u.failure), " "],
			html("span", {}, queries, u.recentQueries === 1 ? " query" : " queries"), " ",
			html("span", { class: u.recentFailed > 0 && "bad" }, failed, " failed")),
		u.recentQueries > 0 && upstream_chart(doc, u, `Queries to ${u.server} over the last 10 minutes: ${queries}, of which ${failed} failed.`));
}

/* A server about which only the sidecar's own queries say something: a tls:// server, or any server of unbound. */
function checked_server(s) {
	const use = [s.tlsName !== "" && `TLS, ${s.tlsName}`, s.domain !== "" && `for ${s.domain}`].filter(Boolean);
	const state = s.failing ? html("span", { class: "bad" }, s.failure) : html("span", {}, s.answered > 0 ? "answers" : "no answer yet");
	return html("li", {},
		html("h3", {}, s.server, " ", html("small", {}, use.join(", "))),
		paragraph("figures", state, ` for ${format.duration(s.sinceSeconds)}`));
}

/* Failed queries are included in all queries. The bar of all queries therefore has the bar of failed queries at the bottom. */
function upstream_chart(doc, u, title) {
	const fine = u.queriesOverTime.map((count, i) => Math.max(0, count - u.failedOverTime[i]));
	return bar_chart(title, window_s(doc.uptimeSeconds), axis_top(u.queriesOverTime), ["badbar", u.failedOverTime], ["bar", fine]);
}

function upstreams(doc) {
	const c = doc.dnsmasq, unbound = engine(doc) === "unbound", checked = doc.servers.filter(s => unbound || s.tlsName !== "");
	return panel("upstreams", "Upstreams", unbound ? "of unbound" : "of dnsmasq, last 10 minutes", html("article", { class: "card" },
		c.upstreamCount === 0 ? checked.length === 0 && paragraph("off", c.seen ? "None: dnsmasq has no upstream server." : "Unknown yet.")
			: !c.up && paragraph("off", "From the last statistics of dnsmasq. It returns none now."),
		!doc.mayAsk && loopback_only(doc, "Their addresses are shown"),
		html("ul", { class: "servers" }, c.upstreams.map(u => upstream(doc, u)), checked.map(checked_server))));
}

/* kubedns */

const RCODES = [["NOERROR", "bar"], ["NXDOMAIN", "softbar"], ["SERVFAIL", "badbar"], ["REFUSED", "badbar"], ["other", "badbar"]];

/* The answers to clients over time, by response code. */
function answers(doc) {
	const k = doc.kubedns;
	if (k === null || !k.seen)
		return null;
	const named = RCODES.map(([rcode, kind]) => ({ name: rcode === "other" ? "other errors" : rcode, kind, counts: k.answersOverTime[rcode],
		total: sum(k.answersOverTime[rcode]) }));
	const title = `kubedns's answers over the last 10 minutes: ${named.map(n => `${format.count(n.total)} ${n.name}`).join(", ")}.`;
	const all = named[0].counts.map((_, i) => sum(named.map(n => n.counts[i])));
	return panel("answers", "Answers", "of kubedns, last 10 minutes", html("article", { class: k.up ? "card well" : "card stale" },
		headline("By response code", [format.count(sum(all)), html("small", {}, " in total")]),
		bar_chart(title, window_s(doc.uptimeSeconds), axis_top(all), ...named.map(n => [n.kind, n.counts])),
		html("dl", { class: "facts legend" }, named.map(n => html("div", {}, html("dt", { class: n.kind }, n.name), html("dd", {}, format.count(n.total)))))));
}

/* Returns the memory in use, the limit, and the number of Services that still fit (docs/sizing.md). */
function memory(k) {
	const SERVICE_BYTES = 600, ENDPOINT_BYTES = 40; /* measured: tests/bench, 10,000 Services */
	const ENDPOINTS = 15; /* per Service */
	const NEAR = 0.85; /* fraction of the limit, as in the alert */
	if (k.memoryBytes === null)
		return null;
	const used = (k.memoryBytes / 1e6).toFixed(0);
	if (k.memoryLimitBytes === null)
		return paragraph("off", `Memory: ${used} MB; the container has no limit.`);
	const room = k.memoryLimitBytes * NEAR - k.memoryBytes, services = format.about(room / (SERVICE_BYTES + ENDPOINTS * ENDPOINT_BYTES));
	return paragraph("off", `Memory: ${used} of ${(k.memoryLimitBytes / 1e6).toFixed(0)} MB`,
		room > 0 && `; before the alert at 85\u00a0% there is room for about ${services} more Services of ${ENDPOINTS} endpoints each`, ".");
}

function resources(doc) {
	return html("table", {}, html("caption", {}, "What it watches"),
		html("thead", {}, html("tr", {}, ["resource", "synced", "newest event"].map(name => html("th", { scope: "col" }, name)))),
		html("tbody", {}, doc.kubedns.resources.map(r => html("tr", {}, html("th", { scope: "row" }, r.resource),
			html("td", { class: !r.synced && "bad" }, r.synced ? "yes" : "no"),
			html("td", {}, r.lastEventTime === null ? "none yet" : format.duration(Math.max(0, doc.time - r.lastEventTime)) + " ago")))));
}

function kubedns(doc) {
	const k = doc.kubedns;
	if (k === null || !k.seen)
		return null;
	const ready = k.ready && !k.silent;
	return panel("kubedns", "kubedns", "cluster names", html("article", { class: "card " + (!k.up ? "stale" : ready ? "well" : "degraded") },
		headline(k.source === "api" ? "Kubernetes API" : "Manifests", !k.up ? "no answer" : !k.ready ? "not ready" : k.silent ? "out of date" : "synced"),
		!k.up ? paragraph("off", `kubedns does not answer: ${k.error}. The figures below are old.`)
			: !k.ready && k.reasons !== "" && html("pre", { class: "reasons" }, k.reasons),
		k.source === "api" && resources(doc),
		facts(Object.entries(k.objects).map(([kind, count]) => [kind, format.count(count)])), memory(k)));
}

/* Returns links to the other DNS pods. Clients use all DNS pods, but this page shows only one pod. */
function neighbours(doc) {
	const k = doc.kubedns;
	if (k === null || !k.seen || k.neighbourCount === 0)
		return null;
	return panel("neighbours", "The other pods", "of the same Service", html("article", { class: "card" },
		!doc.mayAsk && loopback_only(doc, "Their addresses are shown"),
		html("ul", { class: "neighbours" }, k.neighbours.map(n => html("li", {},
			html("a", { href: `http://${n.address.includes(":") ? `[${n.address}]` : n.address}:${doc.port}/` }, n.address), " ",
			n.ready ? "ready" : html("span", { class: "bad" }, "not ready")))),
		paragraph("off", "From outside the cluster's network, the state of each pod:"), command("kubectl dns status")));
}

/* Top clients */

/* Returns a bar whose length is the ratio of `rate` to `heaviest`. */
function rate_bar(rate, heaviest) {
	return rate > 0 && heaviest >= rate && svg("svg", { class: "rate", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
		path(null, `M0 0h${(100 * rate / heaviest).toFixed(1)}v4H0z`));
}

function talkers(items, caption, who) {
	const columns = [who, "per second", "NXDOMAIN", "search list", "AAAA", "external"];
	const share = (part, whole) => html("td", {}, (whole > 0 ? 100 * part / whole : 0).toFixed(0) + "\u00a0%");
	return items.length > 0 && html("table", { class: "top-table" }, html("caption", {}, caption),
		html("thead", {}, html("tr", {}, columns.map(name => html("th", { scope: "col" }, name)))),
		html("tbody", {}, items.map(t => html("tr", {},
			html("th", { scope: "row" }, t.name,
				(t.name === "127.0.0.1" || t.name === "::1") && html("small", {}, "dnsmasq, for its clients, and the sidecar"),
				t.pod !== "" && html("small", {}, t.pod)),
			html("td", {}, t.perSecond < 10 ? t.perSecond.toFixed(1) : format.count(t.perSecond), rate_bar(t.perSecond, items[0].perSecond)),
			share(t.nxdomain, t.queries), share(t.searchWalk, t.queries), share(t.aaaa, t.queries), share(t.outside, t.queries)))));
}

/* Returns charts of the answers to the top clients over time. All charts have the same scale. A rate is estimated from a sample, so it has
 * two digits. */
function rates(doc, items) {
	const top = items.reduce((max, r) => Math.max(max, axis_top(r.answersOverTime)), 1);
	return items.length > 0 && [paragraph("over", "Answers per second by client, last 10 minutes; same scale for all"),
		html("ul", { class: "servers rates" }, items.map(r => {
			const most = r.answersOverTime.reduce((a, b) => Math.max(a, b), 0), rate = Math.round(most / BUCKET_S);
			const words = rate === 0 && most > 0 ? "less than 1" : format.about(rate);
			return html("li", {}, html("h3", {}, r.name, " ", html("small", {}, r.pod)), paragraph("figures", `at most ${words} a second`),
				bar_chart(`Answers to ${r.name} over the last 10 minutes: about ${words} a second at most.`, window_s(doc.uptimeSeconds), top,
					["bar", r.answersOverTime]));
		}))];
}

/* Returns the panel of the top clients and names of kubedns. In the classic topology, the only client is dnsmasq, which sends all its cache
 * misses. */
function top_clients(doc) {
	const k = doc.kubedns;
	if (k === null || !k.seen || !k.topKnown)
		return null;
	const quiet = k.topClients.length + k.topNames.length === 0;
	return panel("top", "Top clients", "and names, of kubedns, the last two minutes", html("article", { class: k.up ? "card well" : "card stale" },
		!doc.mayAsk ? loopback_only(doc, "Shown") : [
			quiet && paragraph("off", "Too few queries in the last two minutes to rank."),
			html("div", { class: "tops" }, talkers(k.topClients, "Clients", "address"), talkers(k.topNames, "Names", "name")),
			rates(doc, k.topRates)]));
}

/* The configuration in force, from the nanny */

/* Returns the addresses of a stub server that is given by name. `server` is "name:port", but the names in the configuration have no port. */
function resolved(config, server) {
	const name = list(config.names).map(object).find(n => text(n.name) !== "" && server.startsWith(n.name + ":"));
	if (!name)
		return null;
	const addresses = list(name.addresses).slice(0, ADDRESSES_SHOWN).map(a => text(object(a).address));
	return addresses.length === 0 ? [" ", html("span", { class: "bad" }, "not resolved")]
		: addresses.map((address, i) => [" ", html("small", {}, (i === 0 ? "is " : "") + address)]);
}

function servers_row(config, heading, servers) {
	return html("tr", {}, html("th", { scope: "row" }, heading), servers.length === 0 ? html("td", { class: "bad" }, "none")
		: html("td", {}, servers.filter(s => typeof s === "string").map((s, i) => [i > 0 && html("br", {}), html("code", {}, s), resolved(config, s)])));
}

function refusal(title, reason, effect) {
	return paragraph("refused degraded", html("strong", {}, title), " ", reason, effect && [" ", html("small", {}, effect)]);
}

function in_force(doc, config) {
	const others = object(config.upstreams), stubs = object(config.stubDomains);
	const domains = Object.entries(object(stubs.inForce)).filter(([, servers]) => Array.isArray(servers));
	const more = Math.max(Number(stubs.count) || 0, domains.length) - Math.min(domains.length, STUBS_SHOWN);
	return [headline("In force", config.confirmed === false ? "not confirmed" : "confirmed"),
		text(config.confirmedAt) !== "" && paragraph("what", `by ${engine(doc)}, `, html("time", {}, config.confirmedAt)),
		list(config.refused).map(object).map(r => refusal(`Refused: ${text(r.key)}`, text(r.reason),
			r.partly === true ? (r.closed === true ? "The names of a stub domain get SERVFAIL. " : "") + "The other entries are in force."
				: r.closed === true ? "Its names get SERVFAIL: it asks, or seems to ask, for encryption, and there was no good value before it."
				: r.previousInForce === false ? "There was no good value before it." : "The last good value is in force.")),
		text(others.refused) !== "" && refusal("Not used:", others.refused, ""),
		html("table", {}, html("caption", {}, "Servers by domain"),
			html("thead", {}, html("tr", {}, html("th", { scope: "col" }, "domain"), html("th", { scope: "col" }, "servers"))),
			html("tbody", {},
				domains.slice(0, STUBS_SHOWN).map(([domain, servers]) => servers_row(config, html("code", {}, domain), servers)),
				more > 0 && html("tr", {}, html("td", { colspan: 2 }, `and ${more} more stub domains`)),
				Array.isArray(others.servers) && servers_row(config, ["every other name ", html("small", {}, text(others.source))], others.servers)))];
}

function config(doc) {
	const n = doc.nanny;
	if (n === null || !n.seen)
		return null;
	return panel("config", "Configuration", doc.surroundings === "pod" ? "ConfigMap kube-dns" : "upstreams and stub domains",
		html("article", { class: "card " + (!n.up ? "stale" : n.refusedKeys.length > 0 ? "degraded" : "well") },
			!n.up && paragraph("off", `The nanny does not answer: ${n.error}. The figures below are old.`),
			doc.mayAsk ? in_force(doc, object(n.config)) : loopback_only(doc, "It lists the cluster, and is shown")));
}

/* The journal */

function journal(doc) {
	if (doc.events.length === 0)
		return null;
	return panel("journal", "What changed", "newest first, the last day" + (doc.journalKept ? "" : ", since the sidecar's start"),
		html("article", { class: "card" }, html("table", {}, html("caption", {}, "Causes, probes, configurations, restarts"),
			html("thead", {}, html("tr", {}, html("th", { scope: "col" }, "when"), html("th", { scope: "col" }, "what"))),
			html("tbody", {}, doc.events.slice(0, EVENTS_SHOWN).map(event => html("tr", {},
				html("th", { scope: "row" }, html("time", {}, format.time(event.time))),
				html("td", { class: (event.level === "degraded" || event.level === "down") && "bad" }, event.what)))))));
}

/* Drawing */

const PANELS = { findings, probes, top: top_clients, answers, cache, upstreams, kubedns, config, neighbours, journal };
const by_id = id => document.getElementById(id);
let shown = null; /* the document that the page shows */

/* Whether the focus or a selection is in the panel. The page does not replace such a panel before the next update. */
function busy(part) {
	const selection = getSelection();
	return part.contains(document.activeElement) || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
}

/* Sets the heading. The heading is a live region, and screen readers read each change aloud. The heading is therefore changed only if its
 * text changes. */
function say(sentence, level) {
	const heading = document.querySelector("h1"), icon = document.querySelector("link[rel=icon]");
	if (heading.textContent !== clean(sentence))
		heading.textContent = clean(sentence);
	document.title = clean(sentence) + " - cluster DNS";
	if (!icon.href.endsWith("#" + level))
		icon.href = "/icon.svg#" + level;
	by_id("verdict").className = "verdict " + level;
	document.querySelector("#verdict .mark").replaceWith(mark(level));
}

function reveal() {
	for (const part of document.querySelectorAll("header, main, footer"))
		part.hidden = false;
}

/* Draws the question box. If the client may not use the box, the page shows how to get access. */
function question_box(doc) {
	by_id("ask").hidden = !doc.mayAsk;
	if (!doc.mayAsk)
		show_answer(paragraph("off", "Only loopback clients may send queries: ",
			doc.surroundings === "pod" ? ["use ", html("code", {}, "kubectl port-forward"), " to this pod, or "] : "open the page on this machine itself, or ",
			"start the sidecar with ", html("code", {}, "--debug-remote"), "."));
}

function draw(doc) {
	for (const [id, make] of Object.entries(PANELS)) {
		const old = by_id(id), fresh = make(doc) || html("section", { id, hidden: "" });
		if (!old.isEqualNode(fresh) && !busy(old))
			old.replaceWith(fresh);
	}
	say(doc.sentence, doc.level);
	document.querySelector(".host").textContent = clean(doc.host);
	by_id("when").textContent = "As of " + format.time(doc.time);
	by_id("draining").hidden = !doc.draining;
	by_id("metrics").setAttribute("href", clean(doc.metricsPath));
	by_id("foot").textContent = clean(`sidecar ${doc.version}, up for ${format.duration(doc.uptimeSeconds)}`);
	question_box(doc);
	document.body.classList.remove("stale-page");
	reveal();
	shown = doc;
}

/* Marks the page as stale. If the sidecar does not answer, the page must not show the last verdict as the current verdict. */
function stale(error) {
	const why = error.status ? `The sidecar answers with an error (${error.status})` : "No answer from the sidecar";
	const since = shown === null ? "this page was opened" : format.time(shown.time);
	by_id("when").textContent = `${why} since ${since}. ${shown === null ? "" : "The data below are from that time. "}The page keeps trying.`;
	if (shown === null)
		say("The sidecar does not answer", "starting");
	document.title = "No answer from the sidecar - cluster DNS";
	document.body.classList.add("stale-page");
	reveal();
}

/* Updates */

let paused = false, timer = 0, asking = 0;

async function get(url) {
	const response = await fetch(url, { cache: "no-store", headers: { Accept: "application/json" }, signal: AbortSignal.timeout(TIMEOUT_MS) });
	if (!(response.headers.get("Content-Type") || "").startsWith("application/json"))
		throw Object.assign(new Error(await response.text() || response.statusText), { status: response.status });
	return response.json();
}

async function update() {
	clearTimeout(timer);
	if (!paused && !document.hidden) {
		try {
			const doc = await get("/status.json");
			/* the sidecar now has another version, with another page */
			if (shown !== null && shown.version !== doc.version)
				location.reload();
			draw(doc);
		} catch (error) {
			stale(error);
		}
	}
	clearTimeout(timer);
	timer = setTimeout(update, INTERVAL_MS);
}

/* The question box */

function show_answer(...children) {
	const node = html("div", { id: "answer", role: "status" }, ...children);
	if (!by_id("answer").isEqualNode(node))
		by_id("answer").replaceWith(node);
	return node;
}

/* The upstream and stub servers that fail, or false if there are none. */
function failing_servers() {
	const failing = shown === null ? [] : shown.servers.filter(s => s.failing);
	return failing.length > 0 && html("ul", {}, failing.map(s => html("li", {},
		s.domain !== "" ? `stub domain ${s.domain}` : "upstream", ` server ${s.server} `, html("span", { class: "bad" }, s.failure))));
}

function answer(a) {
	const ok = a.cause === "ok";
	return [html("div", { class: ok ? "top well" : "top degraded" },
		html("h3", {}, html("code", {}, a.name), " ", a.type), paragraph("now", ok ? "answered" : a.outcome)),
	paragraph("what", `sent to ${a.server}, ${format.ms(a.latencySeconds * 1000)}`, a.overTcp && ", over TCP"),
	a.records.length > 0 ? html("pre", { tabindex: 0 }, a.records.join("\n"))
		: a.cause === "no_records" ? html("p", {}, "The name exists; it has no record of this type.")
			: a.cause === "nxdomain" && html("p", {}, "There is no such name. This query does not use a search list; a pod would also try its own (",
				html("code", {}, ".svc.cluster.local"), " and so on)."),
	!ok && a.cause !== "nxdomain" && a.cause !== "no_records" && failing_servers(),
	html("h4", {}, "Why"),
	a.why !== null ? html("pre", { tabindex: 0 }, a.why.join("\n"))
		: paragraph("off", a.whyError !== "" ? `kubedns returned no explanation: ${a.whyError}` : "The sidecar has no kubedns to explain it (--kubedns-url is empty).")];
}

/* Sends a query. The sidecar returns "asking" until it has an answer, and the page repeats the request. */
async function ask(query) {
	const mine = ++asking;
	query.set("format", "json");
	show_answer(paragraph("off", "Asking\u2026")).setAttribute("data-pending", "");
	try {
		for (;;) {
			const a = await get("/ask?" + query);
			if (mine !== asking)
				return;
			if (a.state !== "asking") {
				show_answer(a.state === "refused" ? paragraph("bad", a.error) : answer(a));
				return;
			}
			await new Promise(resolve => setTimeout(resolve, PENDING_MS));
		}
	} catch (error) {
		if (mine === asking)
			show_answer(paragraph("bad", error.message || error));
	}
}

by_id("pause").addEventListener("click", () => {
	paused = !paused;
	by_id("pause").textContent = paused ? "Resume updates" : "Pause updates";
	if (!paused)
		update();
});
by_id("ask").addEventListener("submit", event => {
	event.preventDefault();
	const query = new URLSearchParams(new FormData(event.target));
	history.replaceState(null, "", "/ask?" + query); /* an address that people can share and reload */
	ask(query);
});
document.addEventListener("visibilitychange", () => document.hidden || update());

/* If the page's address is /ask?name=..., fill in the question box and show the answer. */
if (location.pathname === "/ask") {
	const query = new URLSearchParams(location.search), type = query.get("type");
	by_id("ask").elements.name.value = query.get("name") || "";
	if ([...by_id("ask").elements.type.options].some(option => option.value === type))
		by_id("ask").elements.type.value = type;
	ask(query);
}
update();
