/* Parameters of SVCB and HTTPS records, KEY or KEY=VALUE: RFC 9460 section 2.1 and appendix A. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/master_file.h"
#include "lib/rdata_text.h"

enum { PARAMS_MAX = 16, VALUE_MAX = 1024, NOT_DEFAULT_ALPN = 2 };

struct param {
	uint32_t key;
	size_t len;
	uint8_t value[VALUE_MAX];
};

/* Parses a parameter's value, `len` bytes of `value` without escapes. Returns the length on the
 * wire, or -EINVAL and a reason. */
typedef int read_value(struct param *param, char *value, size_t len, const char **why);

/* Reads a list such as "h2,h3", which becomes length-prefixed strings. */
static int
read_alpn(struct param *param, char *value, size_t len, const char **why)
{
	char *end = value + len;

	*why = "not protocols of 1 to 255 bytes, separated by commas";
	for (char *at = value;; at++) {
		char *comma = memchr(at, ',', (size_t)(end - at)),
		     *to = comma != NULL ? comma : end;
		size_t size = (size_t)(to - at);

		if (size == 0 || size > UINT8_MAX || param->len + 1 + size > VALUE_MAX)
			return -EINVAL;
		param->value[param->len++] = (uint8_t)size;
		memcpy(param->value + param->len, at, size);
		param->len += size;
		if (comma == NULL)
			return 0;
		at = comma;
	}
}

static int
read_nothing(struct param *param, char *value, size_t len, const char **why)
{
	(void)param;
	(void)value;
	*why = "must not have a value";
	return len == 0 ? 0 : -EINVAL;
}

static int
read_port(struct param *param, char *value, size_t len, const char **why)
{
	uint32_t port;

	(void)len;
	*why = "not a port from 0 to 65535";
	if (!master_number(value, UINT16_MAX, &port))
		return -EINVAL;
	wire_put16(param->value, port);
	param->len = 2;
	return 0;
}

static int
read_hints(struct param *param, char *value, int family, const char **why)
{
	size_t size = family == AF_INET ? 4 : 16;
	char *rest = value, *word;

	*why = family == AF_INET ? "not IPv4 addresses, separated by commas"
				 : "not IPv6 addresses, separated by commas";
	while ((word = strsep(&rest, ",")) != NULL) {
		if (param->len + size > VALUE_MAX ||
		    inet_pton(family, word, param->value + param->len) != 1)
			return -EINVAL;
		param->len += size;
	}
	return 0;
}

static int
read_ipv4hint(struct param *param, char *value, size_t len, const char **why)
{
	(void)len;
	return read_hints(param, value, AF_INET, why);
}

static int
read_ipv6hint(struct param *param, char *value, size_t len, const char **why)
{
	(void)len;
	return read_hints(param, value, AF_INET6, why);
}

static int
read_opaque(struct param *param, char *value, size_t len, const char **why)
{
	(void)why;
	memcpy(param->value, value, len);
	param->len = len;
	return 0;
}

static const struct {
	const char *name;
	uint16_t key;
	read_value *read;
} keys[] = { { "alpn", 1, read_alpn }, { "no-default-alpn", NOT_DEFAULT_ALPN, read_nothing },
	{ "port", 3, read_port }, { "ipv4hint", 4, read_ipv4hint },
	{ "ipv6hint", 6, read_ipv6hint }, { "dohpath", 7, read_opaque } };
enum { KEYS = sizeof keys / sizeof keys[0] };

/* Sets `*key` to the parameter's number and returns the function that reads its value. Returns NULL
 * if the parameter is unknown. */
static read_value *
find_key(const char *name, size_t len, uint32_t *key)
{
	char number[8] = "";

	for (size_t i = 0; i < KEYS; i++)
		if (strlen(keys[i].name) == len && memcmp(keys[i].name, name, len) == 0) {
			*key = keys[i].key;
			return keys[i].read;
		}
	if (len < 4 || len > 8 || memcmp(name, "key", 3) != 0)
		return NULL;
	memcpy(number, name + 3, len - 3);
	/* Key 0 (mandatory) is refused, because its value would have to agree with the other
	 * parameters. */
	return master_number(number, UINT16_MAX - 1, key) && *key > 7 ? read_opaque : NULL;
}

static int
read_param(struct param *param, const char *word, const char **why)
{
	size_t name_len = strcspn(word, "=");
	char value[VALUE_MAX + 1];

	param->len = 0;
	read_value *read = find_key(word, name_len, &param->key);
	*why = "unknown parameter; write it by number, as key65400=VALUE";
	if (read == NULL)
		return -EINVAL;
	int len = master_bytes(
	    word + name_len + (word[name_len] == '='), (uint8_t *)value, VALUE_MAX, why);
	if (len < 0)
		return -EINVAL;
	value[len] = '\0';
	*why = "a byte of value 0";
	if (memchr(value, '\0', (size_t)len) != NULL)
		return -EINVAL;
	return read(param, value, (size_t)len, why);
}

static int
by_key(const void *a, const void *b)
{
	const struct param *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

int
rdata_svcb_params(
    struct writer *w, char *const *words, size_t count, const char **wrong, const char **why)
{
	struct param params[PARAMS_MAX];

	*wrong = count > 0 ? words[0] : "";
	*why = "more than 16 parameters";
	if (count > PARAMS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		*wrong = words[i];
		if (read_param(&params[i], words[i], why) < 0)
			return -EINVAL;
	}
	if (count > 1)
		qsort(params, count, sizeof params[0], by_key);
	for (size_t i = 0; i < count; i++) {
		*why = "a parameter is given twice";
		if (i > 0 && params[i].key == params[i - 1].key)
			return -EINVAL;
		writer_put16(w, params[i].key);
		writer_put16(w, (unsigned)params[i].len);
		writer_put(w, params[i].value, params[i].len);
	}
	/* RFC 9460 section 7.1.1. */
	*wrong = "no-default-alpn";
	*why = "needs alpn";
	for (size_t i = 0; i < count; i++)
		if (params[i].key == NOT_DEFAULT_ALPN && (i == 0 || params[i - 1].key != 1))
			return -EINVAL;
	return 0;
}
