/*
 * The ConfigMap key `records`: the records of each text, and the texts that are refused. ldns,
 * which shares no code with us, must read the same records from each accepted line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <ldns/ldns.h>

#include "lib/conf_records.h"
#include "lib/dname.h"
#include "lib/rdata_text.h"
#include "lib/xalloc.h"

static char out[1 << 16];

/* Returns the records as "name TTL TYPE rdata | ...". If the text is refused, returns '!' and the
 * reason. */
static const char *
records_of(const char *text, size_t len)
{
	struct conf_records records;
	char *why = NULL, name[DNAME_TEXT_MAX], type[12];
	FILE *f = fmemopen(out, sizeof out, "w");

	if (conf_records_parse(text, len, "cluster.local.", &records, &why) < 0) {
		assert_int_equal(records.count, 0);
		fprintf(f, "!%s", why);
		free(why);
		fclose(f);
		return out;
	}
	assert_null(why);
	for (size_t i = 0; i < records.count; i++) {
		const struct conf_record *r = &records.items[i];

		fprintf(f, "%s%s ", i > 0 ? " | " : "", dname_to_text(r->name, name));
		if (r->ttl_s != CONF_RECORDS_TTL_UNSET)
			fprintf(f, "%u ", r->ttl_s);
		fprintf(f, "%s ", type_name(r->type, type));
		rdata_print(f, r->type, r->rdata, r->rdata_len);
	}
	fputc('\0', f);
	fclose(f);
	conf_records_free(&records);
	return out;
}

struct row {
	const char *text, *want;
};

static void
expect_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *got = records_of(rows[i].text, strlen(rows[i].text));

		if (strcmp(got, rows[i].want) != 0)
			fail_msg("\"%s\":\n  %s\nwant\n  %s", rows[i].text, got, rows[i].want);
	}
}
#define EXPECT(rows) expect_rows(rows, sizeof rows / sizeof rows[0])

static void
names_are_absolute_or_below_the_origin(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "a.example A 10.0.0.1", "a.example. A 10.0.0.1" },
		{ "A.Example. IN 60 A 10.0.0.1", "a.example. 60 A 10.0.0.1" },
		{ "a.example 1h30m IN A 10.0.0.1", "a.example. 5400 A 10.0.0.1" },
		{ "$ORIGIN z.example.\n@ A 10.0.0.1\nb A 10.0.0.2\nc.example. A 10.0.0.3",
		    "c.example. A 10.0.0.3 | z.example. A 10.0.0.1 | b.z.example. A 10.0.0.2" },
		{ "$origin example\n$ORIGIN z\nb CNAME c\n", "b.z.example. CNAME c.z.example." },
		{ "$ORIGIN z.example.\nb CNAME c.example.\n", "b.z.example. CNAME c.example." },
		{ "$TTL 2m\na A 10.0.0.1\n\tAAAA ::1\n$TTL 5\nb 7 A 10.0.0.2",
		    "a. 120 A 10.0.0.1 | a. 120 AAAA ::1 | b. 7 A 10.0.0.2" },
		{ "\n; note\na A 10.0.0.1 ; note\r\n  \n ; note\n", "a. A 10.0.0.1" },
		{ "a A 10.0.0.2\na A 10.0.0.1\na A 10.0.0.2", "a. A 10.0.0.1 | a. A 10.0.0.2" },
		{ "*.a.example A 10.0.0.1", "*.a.example. A 10.0.0.1" },
		{ "sub.*.example TXT x", "sub.*.example. TXT \"x\"" }, /* RFC 4592 section 2.2.1 */
		{ "*.*.example A 10.0.0.1", "*.*.example. A 10.0.0.1" },
		{ "a*.example A 10.0.0.1", "!line 1: \"a*.example\": not a domain name" },
		{ "a.svc.cluster.local A 10.0.0.1", "a.svc.cluster.local. A 10.0.0.1" },
		{ "1.0.0.10.in-addr.arpa PTR a.example", "1.0.0.10.in-addr.arpa. PTR a.example." },
		{ "home.arpa SOA a b 1 1h 600 1d 60", "home.arpa. SOA a. b. 1 3600 600 86400 60" },
		{ "null", "" },
		{ "; nothing yet", "" },
		{ "", "" },
		{ " A 10.0.0.1", "!line 1: \"A\": begins with a blank, which means the name of the "
				 "line before, but no earlier line has a name" },
		{ "a/b A 10.0.0.1", "!line 1: \"a/b\": not a domain name" },
		{ "a\\000b A 10.0.0.1", "!line 1: \"a\\000b\": not a domain name" },
		{ "a.*.b A 10.0.0.1", "a.*.b. A 10.0.0.1" },
		{ ". A 10.0.0.1", "!line 1: \".\": the root cannot have records" },
		{ "*. A 10.0.0.1", "!line 1: \"*.\": a wildcard below the root would match all "
				   "names; add a domain" },
		{ "a..b A 10.0.0.1", "!line 1: \"a..b\": not a domain name" },
		{ "\n$INCLUDE /etc/passwd",
		    "!line 2: \"$INCLUDE\": not supported; write the file's lines here" },
		{ "$GENERATE 1-9 a$ A 10.0.0.$",
		    "!line 1: \"$GENERATE\": not supported; write its lines out, or a wildcard" },
		{ "$ORIGIN", "!line 1: \"$ORIGIN\": must be followed by one word" },
		{ "$FOO 1", "!line 1: \"$FOO\": not supported; only $ORIGIN and $TTL are" },
		{ "$TTL x", "!line 1: \"x\": not a time in seconds, as 3600 or 1h" },
		{ "a 4294967296 A 10.0.0.1", "!line 1: \"4294967296\": neither a type nor a TTL; "
					     "write an unknown type by number, as TYPE123" },
	};

	EXPECT(rows);
	assert_string_equal(records_of("a A 10.0.0.1\0", 13), "!line 1, column 13: NUL byte");
}

static void
each_type_has_its_form(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "a MX 10 m", "a. MX 10 m." },
		{ "a TXT x \"y z\" \"\" \"q\\\"\\\\\" \\065\\000",
		    "a. TXT \"x\" \"y z\" \"\" \"q\\\"\\\\\" \"A\\000\"" },
		{ "a TXT \"one; (two)\" three;four", "a. TXT \"one; (two)\" \"three\"" },
		{ "a TXT ( one ; note\n two\n) \nb A 10.0.0.1",
		    "a. TXT \"one\" \"two\" | b. A 10.0.0.1" },
		{ "a SRV 0 5 8080 b.example", "a. SRV 0 5 8080 b.example." },
		{ "a CAA 0 issue \"ca.example; x=1\"", "a. CAA 0 issue \"ca.example; x=1\"" },
		{ "a NAPTR 1 2 u E2U+sip \"!^.*$!sip:x@y!\" .",
		    "a. NAPTR 1 2 \"u\" \"E2U+sip\" \"!^.*$!sip:x@y!\" ." },
		{ "a SSHFP 4 2 AB cd", "a. TYPE44 4 2 abcd" },
		{ "a TYPE731 \\# 6 abcdef 012345", "a. TYPE731 \\# 6 abcdef012345" },
		{ "a type731 \\# 0", "a. TYPE731 \\# 0" },
		{ "a TYPE1 10.0.0.1", "a. A 10.0.0.1" },
		{ "a A 10.0.0", "!line 1: \"10.0.0\": not an IPv4 address" },
		{ "a AAAA 10.0.0.1", "!line 1: \"10.0.0.1\": not an IPv6 address" },
		{ "a A", "!line 1: \"A\": the type is not followed by data" },
		{ "a 60", "!line 1: \"60\": is not followed by a type" },
		{ "a", "!line 1: \"a\": is not followed by a type" },
		{ "a A 10.0.0.1 10.0.0.2", "!line 1: \"10.0.0.2\": one word too many; a text with "
					   "blanks must be in double quotes" },
		{ "a MX m", "!line 1: \"m\": not a number from 0 to 65535" },
		{ "a MX 10", "!line 1: \"10\": is not followed by all fields of the record" },
		{ "a SRV 0 5 70000 b", "!line 1: \"70000\": not a number from 0 to 65535" },
		{ "a TXT \"x", "!line 1: \"\"x\": a quote is not closed" },
		{ "a TXT x\\", "!line 1: \"x\\\": a quote is not closed" },
		{ "a TXT \\300", "!line 1: \"\\300\": a backslash must be followed by a character, "
				 "or by three digits up to 255" },
		{ "a TXT ( x", "!line 1: \"(\": is not closed" },
		{ "a TXT ( ( x", "!line 1: \"(\": a parenthesis inside another" },
		{ "a TXT x )", "!line 1: \")\": no parenthesis is open" },
		{ "a FOO x", "!line 1: \"FOO\": neither a type nor a TTL; write an unknown type by "
			     "number, as TYPE123" },
		{ "a CH TXT x", "!line 1: \"CH\": neither a type nor a TTL; write an unknown type "
				"by number, as TYPE123" },
		{ "a TYPE731 x", "!line 1: \"x\": unknown type: write \\# LENGTH and the bytes in "
				 "hex (RFC 3597)" },
		{ "a TYPE731 \\# 2 ab", "!line 1: \"2\": not the number of bytes that follow" },
		{ "a TYPE731 \\# 1 abc", "!line 1: \"abc\": an odd number of hexadecimal digits" },
		{ "a TYPE731 \\# 1 xy", "!line 1: \"xy\": not hexadecimal" },
		{ "a CNAME \\# 1 00", "!line 1: \"\\#\": the type is known; write its fields" },
		{ "a DNAME b",
		    "!line 1: \"DNAME\": not supported; use a suffix in the key rewrites" },
		{ "a TYPE39 \\# 0",
		    "!line 1: \"TYPE39\": not supported; use a suffix in the key rewrites" },
		{ "a DS 1 2 3 ab",
		    "!line 1: \"DS\": is for signed zones, which kubedns does not have" },
		{ "a TYPE48 \\# 0",
		    "!line 1: \"TYPE48\": is for signed zones, which kubedns does not have" },
		{ "a TYPE255 \\# 0", "!line 1: \"TYPE255\": not a type of records in a zone" },
		{ "a TYPE41 \\# 0", "!line 1: \"TYPE41\": not a type of records in a zone" },
		{ "a TYPE0 \\# 0", "!line 1: \"TYPE0\": neither a type nor a TTL; write an unknown "
				   "type by number, as TYPE123" },
		{ "a TYPE65535 \\# 0", "!line 1: \"TYPE65535\": not a type of records in a zone" },
		{ "a HTTPS 1 . alpn=h2,h3 alpn=h2",
		    "!line 1: \"alpn=h2\": a parameter is given twice" },
		{ "a HTTPS 1 . port=443\\000", "!line 1: \"port=443\\000\": a byte of value 0" },
		{ "a HTTPS 1 . foo=1", "!line 1: \"foo=1\": unknown parameter; write it by number, "
				       "as key65400=VALUE" },
		{ "a HTTPS 1 . no-default-alpn", "!line 1: \"no-default-alpn\": needs alpn" },
	};

	EXPECT(rows);
}

#define SOA " SOA ns.z hm.z 1 3600 600 86400 60\n"

static void
records_stand_beside_each_other_as_in_a_zone(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "z" SOA "z NS ns.z\nz A 10.0.0.1",
		    "z. A 10.0.0.1 | z. NS ns.z. | z. SOA ns.z. hm.z. 1 3600 600 86400 60" },
		{ "a CNAME b\na A 10.0.0.1", "!line 1: \"a.\": has a CNAME record and others; an "
					     "alias may have no other records" },
		{ "a CNAME b\na CNAME c", "!line 2: \"a.\": has a CNAME record and others; an "
					  "alias may have no other records" },
		{ "z" SOA "z SOA a b 2 1 1 1 1",
		    "!line 1: \"z.\": has two SOA records; remove one" },
		{ "a NS b", "!line 1: \"a.\": has NS records and no SOA record: kubedns does not "
			    "delegate names; use the key stubDomains" },
		{ "a 1 A 10.0.0.1\na 2 A 10.0.0.2",
		    "!line 2: \"a.\": has another TTL than other records of the same name and "
		    "type; use one TTL for all of them" },
		{ "*.a" SOA, "!line 1: \"*.a.\": a wildcard cannot be a zone" },
		{ "cluster.local" SOA,
		    "!line 1: \"cluster.local.\": is in the cluster domain, where SOA records and "
		    "wildcards are not allowed; write the names" },
		{ "*.svc.cluster.local A 10.0.0.1",
		    "!line 1: \"*.svc.cluster.local.\": is in the cluster domain, where SOA "
		    "records and wildcards are not allowed; write the names" },
		{ "local" SOA, "local. SOA ns.z. hm.z. 1 3600 600 86400 60" },
		{ "Cluster.Local TXT a",
		    "!line 1: \"cluster.local.\": is the cluster domain itself, which would lose "
		    "its SOA and NS records; use a name in it" },
		{ "10.in-addr.arpa" SOA,
		    "!line 1: \"10.in-addr.arpa.\": is a reverse name, for which SOA records and "
		    "wildcards are not allowed; write the PTR records" },
		{ "*.arpa A 10.0.0.1",
		    "!line 1: \"*.arpa.\": is a reverse name, for which SOA records and wildcards "
		    "are not allowed; write the PTR records" },
	};

	EXPECT(rows);
}

static void
ldns_reads_the_same_in_each_line(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"a.example. 60 IN A 10.0.0.1",
		"a.example. 60 IN AAAA 2001:db8::1",
		"a.example. 60 IN CNAME b\\.c.example.",
		"a.example. 60 IN SOA ns.example. john\\.doe.example. 1 2h 3m 4w 5",
		"a.example. 60 IN MX 10 m.example.",
		"a.example. 60 IN TXT \"a b\" c \"\\\"\" \"\\195\\188\"",
		"a.example. 60 IN SRV 1 2 3 b.example.",
		"a.example. 60 IN CAA 128 issuewild \"ca.example\"",
		"a.example. 60 IN NAPTR 10 20 \"s\" \"SIP+D2U\" \"\" _sip._udp.example.",
		"a.example. 60 IN SSHFP 1 1 123456789abcdef67890123456789abcdef67890",
		"_443._tcp.a.example. 60 IN TLSA 3 1 1 "
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		"a.example. 60 IN HINFO \"PC\" \"Linux\"",
		"a.example. 60 IN RP a.example. b.example.",
		"a.example. 60 IN AFSDB 1 b.example.",
		"a.example. 60 IN SPF \"v=spf1 -all\"",
		"a.example. 60 IN URI 10 1 \"https://example/\"",
		"a.example. 60 IN TYPE65400 \\# 3 aabbcc",
		"a.example. 60 IN PTR b.example.",
		"a.example. 60 IN HTTPS 1 . alpn=h3,h2 ipv4hint=192.0.2.1,192.0.2.2 port=8443",
		"a.example. 60 IN HTTPS 1 b.example. ipv6hint=2001:db8::1 alpn=\"h2\" "
		"no-default-alpn",
		"a.example. 60 IN SVCB 0 b.example.",
	};

	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		struct conf_records records;
		ldns_rr *rr = NULL;
		char *why = NULL;

		if (ldns_rr_new_frm_str(&rr, lines[i], 0, NULL, NULL) != LDNS_STATUS_OK)
			fail_msg("ldns cannot read %s", lines[i]);
		if (conf_records_parse(
			lines[i], strlen(lines[i]), "cluster.local", &records, &why) < 0)
			fail_msg("%s: %s", lines[i], why);
		assert_int_equal(records.count, 1);
		const struct conf_record *ours = &records.items[0];
		assert_int_equal(ours->type, ldns_rr_get_type(rr));
		assert_int_equal(ours->ttl_s, 60);
		uint8_t *wire;
		size_t len;
		ldns_rr2canonical(rr);
		assert_int_equal(
		    ldns_rr2wire(&wire, rr, LDNS_SECTION_ANSWER, &len), LDNS_STATUS_OK);
		assert_memory_equal(wire, ours->name, ours->name_len);
		size_t at = ours->name_len + 10u;
		if (len - at != ours->rdata_len ||
		    memcmp(wire + at, ours->rdata, ours->rdata_len) != 0)
			fail_msg("%s: other RDATA than ldns's", lines[i]);
		free(wire);
		ldns_rr_free(rr);
		conf_records_free(&records);
	}
}

/* This content would fit into a ConfigMap. But it exceeds a limit, so it is refused as a whole. */
static void
the_bounds_hold(void **state)
{
	(void)state;
	static const struct {
		unsigned lines;
		const char *line, *want;
	} rows[] = {
		{ 10000, "n%u A 10.0.0.1\n", "n0. A" },
		{ 10001, "n%u A 10.0.0.1\n", "!line 10002: \"n10000\": more than 10000 records" },
		{ 257, "a TXT %u\n", "!line 2: \"a.\": more than 256 records of one name" },
		{ 5000, "a.b.c.d%u A 10.0.0.1\n", "a.b.c.d0. A" },
		{ 5001, "a.b.c.d%u A 10.0.0.1\n",
		    "!line 1001: \"a.b.c.d999.\": more than 20000 names" },
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char *text = xmalloc(200 * rows[i].lines + 200);
		size_t len = (size_t)sprintf(text, "; bounds\n");

		for (unsigned n = 0; n < rows[i].lines; n++)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			len += (size_t)sprintf(text + len, rows[i].line, n);
#pragma GCC diagnostic pop
		const char *got = records_of(text, len);
		if (strncmp(got, rows[i].want, strlen(rows[i].want)) != 0)
			fail_msg("%.200s, not %s", got, rows[i].want);
		free(text);
	}
}

static void
a_set_and_the_whole_are_bounded_in_bytes(void **state)
{
	(void)state;
	char *text = xmalloc(1 << 20), label[64];
	size_t len = 0;

	/* With their length bytes, 32 strings of 255 bytes have 8 KB. One more string is too long. */
	len += (size_t)sprintf(text, "a TXT");
	for (unsigned i = 0; i < 32; i++)
		len += (size_t)sprintf(text + len, " %0255u", i);
	assert_int_equal(strncmp(records_of(text, len), "a. TXT", 6), 0);
	len += (size_t)sprintf(text + len, " \"\"");
	assert_string_equal(records_of(text, len),
	    "!line 1: \"00000000000000000000000000000000000000000000000000000000000000"
	    "00...\": the record is too long");
	/* With $ORIGIN, a short line has long names. */
	memset(label, 'x', 59);
	label[59] = '\0';
	len = (size_t)sprintf(text, "$ORIGIN %s.%s.%s.%s.\n", label, label, label, label);
	for (unsigned i = 0; i < 9000; i++)
		len += (size_t)sprintf(text + len, "n%u CNAME @\n", i);
	const char *got = records_of(text, len);
	if (strstr(got, "more than 2 MB of names and data") == NULL)
		fail_msg("%.200s", got);
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_absolute_or_below_the_origin),
		cmocka_unit_test(each_type_has_its_form),
		cmocka_unit_test(records_stand_beside_each_other_as_in_a_zone),
		cmocka_unit_test(ldns_reads_the_same_in_each_line),
		cmocka_unit_test(the_bounds_hold),
		cmocka_unit_test(a_set_and_the_whole_are_bounded_in_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
