#include "lib/rdata_text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "lib/master_file.h"

enum { STRING_MAX = 255, VALUE_MAX = 4096 };

/*
 * The format of each type's RDATA, one letter per field:
 *	a 6    IPv4, IPv6 address   n      name, not compressed
 *	1 2 4  number of N bytes    t      seconds
 *	s S    string, strings      g v    tag, stored as a string; text without a length
 *	x      hex, to the end      p      parameters of SVCB
 */
static const struct {
	const char *name;
	uint16_t number;
	const char *form;
} types[] = {
	{ "A", TYPE_A, "a" },
	{ "NS", TYPE_NS, "n" },
	{ "CNAME", TYPE_CNAME, "n" },
	{ "SOA", TYPE_SOA, "nn4tttt" },
	{ "PTR", TYPE_PTR, "n" },
	{ "HINFO", TYPE_HINFO, "ss" },
	{ "MX", TYPE_MX, "2n" },
	{ "TXT", TYPE_TXT, "S" },
	{ "RP", 17, "nn" },
	{ "AFSDB", 18, "2n" },
	{ "AAAA", TYPE_AAAA, "6" },
	{ "SRV", TYPE_SRV, "222n" },
	{ "NAPTR", 35, "22sssn" },
	{ "SSHFP", 44, "11x" },
	{ "TLSA", 52, "111x" },
	{ "SMIMEA", 53, "111x" },
	{ "SVCB", 64, "2np" },
	{ "HTTPS", TYPE_HTTPS, "2np" },
	{ "SPF", 99, "S" },
	{ "URI", 256, "22v" },
	{ "CAA", TYPE_CAA, "1gv" },
};
enum { TYPES = sizeof types / sizeof types[0] };

static const struct {
	const char *name;
	uint16_t number;
} of_signed_zones[] = { { "SIG", 24 }, { "KEY", 25 }, { "NXT", 30 }, { "DS", TYPE_DS },
	{ "RRSIG", 46 }, { "NSEC", 47 }, { "DNSKEY", 48 }, { "NSEC3", 50 }, { "NSEC3PARAM", 51 },
	{ "CDS", 59 }, { "CDNSKEY", 60 }, { "ZONEMD", 63 }, { "DLV", 32769 } };
enum { SIGNED = sizeof of_signed_zones / sizeof of_signed_zones[0], TYPE_DNAME = 39 };

uint16_t
rdata_type(const char *word, const char **why)
{
	uint32_t number = 0;

	if (strncasecmp(word, "TYPE", 4) == 0 && !master_number(word + 4, UINT16_MAX, &number))
		number = 0;
	if (strcasecmp(word, "DNAME") == 0)
		number = TYPE_DNAME;
	for (size_t i = 0; i < TYPES; i++)
		if (strcasecmp(types[i].name, word) == 0)
			return types[i].number;
	for (size_t i = 0; i < SIGNED; i++)
		if (of_signed_zones[i].number == number ||
		    strcasecmp(of_signed_zones[i].name, word) == 0) {
			*why = "is for signed zones, which kubedns does not have";
			return 0;
		}
	if (number == TYPE_DNAME)
		*why = "not supported; use a suffix in the key rewrites";
	else if (number == 0)
		*why = "neither a type nor a TTL; write an unknown type by number, as TYPE123";
	else if (number == TYPE_OPT || (number >= 128 && number <= 255) || number == UINT16_MAX)
		*why = "not a type of records in a zone";
	else
		return (uint16_t)number;
	return 0;
}

const char *
rdata_form(uint16_t type)
{
	for (size_t i = 0; i < TYPES; i++)
		if (types[i].number == type)
			return types[i].form;
	return NULL;
}

static int
hex_digit(char c)
{
	return c >= '0' && c <= '9'                   ? c - '0'
	       : (c | ' ') >= 'a' && (c | ' ') <= 'f' ? (c | ' ') - 'a' + 10
						      : -1;
}

/* Reads hex, whose words may be split between any two digits. */
static int
put_hex(struct writer *w, char *const *words, size_t count, const char **wrong, const char **why)
{
	int half = -1;

	for (size_t i = 0; i < count; i++)
		for (const char *at = words[i]; *at != '\0'; at++) {
			int digit = hex_digit(*at);

			*wrong = words[i];
			*why = "not hexadecimal";
			if (digit < 0)
				return -EINVAL;
			if (half >= 0)
				writer_put8(w, (unsigned)(half << 4 | digit));
			half = half >= 0 ? -1 : digit;
		}
	*why = "an odd number of hexadecimal digits";
	return half >= 0 ? -EINVAL : 0;
}

/* `\# LENGTH HEX...` */
static int
put_unknown(
    struct writer *w, char *const *words, size_t count, const char **wrong, const char **why)
{
	size_t before = w->len;
	uint32_t len;

	*wrong = count > 1 ? words[1] : words[0];
	*why = "unknown type: write \\# LENGTH and the bytes in hex (RFC 3597)";
	if (count < 2 || strcmp(words[0], "\\#") != 0 || !master_number(words[1], UINT16_MAX, &len))
		return -EINVAL;
	if (put_hex(w, words + 2, count - 2, wrong, why) < 0)
		return -EINVAL;
	*wrong = words[1];
	*why = "not the number of bytes that follow";
	return w->overflow || w->len - before == len ? 0 : -EINVAL;
}

static int
put_string(struct writer *w, const char *word, const char **why)
{
	uint8_t bytes[STRING_MAX];
	int len = master_bytes(word, bytes, sizeof bytes, why);

	if (len < 0)
		return -EINVAL;
	writer_put8(w, (unsigned)len);
	writer_put(w, bytes, (size_t)len);
	return 0;
}

static int
put_value(struct writer *w, const char *word, const char **why)
{
	uint8_t bytes[VALUE_MAX];
	int len = master_bytes(word, bytes, sizeof bytes, why);

	if (len < 0)
		return -EINVAL;
	writer_put(w, bytes, (size_t)len);
	return 0;
}

/* RFC 8659 section 4.1. */
static int
put_tag(struct writer *w, const char *word, const char **why)
{
	static const char letters[] =
	    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	*why = "a tag may have only letters and digits";
	if (*word == '\0' || word[strspn(word, letters)] != '\0')
		return -EINVAL;
	return put_string(w, word, why);
}

static int
put_address(struct writer *w, int family, const char *word, const char **why)
{
	uint8_t bytes[16];

	*why = family == AF_INET ? "not an IPv4 address" : "not an IPv6 address";
	if (inet_pton(family, word, bytes) != 1)
		return -EINVAL;
	writer_put(w, bytes, family == AF_INET ? 4 : 16);
	return 0;
}

static int
put_number(struct writer *w, char form, const char *word, const char **why)
{
	uint32_t value;

	*why = form == '1'   ? "not a number from 0 to 255"
	       : form == '2' ? "not a number from 0 to 65535"
	       : form == '4' ? "not a number from 0 to 4294967295"
			     : "not a time in seconds, as 3600 or 1h";
	if (form == 't' ? !master_seconds(word, &value)
			: !master_number(word,
			      form == '1'   ? UINT8_MAX
			      : form == '2' ? UINT16_MAX
					    : UINT32_MAX,
			      &value))
		return -EINVAL;
	if (form == '1')
		writer_put8(w, value);
	else if (form == '2')
		writer_put16(w, value);
	else
		writer_put32(w, value);
	return 0;
}

/* Reads a field that is one word. */
static int
put_field(
    struct writer *w, char form, const char *word, const struct dname *origin, const char **why)
{
	struct dname name;

	switch (form) {
	case 'a':
		return put_address(w, AF_INET, word, why);
	case '6':
		return put_address(w, AF_INET6, word, why);
	case 'n':
		if (master_name(word, origin, &name, why) < 0)
			return -EINVAL;
		writer_put(w, name.wire, name.len);
		return 0;
	case 's':
	case 'S':
		return put_string(w, word, why);
	case 'g':
		return put_tag(w, word, why);
	case 'v':
		return put_value(w, word, why);
	default:
		return put_number(w, form, word, why);
	}
}

static int
put_fields(struct writer *w, const char *form, char *const *words, size_t count,
    const struct dname *origin, const char **wrong, const char **why)
{
	size_t i = 0;

	for (; *form != '\0'; form++) {
		if (*form == 'p')
			return rdata_svcb_params(w, words + i, count - i, wrong, why);
		*wrong = i > 0 ? words[i - 1] : "";
		*why = "is not followed by all fields of the record";
		if (i == count)
			return -EINVAL;
		if (*form == 'x')
			return put_hex(w, words + i, count - i, wrong, why);
		do {
			*wrong = words[i];
			if (put_field(w, *form, words[i++], origin, why) < 0)
				return -EINVAL;
		} while (*form == 'S' && i < count);
	}
	*wrong = i < count ? words[i] : "";
	*why = "one word too many; a text with blanks must be in double quotes";
	return i < count ? -EINVAL : 0;
}

int
rdata_from_text(struct writer *w, uint16_t type, char *const *words, size_t count,
    const struct dname *origin, const char **wrong, const char **why)
{
	const char *form = rdata_form(type);

	*wrong = "";
	*why = "the type is not followed by data";
	if (count == 0)
		return -EINVAL;
	*wrong = words[0];
	*why = "the type is known; write its fields";
	if (form != NULL && strcmp(words[0], "\\#") == 0)
		return -EINVAL;
	int rc = form == NULL ? put_unknown(w, words, count, wrong, why)
			      : put_fields(w, form, words, count, origin, wrong, why);
	if (rc == 0 && w->overflow) {
		*wrong = words[0];
		*why = "the record is too long";
		rc = -EINVAL;
	}
	return rc;
}
