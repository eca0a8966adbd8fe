#include <json-c/json.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "migrate/report.h"
#include "lib/conf.h"
#include "lib/xalloc.h"

struct finding {
	char *file;    /* name of the file or key */
	unsigned line; /* 0 if it is not about a line of a text */
	char *text, *sentence;
	enum verdict verdict;
	size_t next;  /* index of the next finding with the same verdict, file and sentence, or 0 */
	bool follows; /* such a finding comes before this one */
};

struct list {
	char **items;
	size_t count;
};

/* The collected report. `stubs` and `upstreams` are keys of the ConfigMap in the printed form. `indices` maps each flag to its index in
 * `flags`. If a flag may be given only once, `indices` maps the name of the flag. */
struct report {
	enum topology topology;
	struct finding *findings;
	size_t count;
	struct json_object *known; /* the findings as texts: several blocks may import one line */
	struct list flags[PROGRAM_COUNT];
	struct json_object *indices[PROGRAM_COUNT];
	struct json_object *stubs, *upstreams;
	char *domain, *cluster_ip;
	char *placeholder; /* text in the input instead of the domain, or NULL */
	char *coredns;     /* name of CoreDNS's Deployment */
	int coredns_replicas;
	int old_port; /* of CoreDNS's pods, or 0 for 53 */
	bool reads_pods, unbound, tls;
	bool in_place; /* the old DNS is kube-dns, whose Deployment is replaced */
	struct list texts[TEXT_KEY_COUNT]; /* lines of the ConfigMap's other keys */
};

struct report *
report_new(enum topology topology)
{
	struct report *r = xcalloc(1, sizeof *r);

	r->topology = topology;
	r->known = json_object_new_object();
	r->stubs = json_object_new_object();
	r->upstreams = json_object_new_array();
	for (int p = 0; p < PROGRAM_COUNT; p++)
		r->indices[p] = json_object_new_object();
	return r;
}

static void
list_free(struct list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
}

/* Takes `item`. */
static void
list_add(struct list *list, char *item)
{
	if ((list->count & (list->count - 1)) == 0)
		list->items = xreallocarray(
		    list->items, list->count ? 2 * list->count : 1, sizeof *list->items);
	list->items[list->count++] = item;
}

static void
finding_free(struct finding *finding)
{
	free(finding->file);
	free(finding->text);
	free(finding->sentence);
}

void
report_free(struct report *r)
{
	for (size_t i = 0; i < r->count; i++)
		finding_free(&r->findings[i]);
	free(r->findings);
	json_object_put(r->known);
	for (int p = 0; p < PROGRAM_COUNT; p++) {
		list_free(&r->flags[p]);
		json_object_put(r->indices[p]);
	}
	for (int key = 0; key < TEXT_KEY_COUNT; key++)
		list_free(&r->texts[key]);
	json_object_put(r->stubs);
	json_object_put(r->upstreams);
	free(r->domain);
	free(r->cluster_ip);
	free(r->placeholder);
	free(r->coredns);
	free(r);
}

enum topology
report_topology(const struct report *r)
{
	return r->topology;
}

void
report_set_topology(struct report *r, enum topology topology)
{
	r->topology = topology;
}

void
report_need_unbound(struct report *r)
{
	r->unbound = true;
}

bool
report_is_unbound(const struct report *r)
{
	return r->unbound;
}

static bool
is_tls(const char *server)
{
	return strncmp(server, "tls://", 6) == 0;
}

/* Removes control characters from `text`, because a comment must stay on one line. Returns `text`. */
static char *
printable(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	return text;
}

/* --- secrets, which are hidden because people send reports to each other --- */

/* Returns where the name of a secret option begins in `word`, or NULL if `word` contains no such name. */
static const char *
secret_name(const char *word)
{
	static const char *const names[] = { "secret", "passw", "passphrase", "token", "credential",
		"apikey", "api_key", "api-key", "access_key", "accesskey", "access-key",
		"private_key", "private-key", "bearer", "authorization" };
	const char *first = NULL;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *found = strcasestr(word, names[i]);

		if (found != NULL && (first == NULL || found < first))
			first = found;
	}
	return first != NULL                                                   ? first
	       : strcasecmp(word, "pwd") == 0 || strcasecmp(word, "pass") == 0 ? word
									       : NULL;
}

/* Returns where the password in `user:PASSWORD@` begins, or NULL if there is none. A scheme such as `https://` may precede the user. */
static const char *
userinfo(const char *word)
{
	const char *scheme = strstr(word, "://"), *at = strrchr(word, '@');
	const char *begin = scheme != NULL ? scheme + 3 : word;
	const char *colon =
	    at != NULL && at > begin ? memchr(begin, ':', (size_t)(at - begin)) : NULL;

	return colon != NULL && colon + 1 < at ? colon + 1 : NULL;
}

/* Returns how many bytes of `word` may be printed. Only the bytes before the value of the first secret may be printed. */
static size_t
public_bytes(const char *word)
{
	const char *password = userinfo(word), *name = secret_name(word);
	size_t len = strlen(word);
	const char *value = name != NULL ? strpbrk(name, "=:") : NULL;

	if (password != NULL)
		len = (size_t)(password - word);
	if (value != NULL && value[1] != '\0' && (size_t)(value + 1 - word) < len)
		len = (size_t)(value + 1 - word);
	return len;
}

bool
report_is_secret(const char *word)
{
	return secret_name(word) != NULL || userinfo(word) != NULL;
}

/* Returns how many words of a line may be printed. Words after the name of a secret option are hidden, even on the first line of the
 * plugin. In the form NAME SECRET (tsig, azure, etcd), NAME stays visible. */
static size_t
public_words(const struct corefile_line *line)
{
	for (size_t at = 0; at + 1 < line->count; at++) {
		const char *word = line->words[at];
		bool named =
		    strcasecmp(word, "secret") == 0 || strcasecmp(word, "credentials") == 0;
		bool zone = strchr(word, '.') != NULL && strchr(word, '=') == NULL;

		if (secret_name(word) != NULL && !zone && strcmp(word, "secrets") != 0)
			return at + (named && line->count == at + 3 ? 2 : 1);
	}
	return line->count;
}

/* Joins at most `max` words of a line with blanks. The result fits on one line of a screen. */
static char *
line_text(const struct corefile_line *line, size_t max)
{
	char *text = NULL;
	size_t len = 0, count = public_words(line);

	if (count > max)
		count = max;
	bool hidden = count < line->count;
	FILE *f = open_memstream(&text, &len);
	for (size_t i = 0; i < count && ftell(f) < 200; i++) {
		size_t bytes = public_bytes(line->words[i]);

		hidden = hidden || line->words[i][bytes] != '\0';
		fprintf(
		    f, "%s%.*s", i ? " " : "", (int)(bytes < 200 ? bytes : 200), line->words[i]);
		if (line->words[i][bytes] != '\0')
			break;
	}
	if (hidden)
		fputs(" (not printed)", f);
	fclose(f);
	return printable(text);
}

/* --- collecting --- */

/* Returns the first variable without a value in a line, or NULL. Caller frees. */
static char *
unset_in_line(const struct corefile_line *line)
{
	char *name = NULL;

	for (size_t i = 0; i < line->count && name == NULL; i++)
		name = corefile_unset(line->words[i]);
	return name;
}

/* Takes `sentence`. A line with a variable that is not set gets another verdict: its flags and keys
 * are left out. */
static void
add_finding(struct report *r, const struct corefile_line *line, size_t words, enum verdict verdict,
    char *sentence)
{
	char *unset = unset_in_line(line);

	if (unset != NULL) {
		verdict = VERDICT_NONE;
		free(sentence);
		sentence = xasprintf("environment variable %s is not set here: set it as in "
				     "CoreDNS's container, and run kubedns-migrate again",
		    unset);
		free(unset);
	}
	struct finding finding = {
		.file = printable(xstrdup(line->file)),
		.line = line->line,
		.text = line_text(line, words),
		.sentence = printable(sentence),
		.verdict = verdict,
	};
	char *key = xasprintf("%s:%u: %s: %d: %s", finding.file, finding.line, finding.text,
	    (int)verdict, finding.sentence);
	if (json_object_object_get_ex(r->known, key, NULL)) {
		finding_free(&finding);
	} else {
		json_object_object_add(r->known, key, NULL);
		if ((r->count & (r->count - 1)) == 0)
			r->findings = xreallocarray(
			    r->findings, r->count ? 2 * r->count : 1, sizeof *r->findings);
		r->findings[r->count++] = finding;
	}
	free(key);
}

/* Whether the text has a variable that is not set. */
static bool
has_unset(const char *text)
{
	char *name = corefile_unset(text);
	bool found = name != NULL;

	free(name);
	return found;
}

/* Returns the formatted text. Caller frees. */
__attribute__((format(printf, 1, 0))) static char *
formatted(const char *fmt, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, fmt, args) < 0)
		abort();
	return text;
}

void
report_line(
    struct report *r, const struct corefile_line *line, enum verdict verdict, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *sentence = formatted(fmt, args);
	va_end(args);
	add_finding(r, line, SIZE_MAX, verdict, sentence);
}

void
report_unknown(struct report *r, const struct corefile_line *line, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *sentence = formatted(fmt, args);
	va_end(args);
	add_finding(r, line, 1, VERDICT_NONE, sentence);
}

bool
report_option(struct report *report, const struct corefile_line *line,
    const struct report_option *options, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(line->words[0], options[i].name) == 0) {
			report_line(report, line, options[i].verdict, "%s", options[i].sentence);
			return true;
		}
	return false;
}

bool
report_is_empty(const struct report *r)
{
	return r->count == 0;
}

/* Returns the length of the flag's name, without `=` and the value. */
static size_t
flag_name_len(const char *flag)
{
	return strcspn(flag, "=");
}

/* Whether the flag may be given several times, with different values. */
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

	va_start(args, fmt);
	char *flag = formatted(fmt, args);
	va_end(args);
	if (has_unset(flag)) {
		free(flag);
		return;
	}
	struct list *list = &r->flags[program];
	char *key = xstrndup(flag, repeats(flag) ? strlen(flag) : flag_name_len(flag));
	struct json_object *index;
	if (json_object_object_get_ex(r->indices[program], key, &index)) {
		size_t i = (size_t)json_object_get_int64(index);

		free(list->items[i]);
		list->items[i] = flag;
	} else {
		json_object_object_add(
		    r->indices[program], key, json_object_new_int64((int64_t)list->count));
		list_add(list, flag);
	}
	free(key);
}

bool
report_server(struct report *r, const char *domain, const char *text)
{
	struct json_object *servers = r->upstreams;

	if (domain != NULL && has_unset(domain))
		return true;
	if (domain != NULL && !json_object_object_get_ex(r->stubs, domain, &servers)) {
		servers = json_object_new_array();
		json_object_object_add(r->stubs, domain, servers);
	}
	size_t count = json_object_array_length(servers);
	for (size_t i = 0; i < count; i++)
		if (strcmp(json_object_get_string(json_object_array_get_idx(servers, i)), text) ==
		    0)
			return true;
	if (count > 0 &&
	    is_tls(text) != is_tls(json_object_get_string(json_object_array_get_idx(servers, 0))))
		return false;
	if (count == (domain != NULL ? (size_t)CONF_STUB_SERVERS_MAX : (size_t)CONF_UPSTREAMS_MAX))
		return false;
	if (is_tls(text)) {
		report_need_unbound(r);
		r->tls = true;
	}
	json_object_array_add(servers, json_object_new_string(text));
	return true;
}

bool
report_domain(struct report *r, const char *domain)
{
	bool name = domain[strspn(domain, "abcdefghijklmnopqrstuvwxyz0123456789.-_")] == '\0';

	if (r->domain == NULL && name)
		r->domain = xstrdup(domain);
	return r->domain != NULL && strcmp(r->domain, domain) == 0;
}

void
report_unknown_domain(struct report *r, const char *text)
{
	if (r->domain == NULL && r->placeholder == NULL)
		r->placeholder = printable(xstrdup(text));
}

const char *
report_known_domain(const struct report *r)
{
	return r->domain != NULL ? r->domain : "cluster.local";
}

bool
report_in_cluster(const struct report *report, const char *zone)
{
	const char *domain = report_known_domain(report);
	size_t len = strlen(zone), suffix = strlen(domain);

	return len >= suffix && strcmp(zone + len - suffix, domain) == 0 &&
	       (len == suffix || zone[len - suffix - 1] == '.');
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
report_old_port(struct report *r, const char *port)
{
	long number = strtol(port, NULL, 10);

	if (r->old_port == 0 && number > 0 && number <= 65535)
		r->old_port = (int)number;
}

void
report_replaces_kube_dns(struct report *r)
{
	r->in_place = true;
}

void
report_text(struct report *r, enum text_key key, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	char *line = formatted(fmt, args);
	va_end(args);
	if (has_unset(line))
		free(line);
	else
		list_add(&r->texts[key], printable(line));
}

size_t
report_text_count(const struct report *r, enum text_key key)
{
	return r->texts[key].count;
}

bool
report_text_begins(const struct report *r, enum text_key key, const char *start)
{
	for (size_t i = 0; i < r->texts[key].count; i++)
		if (strncmp(r->texts[key].items[i], start, strlen(start)) == 0)
			return true;
	return false;
}

void
report_reads_pods(struct report *r)
{
	r->reads_pods = true;
}

/* --- printing --- */

/* Columns of a line of the report that is wrapped, and texts of a line in a list. */
enum { WIDTH = 120, ITEM_WIDTH = 60 };

/* Links the findings with the same verdict, file and sentence. */
static void
link_same(struct finding *findings, size_t count)
{
	struct json_object *last = json_object_new_object();

	for (size_t i = 0; i < count; i++) {
		struct finding *f = &findings[i];
		char *key = xasprintf("%d %s\n%s", f->verdict, f->file, f->sentence);
		struct json_object *before;

		f->next = 0;
		f->follows = json_object_object_get_ex(last, key, &before);
		if (f->follows)
			findings[json_object_get_int64(before)].next = i;
		json_object_object_add(last, key, json_object_new_int64((int64_t)i));
		free(key);
	}
	json_object_put(last);
}

/* Prints the findings with one sentence: the places, the lines and the sentence. */
static void
print_finding(const struct report *r, const struct finding *first, const char *word, FILE *out)
{
	const struct finding *f = first;

	fprintf(out, "#\n# %s", first->file);
	if (first->line > 0)
		fprintf(out, ":%u", first->line);
	while (f->next != 0) {
		f = &r->findings[f->next];
		if (f->line > 0)
			fprintf(out, ", %u", f->line);
	}
	f = first;
	fprintf(out, ": %s", first->text);
	for (size_t len = strlen(first->text); f->next != 0; len += strlen(f->text)) {
		f = &r->findings[f->next];
		if (len > 2 * WIDTH) {
			fputs("; ...", out);
			break;
		}
		fprintf(out, "; %s", f->text);
	}
	fprintf(out, "\n#     %s: %s\n", word, first->sentence);
}

/* Prints one list of the lines with the verdict, for each file. `title` says what they have in common. */
static void
print_list(const struct report *r, enum verdict verdict, const char *title, FILE *out)
{
	const char *file = NULL;
	size_t column = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct finding *f = &r->findings[i];

		if (f->verdict != verdict)
			continue;
		char *item = f->line > 0 ? xasprintf("%u %.*s", f->line, ITEM_WIDTH, f->text)
					 : xasprintf("%.*s", 2 * ITEM_WIDTH, f->text);
		if (strncmp(f->sentence, "left out: ", 10) == 0) {
			char *marked = xasprintf("%s (no effect in CoreDNS)", item);

			free(item);
			item = marked;
		}
		if (file == NULL || strcmp(file, f->file) != 0) {
			fprintf(out, "%s# %s, %s: ", file == NULL ? "#\n" : "\n", title, f->file);
			file = f->file;
			column = 6 + strlen(title) + strlen(file);
		} else {
			fputs(column + strlen(item) > WIDTH ? "," : ", ", out);
			if (column + strlen(item) > WIDTH) {
				fputs("\n#     ", out);
				column = 6;
			}
		}
		fputs(item, out);
		column += strlen(item) + 2;
		free(item);
	}
	if (file != NULL)
		fputc('\n', out);
}

static void
print_verdicts(const struct report *r, const char *source, FILE *out)
{
	static const struct {
		enum verdict verdict;
		const char *word;
	} order[] = { { VERDICT_NONE, "NO EQUIVALENT" }, { VERDICT_CHANGES, "changes" } };
	size_t sums[VERDICT_COUNT] = { 0 };
	for (size_t i = 0; i < r->count; i++)
		sums[r->findings[i].verdict]++;
	char *name = printable(xstrdup(source));
	fprintf(out, "# From %s: %zu %s no equivalent, %zu %s, %zu %s carried over", name,
	    sums[VERDICT_NONE], sums[VERDICT_NONE] == 1 ? "line has" : "lines have",
	    sums[VERDICT_CHANGES], sums[VERDICT_CHANGES] == 1 ? "changes" : "change",
	    sums[VERDICT_CARRIED], sums[VERDICT_CARRIED] == 1 ? "is" : "are");
	if (sums[VERDICT_STAYS] > 0)
		fprintf(out, ", %zu stay in NodeLocal DNSCache", sums[VERDICT_STAYS]);
	fputs(".\n", out);
	free(name);
	link_same(r->findings, r->count);
	for (size_t k = 0; k < sizeof order / sizeof *order; k++)
		for (size_t i = 0; i < r->count; i++)
			if (r->findings[i].verdict == order[k].verdict && !r->findings[i].follows)
				print_finding(r, &r->findings[i], order[k].word, out);
	print_list(r, VERDICT_CARRIED, "carried over", out);
	if (r->texts[TEXT_REWRITES].count > 0)
		fputs("#\n# Rewrites apply to the names in queries only. CoreDNS also applies them "
		      "to the targets of ExternalName Services.\n",
		    out);
	if (sums[VERDICT_STAYS] == 0)
		return;
	fputs("#\n# NodeLocal DNSCache stays: keep its DaemonSet and its Corefile. It queries the "
	      "Service "
	      "kube-dns, whose address\n# stays the same. Or replace it by "
	      "conf/kubernetes/node-local: "
	      "docs/node.md. Its lines are not translated:\n",
	    out);
	print_list(r, VERDICT_STAYS, "stays", out);
}

/* Prints a YAML string in double quotes. JSON strings are valid YAML. */
static void
print_quoted(const char *text, FILE *out)
{
	struct json_object *string = json_object_new_string(text);

	fputs(json_object_to_json_string_ext(string, JSON_C_TO_STRING_NOSLASHESCAPE), out);
	json_object_put(string);
}

/* Whether YAML could read the domain as a number, a boolean or null. */
static bool
needs_quotes(const char *domain)
{
	return strchr(domain, '.') == NULL || strspn(domain, "0123456789.e-_") == strlen(domain) ||
	       strchr("0123456789", *domain) != NULL;
}

/* The tests stop the patch if the ports have another order. */
#define SERVICE_PATCH                                                                              \
	"[{\"op\":\"test\",\"path\":\"/spec/ports/0/protocol\",\"value\":\"UDP\"},"                \
	"{\"op\":\"test\",\"path\":\"/spec/ports/1/protocol\",\"value\":\"TCP\"},"                 \
	"{\"op\":\"replace\",\"path\":\"/spec/ports/0/targetPort\",\"value\":\"dns\"},"            \
	"{\"op\":\"replace\",\"path\":\"/spec/ports/1/targetPort\",\"value\":\"dns-tcp\"}]"

/* Prints what step 3 needs if CoreDNS's pods do not have our port. Until step 6, the Service has pods of both. The Kustomization has the
 * same ports as the patch, because kubectl apply may confuse two ports that have the same number. */
static void
print_ports(const struct report *r, FILE *out)
{
	const char *coredns = r->coredns != NULL ? r->coredns : "coredns";

	if (r->old_port == 0 || r->in_place)
		return;
	fprintf(out,
	    "#     CoreDNS's pods listen on port %d, ours on 53. The Service can have pods of both "
	    "only if its targetPort is a name.\n"
	    "#     The first command must print dns/UDP/%d and dns-tcp/TCP/%d. If not, give "
	    "CoreDNS's ports these names before you go on,\n"
	    "#     or the second command stops DNS. To undo it after the steps to go back, run it "
	    "with the value %d instead of both names.\n"
	    "#     kubectl -n kube-system get deployment/%s -o jsonpath='{range "
	    ".spec.template.spec.containers[*].ports[*]}{.name}/{.protocol}/{.containerPort} "
	    "{end}'\n"
	    "#     kubectl -n kube-system patch service kube-dns --type=json -p '" SERVICE_PATCH
	    "'\n"
	    "#     NetworkPolicies that allow only port %d must allow port 53 too. Else our pods "
	    "get no queries.\n",
	    r->old_port, r->old_port, r->old_port, r->old_port, coredns, r->old_port);
}

/* Prints the last steps of a switch from CoreDNS, whose pods keep running beside ours. */
static void
print_switch(const struct report *r, FILE *out)
{
	const char *coredns = r->coredns != NULL ? r->coredns : "coredns";
	int replicas = r->coredns_replicas > 0 ? r->coredns_replicas : 2;
	char port[16] = "";

	if (r->old_port > 0)
		snprintf(port, sizeof port, ":%d", r->old_port);

	fprintf(out,
	    "#  4. As many pods as CoreDNS has. A new Deployment has one. Until step 6, both "
	    "answer.\n"
	    "#     kubectl -n kube-system scale deployment/kube-dns --replicas=%d\n"
	    "#     kubectl -n kube-system rollout status deployment/kube-dns\n"
	    "#  5. Compare the answers. OLD and NEW are the addresses of a pod of each:\n"
	    "#     kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide\n"
	    "#     conf/kubernetes/compare --report THIS-FILE OLD%s NEW\n"
	    "#  6. kubectl -n kube-system scale deployment/%s --replicas=0\n"
	    "#     Keep this Deployment and its ConfigMap.\n"
	    "# To go back:\n"
	    "#     kubectl -n kube-system scale deployment/%s --replicas=%d\n"
	    "#     kubectl -n kube-system rollout status deployment/%s\n"
	    "#     kubectl -n kube-system scale deployment/kube-dns --replicas=0\n",
	    replicas, port, coredns, coredns, replicas, coredns);
}

static void
print_steps(const struct report *r, FILE *out)
{
	const char *domain = report_known_domain(r), *quote = needs_quotes(domain) ? "\"" : "";

	fprintf(out,
	    "#\n# Steps. On kubeadm, k3s, RKE2, GKE and EKS, follow docs/install instead: these "
	    "distributions restore the old DNS.\n# For a trial beside the old DNS, follow %s.\n"
	    "#  1. conf/kubernetes/settings/settings.yaml: clusterDomain: %s%s%s, clusterIP: %s, "
	    "registry: where you pushed the images\n",
	    r->in_place ? "docs/from-kube-dns.md" : "docs/from-coredns.md", quote, domain, quote,
	    r->cluster_ip != NULL ? r->cluster_ip : "the address of the Service");
	if (r->unbound)
		fputs("#     Push the image nanny-unbound to this registry too: "
		      "docs/upstreams.md#which-engine\n",
		    out);
	if (r->placeholder != NULL)
		fprintf(out, "#     The input has only the placeholder %s for the domain.\n",
		    r->placeholder);
	if (r->cluster_ip == NULL)
		fputs("#     The Service: kubectl -n kube-system get service kube-dns\n", out);
	fputs("#  2. If there is a ConfigMap below, save it as configmap.yaml:\n"
	      "#     kubectl apply -f configmap.yaml\n",
	    out);
	if (r->tls)
		fputs("#     The pods need the CA certificates of the tls:// servers. Without "
		      "them, all "
		      "names of these servers get SERVFAIL.\n"
		      "#     For public servers, on a Linux machine (for a private CA: its file in "
		      "PEM "
		      "form):\n"
		      "#     kubectl -n kube-system create configmap upstream-ca "
		      "--from-file=ca.crt=/etc/ssl/certs/ca-certificates.crt\n",
		    out);
	fputs("#  3. Save the Kustomization below as conf/kubernetes/mine/kustomization.yaml:\n",
	    out);
	print_ports(r, out);
	fputs("#     conf/kubernetes/check mine\n"
	      "#     kubectl apply -k conf/kubernetes/mine\n",
	    out);
	if (r->in_place)
		fputs("#  4. kubectl -n kube-system rollout status deployment/kube-dns\n"
		      "# To go back: kubectl -n kube-system rollout undo deployment/kube-dns\n",
		    out);
	else
		print_switch(r, out);
	fprintf(out,
	    "# With Helm instead of steps 1 to 3: save the last part as values.yaml:\n"
	    "#     make chart\n"
	    "#     helm -n kube-system install kube-dns build/chart/kubedns --take-ownership -f "
	    "values.yaml\n%s",
	    r->tls ? "#     The ConfigMap upstream-ca of step 2 is needed with Helm too.\n" : "");
	if (r->old_port > 0 && !r->in_place)
		fputs("#     The commands of step 3 about ports are needed with Helm too.\n", out);
	fprintf(out,
	    r->topology == TOPOLOGY_FRONT
		? "# Topology: front, like CoreDNS: kubedns answers clients, %s behind it caches "
		  "and "
		  "forwards.\n# For classic: kubedns-migrate --topology=classic.\n"
		: "# Topology: classic, like kube-dns: %s answers clients, kubedns is behind it.\n"
		  "# For front: kubedns-migrate --topology=front.\n",
	    engine_name(r));
}

static void
print_key(const char *key, struct json_object *value, FILE *out)
{
	fprintf(out, "  %s: |\n    %s\n", key,
	    json_object_to_json_string_ext(value, JSON_C_TO_STRING_NOSLASHESCAPE));
}

static const char *const text_key_names[TEXT_KEY_COUNT] = { [TEXT_FEDERATIONS] = "federations",
	[TEXT_HOSTS] = "hosts",
	[TEXT_RECORDS] = "records",
	[TEXT_ZONES] = "records",
	[TEXT_REWRITES] = "rewrites" };

/* Prints the text keys of the ConfigMap. Each line begins with `indent`. */
static void
print_texts(const struct report *r, const char *indent, FILE *out)
{
	for (int key = 0; key < TEXT_KEY_COUNT; key++) {
		const struct list *lines = &r->texts[key];
		bool goes_on = key == TEXT_ZONES && r->texts[TEXT_RECORDS].count > 0;

		if (lines->count > 0 && !goes_on)
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
		fputs("#\n# No ConfigMap is needed.\n", out);
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

/* The number of flags that components/engine-unbound inserts before the other flags of the nanny. */
enum { UNBOUND_FLAGS = 2 };

/* The flags of dnsmasq in conf/kubernetes that may be given only once, with their index and text. */
static const struct {
	unsigned at[2]; /* index in each topology */
	const char *text;
} manifest_flags[] = { { { 9, 12 }, "--cache-size=1000" },
	{ { 10, 13 }, "--dns-forward-max=6000" } };

static void
print_flag(const struct report *r, enum program program, const char *flag, FILE *out)
{
	const char *path = "/spec/template/spec/containers";

	for (size_t i = 0; program == PROGRAM_DNSMASQ && i < 2; i++) {
		size_t len = flag_name_len(flag);
		unsigned at = manifest_flags[i].at[r->topology] + (r->unbound ? UNBOUND_FLAGS : 0);

		if (strncmp(manifest_flags[i].text, flag, len + 1) != 0)
			continue;
		fprintf(out, "      - { op: test, path: %s/1/args/%u, value: \"%s\" }\n", path, at,
		    manifest_flags[i].text);
		fprintf(out, "      - { op: replace, path: %s/1/args/%u, value: ", path, at);
		print_quoted(flag, out);
		fprintf(out, " }\n");
		return;
	}
	/* The nanny's flags must be before the nanny's `--`. These flags are inserted last, because they shift the other flags. */
	fprintf(out, "      - { op: add, path: %s/%d/args/%s, value: ", path,
	    program == PROGRAM_KUBEDNS ? 0 : 1, program == PROGRAM_NANNY ? "0" : "-");
	print_quoted(flag, out);
	fprintf(out, " }\n");
}

#define PODS_RULE "{ apiGroups: [\"\"], resources: [pods], verbs: [list, watch] }"

static void
print_overlay(const struct report *r, FILE *out)
{
	size_t flags = 0;

	for (int p = 0; p < PROGRAM_COUNT; p++)
		flags += r->flags[p].count;
	fprintf(out,
	    "---\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
	    "resources:\n  - ../%s\n",
	    r->topology == TOPOLOGY_FRONT ? "front" : "replace-kube-dns");
	if (r->unbound)
		fputs("components:\n  - ../components/engine-unbound\n", out);
	bool ports = r->old_port > 0 && !r->in_place;

	if (flags > 0 || r->reads_pods || ports)
		fputs("patches:\n", out);
	if (flags > 0)
		fputs("  - target: { kind: Deployment, name: kube-dns }\n    patch: |-\n", out);
	for (int p = 0; p < PROGRAM_COUNT; p++)
		for (size_t i = 0; i < r->flags[p].count; i++)
			print_flag(r, (enum program)p, r->flags[p].items[i], out);
	if (ports)
		fputs("  - target: { kind: Service, name: kube-dns }\n    patch: |-\n"
		      "      - { op: add, path: /spec/ports/0/targetPort, value: dns }\n"
		      "      - { op: add, path: /spec/ports/1/targetPort, value: dns-tcp }\n",
		    out);
	if (r->reads_pods)
		fputs("  - target: { kind: ClusterRole, name: kube-dns }\n    patch: |-\n"
		      "      - { op: add, path: /rules/-, value: " PODS_RULE " }\n",
		    out);
}

/* Prints a list of flags as the value `key` of the chart. */
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

/* Prints the values for conf/helm/kubedns. */
static void
print_values(const struct report *r, FILE *out)
{
	const int form = JSON_C_TO_STRING_NOSLASHESCAPE;

	fprintf(out,
	    "---\n# values.yaml\nregistry: \"\" # where you pushed the images\n"
	    "topology: %s\n%sclusterDomain: ",
	    r->topology == TOPOLOGY_FRONT ? "front" : "classic",
	    r->unbound ? "engine: unbound\n" : "");
	print_quoted(report_known_domain(r), out);
	fprintf(
	    out, "\nservice: { clusterIP: \"%s\" }\n", r->cluster_ip != NULL ? r->cluster_ip : "");
	if (json_object_object_length(r->stubs) > 0)
		fprintf(out, "stubDomains: %s\n", json_object_to_json_string_ext(r->stubs, form));
	if (json_object_array_length(r->upstreams) > 0)
		fprintf(out, "upstreamNameservers: %s\n",
		    json_object_to_json_string_ext(r->upstreams, form));
	print_texts(r, "", out);
	if (r->flags[PROGRAM_KUBEDNS].count > 0)
		fprintf(out, "kubedns:\n");
	print_value("extraArgs", &r->flags[PROGRAM_KUBEDNS], out);
	if (r->flags[PROGRAM_DNSMASQ].count + r->flags[PROGRAM_NANNY].count > 0)
		fprintf(out, "nanny:\n");
	print_value("extraArgs", &r->flags[PROGRAM_NANNY], out);
	print_value("dnsmasqArgs", &r->flags[PROGRAM_DNSMASQ], out);
	if (r->reads_pods)
		fputs("extraRules:\n  - " PODS_RULE "\n", out);
}

/* Removes stub domains that a flag of dnsmasq answers or denies, because in CoreDNS these plugins come
 * before forward. With both, the nanny would ignore the whole key. */
static void
remove_answered_stubs(const struct report *r)
{
	static const char *const names[] = { "--local=/", "--address=/", "--server=/" };
	const struct list *flags = &r->flags[PROGRAM_DNSMASQ];

	for (size_t i = 0; i < flags->count; i++)
		for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
			size_t len = strlen(names[k]);

			if (strncmp(flags->items[i], names[k], len) != 0)
				continue;
			char *domain =
			    xstrndup(flags->items[i] + len, strcspn(flags->items[i] + len, "/"));
			json_object_object_del(r->stubs, domain);
			free(domain);
		}
}

void
report_print(const struct report *r, const char *source, FILE *out)
{
	remove_answered_stubs(r);
	print_verdicts(r, source, out);
	print_steps(r, out);
	print_configmap(r, out);
	print_overlay(r, out);
	print_values(r, out);
}
