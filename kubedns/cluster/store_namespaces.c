/*
 * Namespaces, and the helpers that all entries of the store use: keyed hashes, versions and labels.
 * For DNS, a namespace exists while its object exists or a Service is in it. The entries of pods
 * and the nodes of the tree refer to a namespace by number, not by pointer. A number is reused
 * after its namespace is deleted and nothing refers to it.
 */
#include <stdlib.h>
#include <string.h>

#include "kubedns/cluster/store_internal.h"
#include "kubedns/cluster/tree_content.h"
#include "lib/log.h"
#include "lib/xalloc.h"

uint64_t
store_hash_names(const struct store *store, const char *a, const char *b)
{
	uint64_t hash = hash64(treecache_next(store->cache)->seed, a, strlen(a) + 1);

	return hash64(hash, b, strlen(b));
}

/* A resourceVersion is opaque to clients, but API servers use a number. Any other text is replaced
 * by its hash. The result is only compared for equality and displayed. */
uint64_t
store_version(const char *text)
{
	size_t len = strlen(text);

	if (len == 0)
		return 0;
	/* strtoull() also accepts a sign and white space, and gives the same number for all that is
	 * too large. */
	if (len <= 18 && strspn(text, "0123456789") == len)
		return strtoull(text, NULL, 10);
	return hash64(HASH_START, text, len) | UINT64_C(1) << 63;
}

bool
store_label(uint8_t label[1 + DNAME_LABEL_MAX], const char *text)
{
	size_t len = strlen(text);

	if (!dname_label_ok(text, len))
		return false;
	label[0] = (uint8_t)len;
	memcpy(label + 1, text, len);
	dname_lower(label + 1, len);
	return true;
}

void
store_count_family(struct store *store, uint8_t family, int by)
{
	*(family == AF_INET ? &store->with_v4 : &store->with_v6) += (size_t)by;
}

void
store_note_cut(struct store *store, const struct object *object, bool *was)
{
	if (object->cut) {
		store->cut_total++;
		if (!*was)
			log_neterr("%s %s/%s: has more ports, endpoints or addresses than kubedns "
				   "reads from one object (%d, %d, %d): the others are ignored",
			    object_kind_resource(object->kind), object->namespace, object->name,
			    OBJECT_PORTS_MAX, OBJECT_ENDPOINTS_MAX, POD_ADDRS_MAX);
	}
	*was = object->cut;
}

void
namespace_name(const struct namespace *namespace, struct dname *name)
{
	static const uint8_t svc[] = "\3svc";

	name->len = sizeof svc;
	memcpy(name->wire, svc, sizeof svc);
	dname_prepend(name, namespace->label + 1, namespace->label[0]);
}

static bool
same_namespace(const void *entry, const void *key)
{
	const struct namespace *namespace = entry;

	return strcmp((const char *)namespace->label + 1, key) == 0;
}

struct namespace *
namespace_find(const struct store *store, const char *name)
{
	return table_find(
	    &store->namespaces, (uint32_t)store_hash_names(store, name, ""), same_namespace, name);
}

static uint32_t
take_number(struct store *store, struct namespace *namespace)
{
	while (store->lowest_free < store->number_count &&
	       store->by_number[store->lowest_free] != NULL)
		store->lowest_free++;
	if (store->lowest_free == store->number_capacity) {
		store->number_capacity =
		    store->number_capacity == 0 ? 64 : store->number_capacity * 2;
		store->by_number = xreallocarray(
		    store->by_number, store->number_capacity, sizeof(struct namespace *));
	}
	if (store->lowest_free == store->number_count)
		store->number_count++;
	store->by_number[store->lowest_free] = namespace;
	return ++store->lowest_free;
}

/* Returns the namespace's entry, and creates it if necessary. Returns NULL if its name is not a
 * valid label. */
struct namespace *
namespace_get(struct store *store, const char *name)
{
	struct namespace *namespace = namespace_find(store, name);
	uint8_t label[1 + DNAME_LABEL_MAX];

	if (namespace != NULL || !store_label(label, name))
		return namespace;
	namespace = xcalloc(1, sizeof *namespace + label[0] + 2u);
	memcpy(namespace->label, label, label[0] + 1u);
	namespace->hash = (uint32_t)store_hash_names(store, name, "");
	namespace->number = take_number(store, namespace);
	store->visibility_due = store->config.visibility;
	table_add(&store->namespaces, namespace);
	return namespace;
}

bool
is_default(const uint8_t *label)
{
	static const uint8_t text[] = "\7default";

	return label[0] == text[0] && memcmp(label, text, sizeof text - 1) == 0;
}

/* Updates the tree: adds the namespace's node or removes it. */
void
namespace_show(struct store *store, struct namespace *namespace)
{
	struct dname name;
	bool exists =
	    (namespace->present || namespace->shown > 0) && namespace_is_chosen(store, namespace);

	namespace_name(namespace, &name);
	if (exists) {
		const struct node *node = tree_find(treecache_next(store->cache), name.wire);
		uint8_t flags = namespace->present && namespace->labelled ? NODE_LABELLED : 0;

		if (namespace->named > 0)
			flags |= NODE_HAS_HEADLESS;
		if (store->config.visibility && is_default(namespace->label))
			flags |= NODE_OPEN;
		if (node == NULL || node->number != namespace->number || node->flags != flags) {
			struct node *edited = treecache_edit(store->cache, name.wire);

			edited->number = namespace->number;
			edited->flags = flags;
		}
	} else if (tree_find(treecache_next(store->cache), name.wire) != NULL) {
		struct node *edited = treecache_edit(store->cache, name.wire);

		edited->number = 0;
		edited->flags = 0;
		treecache_prune(store->cache, name.wire);
	}
}

void
namespace_drop(struct store *store, struct namespace *namespace)
{
	if (namespace->present || namespace->uses > 0)
		return;
	visibility_forget(store, namespace);
	store->visibility_due = store->config.visibility;
	store->by_number[namespace->number - 1] = NULL;
	if (store->lowest_free > namespace->number - 1)
		store->lowest_free = namespace->number - 1;
	table_remove(&store->namespaces, namespace);
	free(namespace);
}

/* --- --visibility --- */

/*
 * --visibility: annotations or labels of namespaces define which namespaces the pods of each
 * namespace can see.
 *
 *	kubedns/sees        of the client's namespace: the namespaces that its pods can see
 *	kubedns/visible-to  of the visible namespace: the namespaces whose pods can see it
 *
 * Both are lists of namespace names, or `*` for all namespaces. Either list is enough. With
 * config.visible_to_only the first list is ignored. A namespace always sees itself. All namespaces
 * see kube-system unless it has a kubedns/visible-to. All namespaces always see the Service
 * default/kubernetes. The names are looked up each time the table is made. A list may therefore
 * name a namespace that does not exist yet, or that is deleted and created again.
 */

enum {
	/* Names in a list; further names are ignored. `*` stands for any number of names. */
	NAMES_MAX = 999,
	/*
	 * Pairs of all lists together, 4 MB. If there are more pairs, the longest lists are
	 * truncated, all to the same length. A namespace with short lists is thus not affected,
	 * however many namespaces have long lists.
	 */
	PAIRS_MAX = 1000000,
	ODD_MAX = 100, /* bytes of an invalid word that are logged */
};

/* The lists of one namespace whose object exists. */
struct rules {
	uint32_t hash; /* hash of the namespace */
	bool listed;   /* the namespace has kubedns/visible-to */
	const struct namespace *namespace;
	size_t len, visible_to; /* length of `words`, and offset of the second list */
	char words[];           /* two NUL-terminated lists with a space before each word */
};

static bool
is_rules_namespace(const void *entry, const void *key)
{
	return ((const struct rules *)entry)->namespace == key;
}

/* Characters that separate words. In a label's value only '.' and '_' are possible, and no
 * namespace's name contains either. */
#define SEPARATORS ",._ \t\n\v\f\r"

/* State while a list is read. */
struct reading {
	char *to;        /* where the next word is written */
	size_t count;    /* number of words copied */
	bool cut;        /* the list had more words than NAMES_MAX */
	const char *odd; /* the first word that is not a valid name, or NULL */
	size_t odd_len;
};

/* Whether a word is a valid namespace name (an RFC 1123 label) or `*`. */
static bool
is_name(const char *word, size_t len)
{
	if (len == 1 && *word == '*')
		return true;
	for (size_t i = 0; i < len; i++)
		if (!((word[i] >= 'a' && word[i] <= 'z') || (word[i] >= '0' && word[i] <= '9') ||
			(word[i] == '-' && i > 0 && i + 1 < len)))
			return false;
	return len <= DNAME_LABEL_MAX;
}

/* Copies the valid names. Skips an invalid word as a whole. For example, `!shop` was probably meant
 * to exclude shop, so it must not give access to shop. */
static void
read_words(struct reading *reading, const char *list)
{
	if (list == NULL)
		return;
	for (list += strspn(list, SEPARATORS); *list != '\0'; list += strspn(list, SEPARATORS)) {
		size_t len = strcspn(list, SEPARATORS);

		if (!is_name(list, len)) {
			if (reading->odd == NULL) {
				reading->odd = list;
				reading->odd_len = len;
			}
		} else if (reading->count == NAMES_MAX) {
			reading->cut = true;
			return;
		} else {
			*reading->to++ = ' ';
			memcpy(reading->to, list, len);
			reading->to += len;
			reading->count++;
		}
		list += len;
	}
}

static size_t
length(const char *list)
{
	return list == NULL ? 0 : 2 * strlen(list); /* in the worst case, each letter is a word */
}

static char *
put_list(char *to, const char *annotation, const char *label, const struct namespace *namespace,
    const char *what)
{
	const char *name = (const char *)namespace->label + 1;
	struct reading reading = { .to = to };

	read_words(&reading, annotation);
	read_words(&reading, label);
	*reading.to++ = '\0';
	if (reading.odd != NULL)
		log_neterr("namespace %s: %s: \"%.*s\": neither a namespace's name nor *: ignored; "
			   "separate names with commas, dots or spaces",
		    name, what, (int)(reading.odd_len < ODD_MAX ? reading.odd_len : ODD_MAX),
		    reading.odd);
	if (reading.cut)
		log_neterr("namespace %s: %s: more than %d names: the others are ignored; * stands "
			   "for all namespaces",
		    name, what, NAMES_MAX);
	return reading.to;
}

static void
drop_rules(struct store *store, struct rules *rules)
{
	if (rules == NULL)
		return;
	table_remove(&store->rules, rules);
	free(rules);
	store->visibility_due = true;
}

static struct rules *
find_rules(const struct store *store, const struct namespace *namespace)
{
	return table_find(&store->rules, namespace->hash, is_rules_namespace, namespace);
}

void
visibility_forget(struct store *store, const struct namespace *namespace)
{
	if (store->config.visibility)
		drop_rules(store, find_rules(store, namespace));
}

/* Reads the lists of the object. Returns NULL if it has none. */
static struct rules *
read_rules(const struct namespace *namespace, const struct object_namespace *from)
{
	bool listed = from->visible_to != NULL || from->visible_to_label != NULL;

	if (!listed && from->sees == NULL && from->sees_label == NULL)
		return NULL;
	struct rules *rules =
	    xcalloc(1, sizeof *rules + length(from->sees) + length(from->sees_label) +
			   length(from->visible_to) + length(from->visible_to_label) + 2);
	char *to = put_list(rules->words, from->sees, from->sees_label, namespace, "kubedns/sees");
	rules->visible_to = (size_t)(to - rules->words);
	to =
	    put_list(to, from->visible_to, from->visible_to_label, namespace, "kubedns/visible-to");
	rules->len = (size_t)(to - rules->words);
	rules->hash = namespace->hash;
	rules->namespace = namespace;
	rules->listed = listed;
	return xreallocarray(rules, 1, sizeof *rules + rules->len);
}

static bool
same_rules(const struct rules *a, const struct rules *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return a->listed == b->listed && a->len == b->len && a->visible_to == b->visible_to &&
	       memcmp(a->words, b->words, a->len) == 0;
}

void
visibility_namespace(
    struct store *store, const struct namespace *namespace, const struct object *object)
{
	if (!store->config.visibility)
		return;
	struct object_namespace lists = object->visibility;
	if (store->config.visible_to_only)
		lists.sees = lists.sees_label = NULL;
	struct rules *rules = read_rules(namespace, &lists), *old = find_rules(store, namespace);
	if (same_rules(rules, old)) {
		free(rules);
		return;
	}
	drop_rules(store, old);
	if (rules != NULL)
		table_add(&store->rules, rules);
	store->visibility_due = true;
}

/* --- the table for readers --- */

struct making {
	const struct store *store;
	uint64_t *open, *all;
	uint64_t *pairs; /* client << 32 | seen */
	size_t count, capacity;
	/* `share`: largest number of pairs for each namespace. `left`: remaining number of pairs
	 * for the current namespace. */
	size_t share, left;
	bool cut;
};

static void
set_bit(uint64_t *bits, uint32_t number)
{
	bits[number / 64] |= UINT64_C(1) << number % 64;
}

static void
add_pair(struct making *m, uint32_t client, uint32_t seen)
{
	if (m->left == 0) {
		m->cut = true;
		return;
	}
	m->left--;
	if (m->count == m->capacity) {
		m->capacity = m->capacity == 0 ? 256 : 2 * m->capacity;
		m->pairs = xreallocarray(m->pairs, m->capacity, sizeof *m->pairs);
	}
	m->pairs[m->count++] = (uint64_t)client << 32 | seen;
}

/* Adds the pairs for each word of a list of the namespace `own`. `sees`: the list contains the
 * namespaces that `own` sees. */
static void
add_words(struct making *m, const char *words, uint32_t own, bool sees)
{
	while (*words == ' ') {
		char name[DNAME_LABEL_MAX + 1];
		size_t len = strcspn(++words, " ");

		memcpy(name, words, len);
		name[len] = '\0';
		words += len;
		const struct namespace *other = namespace_find(m->store, name);
		if (strcmp(name, "*") == 0)
			set_bit(sees ? m->all : m->open, own);
		else if (other != NULL)
			add_pair(m, sees ? own : other->number, sees ? other->number : own);
	}
}

static int
by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Returns the number of pairs that the lists of a namespace make. With `all`, counts as if each
 * named namespace existed. */
static size_t
count_pairs(const struct store *store, const struct rules *rules, bool all)
{
	size_t count = 0;

	for (const char *at = rules->words, *end = at + rules->len; at < end; at++) {
		char name[DNAME_LABEL_MAX + 1];

		if (*at != ' ')
			continue;
		size_t len = strcspn(at + 1, " ");
		memcpy(name, at + 1, len);
		name[len] = '\0';
		count += all || namespace_find(store, name) != NULL;
	}
	return count;
}

/* Returns the limit on the pairs of each namespace. It is the highest limit with which all
 * namespaces together make at most PAIRS_MAX pairs. */
static size_t
share_of_each(const struct store *store)
{
	/* Number of namespaces that make this number of pairs. */
	uint32_t of_count[2 * NAMES_MAX + 1] = { 0 };
	const struct rules *rules;
	size_t total = 0, above = 0, share = 0;

	for (size_t place = 0; (rules = table_next(&store->rules, &place)) != NULL;)
		total += count_pairs(store, rules, true);
	if (total <= PAIRS_MAX)
		return SIZE_MAX;
	for (size_t place = 0; (rules = table_next(&store->rules, &place)) != NULL; above++)
		of_count[count_pairs(store, rules, false)]++;
	above -= of_count[0];
	for (total = above; above > 0 && total <= PAIRS_MAX; total += above)
		above -= of_count[++share];
	return above == 0 ? SIZE_MAX : share;
}

/* Applies all lists and the default rules. */
static void
add_rules(struct making *m)
{
	const struct namespace *system = namespace_find(m->store, "kube-system");
	const struct rules *rules;
	size_t place = 0;

	m->share = share_of_each(m->store);
	while ((rules = table_next(&m->store->rules, &place)) != NULL) {
		m->left = m->share;
		add_words(m, rules->words, rules->namespace->number, true);
		add_words(m, rules->words + rules->visible_to, rules->namespace->number, false);
	}
	if (system == NULL)
		return;
	rules = table_find(&m->store->rules, system->hash, is_rules_namespace, system);
	if (rules == NULL || !rules->listed)
		set_bit(m->open, system->number);
}

struct visibility *
store_visibility(struct store *store)
{
	uint32_t count = (uint32_t)store->number_count;
	size_t words = count / 64 + 1;
	struct making m = { .store = store };

	if (!store->visibility_due)
		return NULL;
	store->visibility_due = false;
	m.open = xcalloc(words, sizeof *m.open);
	m.all = xcalloc(words, sizeof *m.all);
	add_rules(&m);
	if (m.cut && !store->visibility_cut)
		log_warnx(
		    "visibility: the lists of all namespaces together have more than %d names: "
		    "only the first %zu of each list are used; use * for all namespaces",
		    PAIRS_MAX, m.share);
	store->visibility_cut = m.cut;
	if (m.count > 0)
		qsort(m.pairs, m.count, sizeof *m.pairs, by_value);

	size_t bits = words * sizeof *m.open, starts = (count + 2u) * sizeof(uint32_t);
	struct visibility *v = xmalloc(sizeof *v + 2 * bits + starts + m.count * sizeof(uint32_t));
	uint64_t *open = (uint64_t *)(v + 1), *all = open + words;
	uint32_t *start = (uint32_t *)(all + words), *sees = start + count + 2;
	memcpy(open, m.open, bits);
	memcpy(all, m.all, bits);
	uint32_t client = 0, n = 0;
	for (size_t i = 0; i < m.count; i++) {
		while (client <= m.pairs[i] >> 32)
			start[client++] = n;
		if (i == 0 || m.pairs[i] != m.pairs[i - 1])
			sees[n++] = (uint32_t)m.pairs[i];
	}
	while (client <= count + 1)
		start[client++] = n;
	*v = (struct visibility){ .count = count,
		.serial = store->visibility_serial,
		.open = open,
		.all = all,
		.starts = start,
		.sees = sees };
	store->visibility_pairs = n;
	free(m.open);
	free(m.all);
	free(m.pairs);
	return v;
}

const char *
store_namespace_name(const struct store *store, uint32_t number)
{
	if (number == 0 || number > store->number_count || store->by_number[number - 1] == NULL)
		return NULL;
	return (const char *)store->by_number[number - 1]->label + 1;
}

void
store_visibility_size(const struct store *store, size_t *listed, size_t *pairs)
{
	*listed = store->rules.count;
	*pairs = store->visibility_pairs;
}
