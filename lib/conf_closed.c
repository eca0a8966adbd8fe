#include "lib/conf_closed.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "lib/conf_text.h"
#include "lib/xalloc.h"

static bool
is_name_byte(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

/* Copies the text and replaces JSON's escapes of ASCII characters, so that `\/` and `\u002f` become `/`. Sets
 * `len` to the length of the copy. Caller frees. */
static char *
unescape(const char *text, size_t *len)
{
	char *copy = xmalloc(*len + 1);
	size_t kept = 0;

	for (size_t i = 0; i < *len; i++) {
		char digits[3] = "";

		if (*len - i >= 6 && strncmp(text + i, "\\u00", 4) == 0 &&
		    isxdigit((unsigned char)text[i + 4]) && isxdigit((unsigned char)text[i + 5])) {
			memcpy(digits, text + i + 4, 2);
			copy[kept++] = (char)strtoul(digits, NULL, 16);
			i += 5;
			continue;
		}
		if (text[i] == '\\' && *len - i >= 2 && text[i + 1] == '/')
			i++;
		copy[kept++] = text[i];
	}
	*len = kept;
	return copy;
}

/* Whether an address, with or without a port, ends at `end`. Blanks may follow the address. */
static bool
address_before(const char *text, size_t end)
{
	char word[SERVER_TEXT_MAX];
	struct server server;
	size_t from;

	while (end > 0 && conf_is_blank(text[end - 1]))
		end--;
	for (from = end; from > 0 && end - from < sizeof word - 1; from--)
		if (!isxdigit((unsigned char)text[from - 1]) &&
		    strchr(".:[]", text[from - 1]) == NULL)
			break;
	/* the bracket of a list, not of an address */
	if (text[from] == '[' && memchr(text + from, ']', end - from) == NULL)
		from++;
	memcpy(word, text + from, end - from);
	word[end - from] = '\0';
	return server_parse(word, 53, &server, NULL) == 0;
}

static bool
asks_tls_at(const char *text, size_t len, size_t i)
{
	if (text[i] == '#' || text[i] == '@')
		return address_before(text, i);
	if (text[i] == '/')
		return i + 1 < len && text[i + 1] == '/';
	return len - i > 3 && strncasecmp(text + i, "tls", 3) == 0 &&
	       (text[i + 3] == ':' || text[i + 3] == '/') && (i == 0 || !is_name_byte(text[i - 1]));
}

bool
conf_asks_tls(const char *text, size_t len)
{
	char *plain = unescape(text, &len);
	bool found = false;

	for (size_t i = 0; i < len && !found; i++)
		found = asks_tls_at(plain, len, i);
	free(plain);
	return found;
}

char *
conf_closed_join(char *text, size_t *len, const char *other, size_t other_len)
{
	size_t at = text != NULL ? *len : 0;

	text = xreallocarray(text, at + other_len + 2, 1);
	if (at > 0)
		text[at++] = '\n'; /* two JSON texts are not JSON, so the words count */
	memcpy(text + at, other, other_len);
	*len = at + other_len;
	text[*len] = '\0';
	return text;
}

bool
conf_upstreams_close(const char *text, size_t len, struct conf_upstreams *upstreams)
{
	*upstreams = (struct conf_upstreams){ .closed = text == NULL || conf_asks_tls(text, len) };
	return upstreams->closed;
}

/* --- stub domains --- */

/* Adds the domain. Returns false if it is not a domain name, or if there are too many domains. */
static bool
add_domain(struct conf_stubs *stubs, const char *text)
{
	struct conf_stub stub = { .closed = true };
	const char *ignored;

	if (stubs->count == CONF_STUBS_MAX || conf_name_parse(text, stub.domain, &ignored) < 0)
		return false;
	if ((stubs->count & (stubs->count - 1)) == 0) /* 0 or a power of two: no space is left */
		stubs->items = xreallocarray(
		    stubs->items, stubs->count > 0 ? 2 * stubs->count : 1, sizeof *stubs->items);
	stubs->items[stubs->count++] = stub;
	return true;
}

/* Adds the domains that have a tls:// server. Returns false if a domain is unknown. */
static bool
add_members(struct conf_stubs *stubs, struct json_object *object)
{
	json_object_object_foreach(object, name, servers)
	{
		const char *value = json_object_to_json_string_ext(
		    servers, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);

		if (conf_asks_tls(value, strlen(value)) && !add_domain(stubs, name))
			return false;
	}
	return stubs->count > 0;
}

/* Whether a word is part of a server: an address, a port, or a piece of a tls:// server. */
static bool
is_server_part(const char *word)
{
	struct server server;
	const char *ignored;

	return strspn(word, "0123456789") == strlen(word) || strcasecmp(word, "tls") == 0 ||
	       strcasecmp(word, "null") == 0 || strpbrk(word, "/#@\\") != NULL ||
	       server_parse(word, 53, &server, &ignored) == 0;
}

/* Adds each word that can be a domain. Returns false if there is none, or if a word cannot be read. */
static bool
add_words(struct conf_stubs *stubs, const char *text, size_t len)
{
	static const char between[] = "{}[]:,\" \t\r\n";

	for (size_t at = 0; at < len;) {
		size_t end = at;

		while (end < len && text[end] != '\0' && strchr(between, text[end]) == NULL)
			end++;
		char *word = xstrndup(text + at, end - at);
		bool read = *word == '\0' || is_server_part(word) || add_domain(stubs, word);

		free(word);
		if (!read)
			return false;
		at = end + 1;
	}
	return stubs->count > 0;
}

static int
by_domain(const void *a, const void *b)
{
	return strcmp(((const struct conf_stub *)a)->domain, ((const struct conf_stub *)b)->domain);
}

/* Sorts the domains and removes duplicates. */
static void
sort_domains(struct conf_stubs *stubs)
{
	size_t kept = 0;

	if (stubs->count == 0)
		return;
	qsort(stubs->items, stubs->count, sizeof *stubs->items, by_domain);
	for (size_t i = 0; i < stubs->count; i++)
		if (i == 0 || strcmp(stubs->items[i].domain, stubs->items[kept - 1].domain) != 0)
			stubs->items[kept++] = stubs->items[i];
	stubs->count = kept;
}

bool
conf_stubs_close(const char *text, size_t len, struct conf_stubs *stubs)
{
	struct json_object *object = NULL;
	char *why = NULL;
	bool known = false;

	*stubs = (struct conf_stubs){ .closed = text == NULL || conf_asks_tls(text, len) };
	if (!stubs->closed)
		return false;
	if (text == NULL) {
		stubs->closed_all = true;
		return true;
	}
	/* Of two members with the same name, json-c keeps one. The words have both. */
	if (conf_json_parse(text, len, '{', "", &object, &why) == 0 && object != NULL &&
	    conf_json_scan(text, len).members == (size_t)json_object_object_length(object))
		known = add_members(stubs, object);
	else
		known = add_words(stubs, text, len);
	json_object_put(object);
	free(why);
	if (!known) {
		conf_stubs_free(stubs);
		stubs->closed = stubs->closed_all = true;
	}
	sort_domains(stubs);
	return true;
}

char *
conf_stubs_closed_names(const struct conf_stubs *stubs)
{
	if (stubs->closed_all)
		return xstrdup("all external names (a domain cannot be read)");
	const char *first = NULL;
	size_t count = 0;
	for (size_t i = 0; i < stubs->count; i++)
		if (stubs->items[i].closed && count++ == 0)
			first = stubs->items[i].domain;
	if (count > 1)
		return xasprintf("names of %s and %zu more domains", first, count - 1);
	return count == 1 ? xasprintf("names of %s", first) : NULL;
}
