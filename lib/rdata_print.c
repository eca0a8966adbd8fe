#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>

#include "lib/rdata_text.h"

static void
print_hex(FILE *out, const uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		fprintf(out, "%02x", bytes[i]);
}

static void
print_quoted(FILE *out, const uint8_t *bytes, size_t len)
{
	putc('"', out);
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] < ' ' || bytes[i] >= 0x7f)
			fprintf(out, "\\%03u", bytes[i]);
		else
			fprintf(
			    out, "%s%c", bytes[i] == '"' || bytes[i] == '\\' ? "\\" : "", bytes[i]);
	}
	putc('"', out);
}

/* Returns the length of the field at `rdata`, or 0 if the field is incomplete. */
static size_t
field_len(char form, const uint8_t *rdata, size_t len)
{
	size_t size = form == 'n'                                 ? dname_length(rdata, len)
		      : form == 'a' || form == '4' || form == 't' ? 4
		      : form == '6'                               ? 16
		      : form == '1'                               ? 1
		      : form == '2'                               ? 2
		      : form == 's' || form == 'S' || form == 'g' ? (len > 0 ? 1u + rdata[0] : 0)
								  : len; /* 'v', 'x' */

	return size <= len ? size : 0;
}

static void
print_field(FILE *out, char form, const uint8_t *rdata, size_t len)
{
	char text[DNAME_TEXT_MAX];

	switch (form) {
	case 'a':
		fputs(inet_ntop(AF_INET, rdata, text, sizeof text), out);
		break;
	case '6':
		fputs(inet_ntop(AF_INET6, rdata, text, sizeof text), out);
		break;
	case 'n':
		fputs(dname_to_text(rdata, text), out);
		break;
	case '1':
		fprintf(out, "%u", rdata[0]);
		break;
	case '2':
		fprintf(out, "%u", wire_get16(rdata));
		break;
	case '4':
	case 't':
		fprintf(out, "%u", wire_get32(rdata));
		break;
	case 'g':
		fprintf(out, "%.*s", (int)rdata[0], (const char *)rdata + 1);
		break;
	case 's':
	case 'S':
		print_quoted(out, rdata + 1, rdata[0]);
		break;
	case 'v':
		print_quoted(out, rdata, len);
		break;
	default:
		print_hex(out, rdata, len);
		break;
	}
}

/* Whether a tag of CAA has only letters and digits (RFC 8659 section 4.1). Such a tag is printed
 * without escapes. */
static bool
is_tag(const uint8_t *field)
{
	for (unsigned i = 1; i <= field[0]; i++)
		if (!isalnum(field[i]))
			return false;
	return true;
}

/* Walks over the fields, and prints them if `out` is set. Returns false if they do not match the form. */
static bool
each_field(FILE *out, const char *form, const uint8_t *rdata, size_t len)
{
	const uint8_t *end = rdata + len;

	for (bool first = true; *form != '\0'; first = false) {
		size_t size = field_len(*form, rdata, (size_t)(end - rdata));

		if (*form == 'p' || (size == 0 && *form != 'v' && *form != 'x') ||
		    (*form == 'g' && !is_tag(rdata)))
			return false;
		if (out != NULL && !first)
			putc(' ', out);
		if (out != NULL)
			print_field(out, *form, rdata, size);
		rdata += size;
		if (*form != 'S' || rdata == end)
			form++;
	}
	return rdata == end;
}

void
rdata_print(FILE *out, uint16_t type, const uint8_t *rdata, size_t len)
{
	const char *form = rdata_form(type);

	if (form != NULL && each_field(NULL, form, rdata, len)) {
		each_field(out, form, rdata, len);
		return;
	}
	fprintf(out, "\\# %zu%s", len, len > 0 ? " " : "");
	print_hex(out, rdata, len);
}
