#include <json-c/json.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "migrate/report.h"
#include "lib/xalloc.h"

struct finding {
	char *where, *text, *sentence;
	enum verdict verdict;
};

struct list {
	char **items;
	size_t count;
};

/* data: the ConfigMap's stubDomains and upstreamNameservers, as they are to be written. */
struct report {
	struct finding *findings;
	size_t count;
	struct list flags[PROGRAM_COUNT];
	struct json_object *stubs, *upstreams;
	char *domain, *cluster_ip;
	char *coredns; /* the Deployment's name, of which there are so many */
	int coredns_replicas;
	struct list texts[TEXT_KEY_COUNT]; /* lines of the ConfigMap's other keys */
};

struct report *
report_new(void)
{
	struct report *r = xcalloc(1, sizeof *r);
	r->stubs = json_object_new_object();
	r->upstreams = json_object_new_array();
	return r;
}

void
report_free(struct report *r)
{
	for (size_t i = 0; i < r->count; i++) {
		free(r->findings[i].where);
		free(r->findings[i].text);
		free(r->findings[i].sentence);
	}
	free(r->findings);
	for (int p = 0; p < PROGRAM_COUNT; p++) {
		for (size_t i = 0; i < r->flags[p].count; i++)
			free(r->flags[p].items[i]);
		free(r->flags[p].items);
	}
	for (int key = 0; key < TEXT_KEY_COUNT; key++) {
		for (size_t i = 0; i < r->texts[key].count; i++)
			free(r->texts[key].items[i]);
		free(r->texts[key].items);
	}
	json_object_put(r->stubs);
	json_object_put(r->upstreams);
	free(r->domain);
	free(r->cluster_ip);
	free(r->coredns);
	free(r);
}

/* Without control characters: a comment must stay on its line. Returns `text`. */
static char *
printable(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	return text;
}

/* How many words of a line may be printed: people mail reports to each other, so secrets (of tsig, azure,
 * route53, etcd, and of plugins that are not CoreDNS's own) are left out, in misspelled options and after
 * an option on the plugin's own line too. */
static size_t
public_words(const struct corefile_line *line)
{
	static const struct {
		const char *option;
		bool named; /* NAME SECRET, where the other form is SECRET alone */
	} secrets[] = { { "secret", true }, { "credentials", true }, { "aws_access_key", false },
		{ "password", false }, { "token", false } };

	for (size_t at = 0; at + 1 < line->count; at++)
		for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
			if (strcasecmp(line->words[at], secrets[i].option) == 0)
				return at + (secrets[i].named && line->count == at + 3 ? 2 : 1);
	return line->count;
}

/* The words of a line with one blank between them, on one line and not longer than a screen. */
static char *
line_text(const struct corefile_line *line)
{
	char *text = NULL;
	size_t len = 0, count = public_words(line);
	FILE *f = open_memstream(&text, &len);
	for (size_t i = 0; i < count && ftell(f) < 200; i++)
		fprintf(f, "%s%.200s", i ? " " : "", line->words[i]);
	if (count < line->count)
		fputs(" (not printed)", f);
	fclose(f);
	return printable(text);
}

void
report_line(
    struct report *r, const struct corefile_line *line, enum verdict verdict, const char *fmt, ...)
{
	va_list args;
	char *sentence = NULL;
	va_start(args, fmt);
	if (vasprintf(&sentence, fmt, args) < 0)
		abort();
	va_end(args);
	if ((r->count & (r->count - 1)) == 0)
		r->findings =
		    xreallocarray(r->findings, r->count ? 2 * r->count : 1, sizeof *r->findings);
	r->findings[r->count++] = (struct finding){
		.where =
		    line->line ? xasprintf("%s:%u", line->file, line->line) : xstrdup(line->file),
		.text = line_text(line),
		.sentence = printable(sentence),
		.verdict = verdict,
	};
}

/* Bytes of `flag` up to its `=`. */
static size_t
flag_name_len(const char *flag)
{
	return strcspn(flag, "=");
}

/* Flags that may come more than once, each time with another value. */
static bool
repeats(const char *flag)
{
	static const char *const names[] = { "--host-record", "--address", "--local", "--cname",
		"--addn-hosts", "--server", "--external-zones", "--transfer-to",
		"--transfer-notify" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (flag_name_len(flag) == strlen(names[i]) &&
		    strncmp(flag, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

void
report_flag(struct report *r, enum program program, const char *fmt, ...)
{
	va_list args;
	char *flag = NULL;
	va_start(args, fmt);
	if (vasprintf(&flag, fmt, args) < 0)
		abort();
	va_end(args);
	struct list *list = &r->flags[program];
	size_t same = repeats(flag) ? strlen(flag) + 1 : flag_name_len(flag);
	for (size_t i = 0; i < list->count; i++)
		if (flag_name_len(list->items[i]) == flag_name_len(flag) &&
		    strncmp(list->items[i], flag, same) == 0) {
			free(list->items[i]);
			list->items[i] = flag;
			return;
		}
	if ((list->count & (list->count - 1)) == 0)
		list->items = xreallocarray(
		    list->items, list->count ? 2 * list->count : 1, sizeof *list->items);
	list->items[list->count++] = flag;
}

void
report_server(struct report *r, const char *domain, const char *text)
{
	struct json_object *servers = r->upstreams;
	if (domain != NULL && !json_object_object_get_ex(r->stubs, domain, &servers)) {
		servers = json_object_new_array();
		json_object_object_add(r->stubs, domain, servers);
	}
	json_object_array_add(servers, json_object_new_string(text));
}

bool
report_domain(struct report *r, const char *domain)
{
	bool name = domain[strspn(domain, "abcdefghijklmnopqrstuvwxyz0123456789.-_")] == '\0';
	if (r->domain == NULL && name)
		r->domain = xstrdup(domain);
	return r->domain && strcmp(r->domain, domain) == 0;
}

const char *
report_known_domain(const struct report *r)
{
	return r->domain ? r->domain : "cluster.local";
}

void
report_cluster_ip(struct report *r, const char *address)
{
	struct addr addr;
	if (r->cluster_ip == NULL && addr_parse(address, &addr) == 0)
		r->cluster_ip = xstrdup(address);
}

void
report_coredns(struct report *r, const char *deployment, int replicas)
{
	if (r->coredns != NULL || *deployment == '\0' || strcmp(deployment, "kube-dns") == 0)
		return;
	r->coredns = printable(xstrdup(deployment));
	r->coredns_replicas = replicas;
}

void
report_text(struct report *r, enum text_key key, const char *fmt, ...)
{
	va_list args;
	char *line = NULL;
	va_start(args, fmt);
	if (vasprintf(&line, fmt, args) < 0)
		abort();
	va_end(args);
	struct list *lines = &r->texts[key];
	lines->items = xreallocarray(lines->items, lines->count + 1, sizeof *lines->items);
	lines->items[lines->count++] = printable(line);
}

static void
print_verdicts(const struct report *r, const char *source, FILE *out)
{
	static const char *const words[] = { [VERDICT_CARRIED] = "carried over",
		[VERDICT_CHANGES] = "changes",
		[VERDICT_NONE] = "NO EQUIVALENT" };
	size_t sums[VERDICT_COUNT] = { 0 };
	for (size_t i = 0; i < r->count; i++)
		sums[r->findings[i].verdict]++;
	fprintf(out, "# From %s: %zu lines carried over, %zu change, %zu have no equivalent.\n",
	    source, sums[VERDICT_CARRIED], sums[VERDICT_CHANGES], sums[VERDICT_NONE]);
	for (size_t i = 0; i < r->count; i++) {
		const struct finding *f = &r->findings[i];
		fprintf(out, "#\n# %s: %s\n#     %s: %s\n", f->where, f->text, words[f->verdict],
		    f->sentence);
	}
}

static void
print_steps(const struct report *r, FILE *out)
{
	fprintf(out,
	    "#\n# What to do, below conf/kubernetes:\n"
	    "#  1. settings/settings.yaml: clusterDomain: %s, clusterIP: %s, registry: where you "
	    "pushed the images\n"
	    "#  2. kubectl apply -f of the ConfigMap below, if there is one\n"
	    "#  3. save the Kustomization below as mine/kustomization.yaml; conf/kubernetes/check "
	    "mine; kubectl apply -k conf/kubernetes/mine\n"
	    "#  4. kubectl -n kube-system rollout status deployment/kube-dns; conf/kubernetes/"
	    "compare OLD NEW asks both the cluster's names and says what differs: the addresses "
	    "of a pod each (kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide)\n",
	    report_known_domain(r),
	    r->cluster_ip ? r->cluster_ip
			  : "the address of the Service that pods ask (kubectl -n kube-system get "
			    "service kube-dns)");
	if (r->coredns != NULL)
		fprintf(out,
		    "#  5. both answer now: kubectl -n kube-system scale deployment/kube-dns "
		    "--replicas=%d; when its rollout is through, kubectl -n kube-system scale "
		    "deployment/%s --replicas=0. Back: the other way round\n",
		    r->coredns_replicas > 0 ? r->coredns_replicas : 2, r->coredns);
	fputs("# Topology: classic as below, or front: with Helm topology: front; in the "
	      "kustomization `components: [../components/front]`, where dnsmasq's args/9 is "
	      "args/12 and args/10 is args/13.\n",
	    out);
	fputs("# With Helm in place of 1 to 3: save the last part as values.yaml, and helm -n "
	      "kube-system install kube-dns conf/helm/kubedns -f values.yaml\n",
	    out);
}

/* A string in YAML, in double quotes; JSON's are among them. */
static void
print_quoted(const char *text, FILE *out)
{
	struct json_object *string = json_object_new_string(text);
	fputs(json_object_to_json_string_ext(string, JSON_C_TO_STRING_NOSLASHESCAPE), out);
	json_object_put(string);
}

static void
print_key(const char *key, struct json_object *value, FILE *out)
{
	fprintf(out, "  %s: |\n    %s\n", key,
	    json_object_to_json_string_ext(value, JSON_C_TO_STRING_NOSLASHESCAPE));
}

static const char *const text_key_names[TEXT_KEY_COUNT] = {
	[TEXT_HOSTS] = "hosts", [TEXT_RECORDS] = "records", [TEXT_REWRITES] = "rewrites"
};

/* The keys that are text, each line of them behind `indent`. */
static void
print_texts(const struct report *r, const char *indent, FILE *out)
{
	for (int key = 0; key < TEXT_KEY_COUNT; key++) {
		const struct list *lines = &r->texts[key];
		if (lines->count > 0)
			fprintf(out, "%s%s: |\n", indent, text_key_names[key]);
		for (size_t i = 0; i < lines->count; i++)
			fprintf(out, "%s  %s\n", indent, lines->items[i]);
	}
}

static void
print_configmap(const struct report *r, FILE *out)
{
	bool stubs = json_object_object_length(r->stubs) > 0;
	bool upstreams = json_object_array_length(r->upstreams) > 0;
	bool texts = false;
	for (int key = 0; key < TEXT_KEY_COUNT; key++)
		texts |= r->texts[key].count > 0;
	if (!stubs && !upstreams && !texts) {
		fprintf(out, "#\n# No ConfigMap is needed: names outside go where the node's "
			     "resolv.conf says.\n");
		return;
	}
	fprintf(out, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kube-dns\n"
		     "  namespace: kube-system\ndata:\n");
	if (stubs)
		print_key("stubDomains", r->stubs, out);
	if (upstreams)
		print_key("upstreamNameservers", r->upstreams, out);
	print_texts(r, "  ", out);
}

/* Where conf/kubernetes/base has a flag of dnsmasq's that may come only once: its place and text. */
static const struct {
	unsigned at;
	const char *text;
} manifest_flags[] = { { 9, "--cache-size=1000" }, { 10, "--dns-forward-max=6000" } };

static void
print_flag(enum program program, const char *flag, FILE *out)
{
	const char *path = "/spec/template/spec/containers";
	for (size_t i = 0; program == PROGRAM_DNSMASQ && i < 2; i++) {
		size_t len = flag_name_len(flag);
		if (strncmp(manifest_flags[i].text, flag, len + 1) != 0)
			continue;
		fprintf(out, "      - { op: test, path: %s/1/args/%u, value: \"%s\" }\n", path,
		    manifest_flags[i].at, manifest_flags[i].text);
		fprintf(out, "      - { op: replace, path: %s/1/args/%u, value: ", path,
		    manifest_flags[i].at);
		print_quoted(flag, out);
		fprintf(out, " }\n");
		return;
	}
	fprintf(out, "      - { op: add, path: %s/%d/args/-, value: ", path, (int)program);
	print_quoted(flag, out);
	fprintf(out, " }\n");
}

static void
print_overlay(const struct report *r, FILE *out)
{
	fprintf(out, "---\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
		     "resources:\n  - ../replace-kube-dns\n");
	if (r->flags[PROGRAM_KUBEDNS].count + r->flags[PROGRAM_DNSMASQ].count == 0)
		return;
	fprintf(out, "patches:\n  - target: { kind: Deployment, name: kube-dns }\n    patch: |-\n");
	for (int p = 0; p < PROGRAM_COUNT; p++)
		for (size_t i = 0; i < r->flags[p].count; i++)
			print_flag((enum program)p, r->flags[p].items[i], out);
}

/* A list of flags as a value of the chart. */
static void
print_value(const char *key, const struct list *flags, FILE *out)
{
	if (flags->count == 0)
		return;
	fprintf(out, "  %s:\n", key);
	for (size_t i = 0; i < flags->count; i++) {
		fprintf(out, "    - ");
		print_quoted(flags->items[i], out);
		fputc('\n', out);
	}
}

/* The same for conf/helm/kubedns. */
static void
print_values(const struct report *r, FILE *out)
{
	const int form = JSON_C_TO_STRING_NOSLASHESCAPE;
	fprintf(out,
	    "---\n# values.yaml\nregistry: \"\" # where you pushed the images\n"
	    "clusterDomain: %s\nservice: { clusterIP: \"%s\" }\n",
	    report_known_domain(r), r->cluster_ip ? r->cluster_ip : "");
	if (json_object_object_length(r->stubs) > 0)
		fprintf(out, "stubDomains: %s\n", json_object_to_json_string_ext(r->stubs, form));
	if (json_object_array_length(r->upstreams) > 0)
		fprintf(out, "upstreamNameservers: %s\n",
		    json_object_to_json_string_ext(r->upstreams, form));
	print_texts(r, "", out);
	if (r->flags[PROGRAM_KUBEDNS].count > 0)
		fprintf(out, "kubedns:\n");
	print_value("extraArgs", &r->flags[PROGRAM_KUBEDNS], out);
	if (r->flags[PROGRAM_DNSMASQ].count > 0)
		fprintf(out, "nanny:\n");
	print_value("dnsmasqArgs", &r->flags[PROGRAM_DNSMASQ], out);
}

void
report_print(const struct report *r, const char *source, FILE *out)
{
	print_verdicts(r, source, out);
	print_steps(r, out);
	print_configmap(r, out);
	print_overlay(r, out);
	print_values(r, out);
}
