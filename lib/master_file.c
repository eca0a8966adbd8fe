#include "lib/master_file.h"

#include <errno.h>
#include <string.h>

#include "lib/dname.h"

static int
refuse(struct master_entry *entry, const char *word, const char *reason, const char **why)
{
	entry->wrong = word;
	*why = reason;
	return -EINVAL;
}

/* Returns the end of the word at `at`, which is the first blank, parenthesis or comment outside of
 * quotes. Returns NULL if a quote or an escape is incomplete. */
static char *
word_end(char *at)
{
	bool quoted = false;

	for (; *at != '\0'; at++) {
		if (*at == '\\') {
			if (*++at == '\0')
				return NULL;
		} else if (*at == '"') {
			quoted = !quoted;
		} else if (!quoted && strchr(" \t\r();", *at) != NULL) {
			return at;
		}
	}
	return quoted ? NULL : at;
}

/* Opens or closes a parenthesis of the entry. */
static int
parenthesis(struct master_entry *entry, bool opens, const char **why)
{
	if (entry->open == opens)
		return refuse(entry, opens ? "(" : ")",
		    opens ? "a parenthesis inside another" : "no parenthesis is open", why);
	entry->open = opens;
	return 0;
}

int
master_entry_add(struct master_entry *entry, unsigned line, char *text, const char **why)
{
	char *at = text;
	int rc;

	if (!entry->open)
		entry->blank = *text == ' ' || *text == '\t';
	for (;;) {
		at += strspn(at, " \t\r");
		if (*at == '\0' || *at == ';')
			return 0;
		if (*at == '(' || *at == ')') {
			if ((rc = parenthesis(entry, *at == '(', why)) < 0)
				return rc;
			if (entry->count == 0)
				entry->line = line;
			at++;
			continue;
		}
		char *end = word_end(at);
		if (end == NULL)
			return refuse(entry, at, "a quote is not closed", why);
		if (entry->count == MASTER_WORDS_MAX)
			return refuse(entry, at, "more than 256 words in an entry", why);
		if (entry->count == 0)
			entry->line = line;
		entry->words[entry->count++] = at;
		char after = *end;
		*end = '\0';
		at = end + (after != '\0');
		if (after == ';')
			return 0;
		if ((after == '(' || after == ')') &&
		    (rc = parenthesis(entry, after == '(', why)) < 0)
			return rc;
	}
}

void
master_entry_next(struct master_entry *entry)
{
	entry->count = 0;
	entry->open = entry->blank = false;
}

int
master_bytes(const char *word, uint8_t *bytes, size_t capacity, const char **why)
{
	size_t len = 0;

	while (*word != '\0') {
		if (*word == '"') {
			word++;
			continue;
		}
		int byte = dname_octet(&word);
		if (byte < 0) {
			*why = "a backslash must be followed by a character, or by three digits up "
			       "to 255";
			return -EINVAL;
		}
		if (len == capacity) {
			*why = "too long";
			return -EINVAL;
		}
		bytes[len++] = (uint8_t)byte;
	}
	return (int)len;
}

/* Whether the name ends with a dot that is not escaped. */
static bool
is_absolute(const char *word)
{
	size_t len = strlen(word), at = len;

	if (len == 0 || word[len - 1] != '.')
		return false;
	while (at > 1 && word[at - 2] == '\\')
		at--;
	return (len - at) % 2 == 0;
}

int
master_name(const char *word, const struct dname *origin, struct dname *name, const char **why)
{
	if (strcmp(word, "@") == 0) {
		*name = *origin;
		return 0;
	}
	*why = "not a domain name";
	if (strchr(word, '"') != NULL || dname_from_text(name, word) < 0)
		return -EINVAL;
	if (!is_absolute(word) && dname_append(name, origin->wire) < 0) {
		*why = "longer than 255 bytes with the $ORIGIN appended";
		return -EINVAL;
	}
	dname_lower(name->wire, name->len);
	return 0;
}

bool
master_number(const char *word, uint32_t max, uint32_t *value)
{
	uint64_t number = 0;

	if (*word == '\0')
		return false;
	for (; *word != '\0'; word++) {
		if (*word < '0' || *word > '9')
			return false;
		number = number * 10 + (uint64_t)(*word - '0');
		if (number > max)
			return false;
	}
	*value = (uint32_t)number;
	return true;
}

bool
master_seconds(const char *word, uint32_t *seconds)
{
	static const struct {
		char unit;
		uint32_t seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { 'w', 604800 } };
	uint64_t sum = 0, number = 0;
	bool digits = false;

	if (*word < '0' || *word > '9')
		return false;
	for (; *word != '\0'; word++) {
		size_t u = 0;

		if (*word >= '0' && *word <= '9') {
			number = number * 10 + (uint64_t)(*word - '0');
			digits = true;
		} else {
			while (u < 5 && units[u].unit != (*word | ' '))
				u++;
			if (u == 5 || !digits)
				return false;
			sum += number * units[u].seconds;
			number = 0;
			digits = false;
		}
		if (sum > INT32_MAX || number > INT32_MAX)
			return false;
	}
	sum += number;
	*seconds = (uint32_t)sum;
	return sum <= INT32_MAX;
}
