#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/conf.h"
#include "lib/xalloc.h"

/* Returns the stubs as one line: `domain=server,server;domain=...`. If the text is refused, returns
 * '!' and the reason. If some entries are refused, the domains that still have servers follow. */
static char *
stubs_of_bytes(const char *text, size_t len)
{
	static char out[4096];
	struct conf_stubs stubs;
	char *why, server[CONF_SERVER_TEXT_MAX];
	size_t n = 0;

	if (conf_stubs_parse(text, len, "cluster.local.", &stubs, &why) < 0) {
		assert_int_equal(stubs.count, 0);
		assert_non_null(why);
		snprintf(out, sizeof out, "!%s", why);
		free(why);
		return out;
	}
	out[0] = '\0';
	if (why != NULL)
		n = (size_t)snprintf(out, sizeof out, "!%s", why);
	for (size_t i = 0; i < stubs.count; i++) {
		const struct conf_stub *stub = &stubs.items[i];

		if (why != NULL && stub->count == 0)
			continue;
		n += (size_t)snprintf(
		    out + n, sizeof out - n, "%s%s=", n > 0 ? ";" : "", stub->domain);
		for (size_t k = 0; k < stub->count; k++) {
			n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", k ? "," : "",
			    conf_server_format(&stub->servers[k], server));
		}
	}
	free(why);
	conf_stubs_free(&stubs);
	return out;
}

static char *
stubs_of(const char *text)
{
	return stubs_of_bytes(text, strlen(text));
}

static void
addresses_and_names_with_and_without_ports(void **state)
{
	(void)state;
	assert_string_equal(stubs_of("{\"acme.local\": [\"10.0.0.1\", \"10.0.0.2:5353\", "
				     "\"fd00::1\", \"[fd00::2]\", \"[fd00::3]:54\"]}"),
	    "acme.local=10.0.0.1:53,10.0.0.2:5353,[fd00::1]:53,[fd00::2]:53,[fd00::3]:54");
	assert_string_equal(
	    stubs_of("{\"acme.local\": [\"NS.Example.COM.\", \"ns2.example.com:5353\"]}"),
	    "acme.local=ns.example.com:53,ns2.example.com:5353");
}

static void
domains_are_folded_and_sorted(void **state)
{
	(void)state;
	assert_string_equal(stubs_of("{\"Z.Local.\": [\"1.1.1.1\"], \"a.local\": [\"1.1.1.2\"]}"),
	    "a.local=1.1.1.2:53;z.local=1.1.1.1:53");
}

static void
duplicate_servers_count_once(void **state)
{
	(void)state;
	assert_string_equal(
	    stubs_of("{\"a\": [\"1.1.1.1\", \"1.1.1.1:53\", \"x.y\", \"X.y.:53\"]}"),
	    "a=1.1.1.1:53,x.y:53");
}

static void
null_is_empty(void **state)
{
	(void)state;
	assert_string_equal(stubs_of("null"), "");
	assert_string_equal(stubs_of(" null\n"), "");
	assert_string_equal(stubs_of("{}"), "");
	assert_string_equal(stubs_of("{\"a\": null, \"b\": []}"), "a=;b=");
}

static void
wrong_json_says_where(void **state)
{
	(void)state;
	assert_string_equal(stubs_of("{\"a\":\n [\"1.1.1.1\"}"),
	    "!line 2, column 12: array value separator ',' expected");
	assert_string_equal(
	    stubs_of("{\"a\": [\"1.1.1.1\"]"), "!line 1, column 18: unexpected end of data");
	assert_string_equal(stubs_of("{} x"), "!line 1, column 4: text after the end of the value");
	assert_string_equal(stubs_of("{}{}"), "!line 1, column 3: text after the end of the value");
	assert_memory_equal(stubs_of("{'a': []}"), "!line 1, column 2:", 18);
	assert_memory_equal(stubs_of("{\"a\": [],}"), "!line 1, column 10:", 19);
	assert_memory_equal(stubs_of("{\"a\":[[[[[[[[[[[["), "!line 1, column", 15);
	assert_memory_equal(stubs_of("/* c */ {}"), "!\"/* c */ {}\": must be a JSON", 29);
}

static void
wrong_types_are_refused(void **state)
{
	(void)state;
	assert_non_null(strstr(stubs_of("[]"), "must be a JSON object of domains"));
	assert_non_null(strstr(stubs_of("1"), "must be a JSON object of domains"));
	assert_non_null(strstr(stubs_of("true"), "must be a JSON object of domains"));
	assert_string_equal(stubs_of("{\"a\": \"1.1.1.1\"}"),
	    "!\"a\": its servers must be an array of strings, such as [\"10.0.0.1\"]");
	assert_string_equal(stubs_of("{\"a\": [1]}"), "!\"a\"[0]: not a string");
	assert_string_equal(
	    stubs_of("{\"a\": [\"1.1.1.1\", null]}"), "!\"a\"[1]: not a string;a=1.1.1.1:53");
}

static void
a_domain_twice_is_refused_however_it_is_spelled(void **state)
{
	(void)state;
	assert_string_equal(
	    stubs_of("{\"a\": [\"1.1.1.1\"], \"a\": [\"1.1.1.2\"]}"), "!\"a\": is given twice");
	assert_string_equal(
	    stubs_of("{\"a\": [\"1.1.1.1\"], \"A.\": [\"1.1.1.2\"]}"), "!\"a\": is given twice");
	assert_string_equal(stubs_of("{\"a:\\\"b\": []}"), "!\"a:\"b\": not a domain name");
}

/* A former page of Kubernetes showed this form. */
static void
federations_as_json_are_refused_with_the_right_form(void **state)
{
	static const char text[] = "{\"foo\":\"foo.feddomain.example\"}";
	struct conf_federations federations;
	char *why;

	(void)state;
	assert_int_equal(conf_federations_parse(text, strlen(text), &federations, &why), -EINVAL);
	assert_string_equal(why, "line 1, column 1: federations are not JSON: write "
				 "name=domain,name=domain, such as east=east.example.org");
	free(why);
}

static void
characters_that_look_like_json_are_named(void **state)
{
	(void)state;
	assert_string_equal(stubs_of("{\xe2\x80\x9c"
				     "acme.local\xe2\x80\x9d: []}"),
	    "!line 1, column 2: typographic quote (U+201C): write \"");
	assert_string_equal(
	    stubs_of("{\"a\"\xef\xbc\x9a []}"), "!line 1, column 5: wide colon (U+FF1A): write :");
	assert_string_equal(
	    stubs_of("\xef\xbb\xbf{}"), "!line 1, column 1: byte order mark (U+FEFF): remove it");
	assert_string_equal(stubs_of("{\n\xc2\xa0\"a\": []}"),
	    "!line 2, column 1: no-break space (U+00A0): write an ordinary space");
	assert_string_equal(stubs_of("{\"a\": [\xc2\xab"
				     "1.1.1.1\xc2\xbb]}"),
	    "!line 1, column 8: typographic quote (U+00AB): write \"");
}

#define NOT_ADDRESS ", such as 10.0.0.10, 10.0.0.10:53 or [fd00::10]:53"

static void
good_entries_take_effect_beside_refused_ones(void **state)
{
	static const char *const rows[][2] = {
		/* Confluent and CockroachDB, with a mistake in another entry */
		{ "{\"svc.cluster.local\": [\"1.1.1.1\"], \"corp\": [\"1.1.1.2\"]}",
		    "!\"svc.cluster.local\": holds the cluster's services;corp=1.1.1.2:53" },
		{ "{\"a\": [\"1.1\"], \"b\": [\"1.1.1.2\"], \"c..d\": [\"1.1.1.3\"]}",
		    "!\"1.1\" (server 1 of \"a\"): not an address" NOT_ADDRESS
		    "; 1 more;b=1.1.1.2:53" },
		{ "{\"a\": [\"1.1\", \"1.1.1.1\"]}",
		    "!\"1.1\" (server 1 of \"a\"): not an address" NOT_ADDRESS ";a=1.1.1.1:53" },
		{ "{\"a\": [\"1.1.1.1\"], \"a\": [\"1.1.1.2\"], \"b\": [\"1.1.1.3\"]}",
		    "!\"a\": is given twice;b=1.1.1.3:53" },
		{ "{\"\\u0061\": [\"1.1.1.1\"], \"a\": [], \"A\": [\"1.1.1.2\"], \"b\": "
		  "[\"1.1.1.3\"]}",
		    "!\"a\": is given twice; 1 more;b=1.1.1.3:53" },
		/* plain servers do not replace a server that asks for TLS */
		{ "{\"a\": [\"1.1.1.1#dns.a\", \"1.1.1.1\"], \"b\": [\"1.1.1.2\"]}",
		    "!\"1.1.1.1#dns.a\" (server 1 of \"a\"): the port must follow ':', as in "
		    "10.0.0.1:5353; 1 more;b=1.1.1.2:53" },
		{ "{\"a\": [\"tls://1.1.1.1#dns.a\", \"tls://1.1.1.2\"]}", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i][1] == NULL)
			assert_non_null(strstr(stubs_of(rows[i][0]), ";a=tls://1.1.1.1:853#dns.a"));
		else
			assert_string_equal(stubs_of(rows[i][0]), rows[i][1]);
}

static void
a_domain_without_a_good_server_keeps_its_last_ones_or_is_closed(void **state)
{
	static const char good[] = "{\"a\": [\"1.1.1.1\"], \"b\": []}",
			  bad[] = "{\"a\": [\"1.1\"], \"b\": [\"1.1\"], \"c\": \"x\", \"d\": []}";
	struct conf_stubs before, stubs;
	char *why;

	(void)state;
	assert_int_equal(conf_stubs_parse(good, strlen(good), "cluster.local", &before, &why), 0);
	assert_null(why);
	assert_int_equal(conf_stubs_parse(bad, strlen(bad), "cluster.local", &stubs, &why), 0);
	free(why);
	conf_stubs_settle(&stubs, &before);
	assert_int_equal(stubs.count, 4);
	assert_int_equal(stubs.items[0].count, 1);
	for (size_t i = 0; i < stubs.count; i++)
		assert_int_equal(stubs.items[i].closed, i == 1 || i == 2);
	conf_stubs_free(&before);
	conf_stubs_free(&stubs);
}

/* Returns the parsed value after `before`, which is freed. */
static struct conf_stubs
settled(const char *text, struct conf_stubs before)
{
	struct conf_stubs stubs;
	char *why;

	assert_int_equal(conf_stubs_parse(text, strlen(text), "cluster.local", &stubs, &why), 0);
	free(why);
	conf_stubs_settle(&stubs, &before);
	conf_stubs_free(&before);
	return stubs;
}

static void
tls_of_a_domain_that_cannot_be_read_is_never_dropped(void **state)
{
	static const char bad[] = "{\"a b\": [\"tls://9.9.9.9#x\"], \"c\": [\"1.1.1.1\"]}",
			  twice[] = "{\"a b\": [\"tls://9.9.9.9#x\"], \"a b\": []}",
			  good[] = "{\"a\": [\"tls://9.9.9.9#x\"], \"d\": [\"1.1.1.1\"]}";
	struct conf_stubs stubs = settled(twice, (struct conf_stubs){ 0 });

	(void)state;
	assert_true(stubs.closed_all);
	stubs = settled(bad, stubs);
	assert_true(stubs.closed_all);
	stubs = settled(bad, stubs); /* as after a change of another key */
	assert_true(stubs.closed_all);
	stubs = settled(bad, settled(good, stubs));
	assert_false(stubs.closed_all);
	assert_int_equal(stubs.count, 2);
	assert_string_equal(stubs.items[0].domain, "a");
	assert_string_equal(stubs.items[0].servers[0].tls_name, "x");
	assert_string_equal(stubs.items[1].domain, "c");
	conf_stubs_free(&stubs);
}

static void
cluster_names_are_refused(void **state)
{
	(void)state;
	assert_string_equal(stubs_of("{\"cluster.local\": [\"1.1.1.1\"]}"),
	    "!\"cluster.local\": is the cluster domain, which kubedns answers: remove it");
	assert_string_equal(stubs_of("{\"Cluster.LOCAL.\": [\"1.1.1.1\"]}"),
	    "!\"Cluster.LOCAL.\": is the cluster domain, which kubedns answers: remove it");
	assert_string_equal(stubs_of("{\"svc.cluster.local\": [\"1.1.1.1\"]}"),
	    "!\"svc.cluster.local\": holds the cluster's services");
	assert_string_equal(stubs_of("{\"pod.cluster.local\": [\"1.1.1.1\"]}"),
	    "!\"pod.cluster.local\": holds the cluster's pods");
	assert_string_equal(stubs_of("{\".\": [\"1.1.1.1\"]}"), "!\".\": the root");
	assert_string_equal(stubs_of("{\"\": [\"1.1.1.1\"]}"), "!\"\": the root");
	assert_string_equal(
	    stubs_of("{\"other.cluster.local\": [\"1.1.1.1\"], \"xcluster.local\": [\"1.1.1.1\"]}"),
	    "other.cluster.local=1.1.1.1:53;xcluster.local=1.1.1.1:53");
	/* as for CockroachDB and Confluent in several clusters */
	assert_string_equal(stubs_of("{\"east.svc.cluster.local\": [\"1.1.1.1\"]}"),
	    "east.svc.cluster.local=1.1.1.1:53");
	assert_string_equal(
	    stubs_of("{\"a.pod.cluster.local\": [\"1.1.1.1\"]}"), "a.pod.cluster.local=1.1.1.1:53");
}

static void
domains_that_are_no_names_are_refused(void **state)
{
	(void)state;
	static const char *const bad[] = { "a..b", ".a", "a/b", "a#b", "a@b", "a b", "*.a", "-a",
		"a-", "a\\\\.b", "a\\nb", "b\\u00fccher",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char text[256];

		snprintf(text, sizeof text, "{\"%s\": [\"1.1.1.1\"]}", bad[i]);
		char *got = stubs_of(text);
		assert_int_equal(got[0], '!');
		assert_non_null(strstr(got, "not a domain name"));
	}
}

static void
servers_that_cannot_be_asked_are_refused(void **state)
{
	(void)state;
	static const char *const bad[] = { "010.1.1.1", "1.2.3", "1.2.3.4.5", "256.1.1.1",
		"8.8.8.8:0", "8.8.8.8:65536", "8.8.8.8:", "8.8.8.8:053", "8.8.8.8#53",
		"8.8.8.8@eth0", "[fd00::1]:0", "[fd00::1", "fd00::1]:53", "[fd00::1]53",
		"fe80::1%eth0", "a.b:0", "a.b:65536", "a.b:x", ":53", "", "a b", "a/b",
		"a\\nserver=/x/1.1.1.1", "http://a", "0.0.0.0", "::", "255.255.255.255",
		"224.0.0.1", "ff02::1", "::ffff:1.2.3.4", " 1.1.1.1", "1.1.1.1 ", "0x7f.1", "127.1",
		"-a.b", "a..b" };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char text[256];

		snprintf(text, sizeof text, "{\"a\": [\"%s\"]}", bad[i]);
		char *got = stubs_of(text);
		if (got[0] != '!')
			fail_msg("%s gave %s", bad[i], got);
		assert_non_null(strstr(got, "(server 1 of \"a\")"));
	}
}

static void
nul_bytes_are_refused_wherever_they_hide(void **state)
{
	(void)state;
	assert_string_equal(stubs_of_bytes("{}\0", 3), "!line 1, column 3: NUL byte");
	assert_string_equal(stubs_of("{\"a\\u0000b\": []}"), "!line 1, column 4: NUL in a string");
	assert_string_equal(
	    stubs_of("{\"a\": [\"1.1.1.1\\u0000x\"]}"), "!line 1, column 16: NUL in a string");
	assert_string_equal(stubs_of("{\"a\\\\u0000b\": []}"), "!\"a\\u0000b\": not a domain name");
}

static void
invalid_utf8_is_refused(void **state)
{
	(void)state;
	assert_memory_equal(stubs_of("{\"a\xff\": []}"), "!line 1, column", 15);
}

static void
ten_thousand_domains_are_accepted_and_more_than_the_limit_refused(void **state)
{
	(void)state;
	for (size_t count = 10000; count <= 20001; count += 10001) {
		char *text = malloc(count * 40 + 4), *p = text, *why;

		p += sprintf(p, "{");
		for (size_t i = 0; i < count; i++)
			p += sprintf(p, "%s\"d%zu.test\":[\"10.0.0.1\"]", i ? "," : "", i);
		p += sprintf(p, "}");
		struct conf_stubs stubs;
		int rc = conf_stubs_parse(text, (size_t)(p - text), "cluster.local", &stubs, &why);
		if (count == 10000) {
			assert_int_equal(rc, 0);
			assert_int_equal(stubs.count, count);
			conf_stubs_free(&stubs);
		} else {
			assert_int_equal(rc, -22);
			assert_string_equal(why, "more than 20000 domains");
		}
		free(why);
		free(text);
	}
}

static void
seventeen_servers_of_a_domain_are_refused(void **state)
{
	(void)state;
	char text[1024], *p = text;
	p += sprintf(p, "{\"a\":[\"1.1.1.0\"");
	for (int i = 1; i < 17; i++)
		p += sprintf(p, ",\"1.1.1.%d\"", i);
	sprintf(p, "]}");
	assert_memory_equal(stubs_of(text), "!\"a\": more than 16 servers;a=1.1.1.0:53,", 40);
}

static char *
upstreams_of(const char *text)
{
	static char out[2048];
	struct conf_upstreams upstreams;
	char *why, server[CONF_SERVER_TEXT_MAX];
	size_t n = 0;

	if (conf_upstreams_parse(text, strlen(text), &upstreams, &why) < 0) {
		assert_int_equal(upstreams.count, 0);
		snprintf(out, sizeof out, "!%s", why);
		free(why);
		return out;
	}
	out[0] = '\0';
	for (size_t i = 0; i < upstreams.count; i++)
		n += (size_t)snprintf(out + n, sizeof out - n, "%s%s", i ? "," : "",
		    conf_server_format(&upstreams.servers[i], server));
	return out;
}

static void
upstreams_are_addresses_in_the_order_given(void **state)
{
	(void)state;
	assert_string_equal(
	    upstreams_of("[\"8.8.8.8\", \"1.1.1.1:5353\", \"[2001:db8::1]:54\", \"8.8.8.8:53\"]"),
	    "8.8.8.8:53,1.1.1.1:5353,[2001:db8::1]:54");
	assert_string_equal(upstreams_of("null"), "");
	assert_string_equal(upstreams_of("[]"), "");
}

static void
upstreams_that_are_not_addresses_are_refused(void **state)
{
	(void)state;
	assert_non_null(strstr(upstreams_of("{}"), "must be a JSON array of addresses"));
	assert_string_equal(upstreams_of("\"8.8.8.8\""),
	    "!\"8.8.8.8\": an address without brackets; write [\"8.8.8.8\"]");
	assert_string_equal(upstreams_of("[8]"), "!server 1: not a string");
	assert_string_equal(upstreams_of("[\"8.8.8.8\", \"dns.google\"]"),
	    "!\"dns.google\" (server 2): not an address, but a name; an address such as "
	    "10.0.0.10 is needed");
	assert_string_equal(
	    upstreams_of("[\"0.0.0.0\"]"), "!\"0.0.0.0\" (server 1): the unspecified address");
	assert_int_equal(upstreams_of("[\"8.8.8\"]")[0], '!');
	assert_int_equal(upstreams_of("[\"8.8.8.8\\u0000\"]")[0], '!');
}

static void
tls_servers_have_a_server_name(void **state)
{
	(void)state;
	assert_string_equal(
	    upstreams_of("[\"tls://9.9.9.9#DNS.Quad9.net.\", \"tls://[2001:db8::1]:8853#a.b\"]"),
	    "tls://9.9.9.9:853#dns.quad9.net,tls://[2001:db8::1]:8853#a.b");
	assert_string_equal(stubs_of("{\"corp\": [\"tls://10.0.0.1#ns.corp\"]}"),
	    "corp=tls://10.0.0.1:853#ns.corp");
	/* Another name is another server, the same name in capitals is not. */
	assert_string_equal(
	    upstreams_of("[\"tls://1.1.1.1#a\", \"tls://1.1.1.1:853#A\", \"tls://1.1.1.1#b\"]"),
	    "tls://1.1.1.1:853#a,tls://1.1.1.1:853#b");
}

static void
wrong_tls_servers_are_refused(void **state)
{
	static const struct {
		const char *server, *reason;
	} cases[] = {
		{ "tls://9.9.9.9", "the server name is missing" },
		{ "tls://9.9.9.9#", "the server name is missing" },
		{ "tls://9.9.9.9:853", "the server name is missing" },
		{ "tls://", "the server name is missing" },
		{ "tls://#a", "the address is missing" },
		{ "tls://dns.quad9.net#dns.quad9.net", "not an address, but a name" },
		{ "tls://9.9.9.9:0#a", "port out of range" },
		{ "tls://9.9.9.9:65536#a", "port out of range" },
		{ "tls://9.9.9.9:#a", "port out of range" },
		{ "tls://9.9.9.9@853#a", "not an address" },
		{ "tls://0.0.0.0#a", "the unspecified address" },
		{ "tls://[::ffff:1.2.3.4]#a", "write it as IPv4" },
		{ "tls://2001:db8::1#a", "needs brackets" },
		{ "tls://9.9.9.9#9.9.9.9", "the server name is an address" },
		{ "tls://9.9.9.9#2001:db8::1", "the server name is an address" },
		{ "tls://9.9.9.9#a/path", "not a domain name" },
		{ "tls://9.9.9.9#a b", "not a domain name" },
		{ "tls://9.9.9.9#a\\u0022", "not a domain name" },
		{ "tls://9.9.9.9#a#b", "not a domain name" },
		{ "tls://9.9.9.9#-a", "not a domain name" },
		{ "https://9.9.9.9/dns-query", "only tls:// is supported" },
		{ "TLS://9.9.9.9#a", "only tls:// is supported" },
		{ "9.9.9.9#a", "the port must follow ':'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char text[128];

		snprintf(text, sizeof text, "[\"%s\"]", cases[i].server);
		if (upstreams_of(text)[0] != '!' ||
		    strstr(upstreams_of(text), cases[i].reason) == NULL)
			fail_msg("%s: %s", cases[i].server, upstreams_of(text));
		snprintf(text, sizeof text, "{\"corp\": [\"%s\"]}", cases[i].server);
		if (stubs_of(text)[0] != '!' || strstr(stubs_of(text), cases[i].reason) == NULL)
			fail_msg("%s: %s", cases[i].server, stubs_of(text));
	}
	char text[512];
	snprintf(text, sizeof text, "[\"tls://9.9.9.9#%0300d\"]", 1);
	assert_non_null(strstr(upstreams_of(text), "not a domain name"));
}

/* A server that fails over to a plain one would send queries unencrypted. */
static void
plain_and_tls_servers_do_not_mix(void **state)
{
	(void)state;
	assert_non_null(strstr(upstreams_of("[\"8.8.8.8\", \"tls://9.9.9.9#a\"]"),
	    "\"tls://9.9.9.9#a\" (server 2): plain servers and tls:// servers in one list"));
	assert_non_null(strstr(upstreams_of("[\"tls://9.9.9.9#a\", \"8.8.8.8\"]"), "in one list"));
	assert_non_null(
	    strstr(stubs_of("{\"corp\": [\"ns.corp\", \"tls://9.9.9.9#a\"]}"), "in one list"));
	assert_string_equal(stubs_of("{\"a\": [\"tls://9.9.9.9#a\"], \"b\": [\"10.0.0.1\"]}"),
	    "a=tls://9.9.9.9:853#a;b=10.0.0.1:53");
}

static void
a_program_without_tls_refuses_tls_servers(void **state)
{
	struct conf_server servers[2];
	const char *why;

	(void)state;
	assert_int_equal(conf_server_parse("8.8.8.8", &servers[0], &why), 0);
	assert_int_equal(conf_server_parse("tls://9.9.9.9#a.b", &servers[1], &why), 0);
	assert_null(conf_servers_no_tls(servers, 1, "dnsmasq"));
	char *refusal = conf_servers_no_tls(servers, 2, "dnsmasq");
	assert_string_equal(refusal,
	    "\"tls://9.9.9.9:853#a.b\": dnsmasq cannot encrypt queries: run the nanny with "
	    "--engine=unbound, or remove tls:// and the server name");
	free(refusal);
}

static void
fifteen_upstreams_are_allowed_and_sixteen_refused(void **state)
{
	(void)state;
	for (int count = 15; count <= 16; count++) {
		char text[512], *p = text;

		for (int i = 0; i < count; i++)
			p += sprintf(p, "%s\"1.1.1.%d\"", i ? "," : "[", i + 1);
		sprintf(p, "]");
		assert_int_equal(upstreams_of(text)[0] == '!', count == 16);
	}
}

static char *
federations_of(const char *text)
{
	static char out[2048];
	struct conf_federations federations;
	char *why;
	size_t n = 0;

	if (conf_federations_parse(text, strlen(text), &federations, &why) < 0) {
		assert_int_equal(federations.count, 0);
		snprintf(out, sizeof out, "!%s", why);
		free(why);
		return out;
	}
	out[0] = '\0';
	for (size_t i = 0; i < federations.count; i++)
		n += (size_t)snprintf(out + n, sizeof out - n, "%s%s=%s", i ? "," : "",
		    federations.items[i].name, federations.items[i].domain);
	return out;
}

static void
federations_are_names_and_domains(void **state)
{
	(void)state;
	assert_string_equal(federations_of("foo=Example.com."), "foo=example.com");
	assert_string_equal(
	    federations_of(" foo = example.com , bar=b.org,\n"), "foo=example.com,bar=b.org");
	assert_string_equal(federations_of("null"), "");
}

static void
blank_text_is_empty(void **state)
{
	(void)state;
	static const char *const blanks[] = { "", " ", " \n\t", "\r\n" };

	for (size_t i = 0; i < sizeof blanks / sizeof blanks[0]; i++) {
		assert_string_equal(stubs_of(blanks[i]), "");
		assert_string_equal(upstreams_of(blanks[i]), "");
		assert_string_equal(federations_of(blanks[i]), "");
	}
}

static void
wrong_federations_are_refused(void **state)
{
	(void)state;
	assert_string_equal(
	    federations_of("foo"), "!\"foo\": not name=domain, such as east=east.example.org");
	assert_string_equal(
	    federations_of("a.b=c"), "!\"a.b=c\": the federation's name is not one DNS label");
	assert_string_equal(federations_of("foo=a b"),
	    "!\"foo=a b\": the federation's domain is not a domain name");
	assert_string_equal(federations_of("foo=a=b"),
	    "!\"foo=a=b\": the federation's domain is not a domain name");
	assert_string_equal(federations_of("foo=a,FOO=b"), "!\"foo\": is given twice");
	assert_string_equal(federations_of("foo=a,,bar=b"),
	    "!\"\": not name=domain, such as east=east.example.org");
}

/* As much content as a ConfigMap can have. It consists of bytes that a parser may take for the
 * beginning of a value. */
enum { HOSTILE_BYTES = 900 << 10 };

static char *
repeated(const char *before, const char *piece, const char *after)
{
	char *text = xmalloc(HOSTILE_BYTES + 64);
	size_t n = (size_t)sprintf(text, "%s", before), len = strlen(piece);

	for (; n + len <= HOSTILE_BYTES; n += len)
		memcpy(text + n, piece, len);
	strcpy(text + n, after);
	return text;
}

static void
all_keys_judge(char *text)
{
	struct conf_stubs stubs;
	struct conf_upstreams upstreams;
	struct conf_federations federations;
	char *why;

	if (conf_stubs_parse(text, strlen(text), "cluster.local", &stubs, &why) == 0)
		conf_stubs_free(&stubs);
	else
		assert_true(strlen(why) < 400);
	free(why);
	if (conf_upstreams_parse(text, strlen(text), &upstreams, &why) < 0)
		assert_true(strlen(why) < 400);
	free(why);
	if (conf_federations_parse(text, strlen(text), &federations, &why) < 0)
		assert_true(strlen(why) < 400);
	free(why);
	free(text);
}

/* The alarm is no measurement. Linear parsing takes milliseconds, quadratic parsing takes hours. */
static void
a_full_configmap_of_anything_is_judged_in_linear_time(void **state)
{
	(void)state;
	alarm(60);
	all_keys_judge(repeated("", " ", ""));
	all_keys_judge(repeated("a", " ", "=b.org"));
	all_keys_judge(repeated("a=b.org", " \n", ""));
	all_keys_judge(repeated("a=b", " ", "c"));
	all_keys_judge(repeated("", " =", ""));
	all_keys_judge(repeated("", "[", ""));
	all_keys_judge(repeated("{\"a\":", "[", ""));
	all_keys_judge(repeated("", "{", ""));
	all_keys_judge(repeated("\"", "x", "\""));
	all_keys_judge(repeated("[\"", "x", "\"]"));
	all_keys_judge(repeated("[\"", "\\n", "\"]"));
	all_keys_judge(repeated("[\"1.1.1.1\"", ",\"1.1.1.1\"", "]"));
	all_keys_judge(repeated("{\"a\":[\"1.1.1.1\"", ",\"1.1.1.1\"", "]}"));
	all_keys_judge(repeated("{\"a\":[]", ",\"a\":[]", "}"));
	all_keys_judge(repeated("a=b.org", ",a=b.org", ""));
	all_keys_judge(repeated("a=b.org", ",", ""));
	alarm(0);
}

static void
fifty_thousand_entries_are_refused_by_their_number(void **state)
{
	(void)state;
	enum { ENTRIES = 50000 };
	char *upstreams = xmalloc(ENTRIES * 24), *federations = xmalloc(ENTRIES * 24),
	     *stubs = xmalloc(ENTRIES * 24);
	char *u = upstreams, *f = federations, *s = stubs;
	for (int i = 0; i < ENTRIES; i++) {
		u += sprintf(u, "%s\"10.%d.%d.1\"", i ? "," : "[", i / 250, i % 250);
		f += sprintf(f, "%sf%d=b.org", i ? "," : "", i);
		s += sprintf(s, "%s\"d%d\":[]", i ? "," : "{", i);
	}
	strcpy(u, "]");
	strcpy(s, "}");
	assert_string_equal(upstreams_of(upstreams), "!more than 15 servers");
	assert_string_equal(federations_of(federations), "!more than 64 federations");
	assert_string_equal(stubs_of(stubs), "!more than 20000 domains");
	free(upstreams);
	free(federations);
	free(stubs);
}

static void
what_is_not_json_is_shown_as_it_has_to_be_written(void **state)
{
	(void)state;
	assert_string_equal(upstreams_of("8.8.8.8"),
	    "!\"8.8.8.8\": an address without brackets; write [\"8.8.8.8\"]");
	assert_string_equal(upstreams_of(" 2001:db8::1 \n"),
	    "!\"2001:db8::1\": an address without brackets; write [\"2001:db8::1\"]");
	assert_string_equal(upstreams_of("8.8.8.8, 1.1.1.1"),
	    "!\"8.8.8.8, 1.1.1.1\": must be a JSON array of addresses, such as "
	    "[\"8.8.8.8\", \"[2001:db8::1]:53\"]");
	assert_string_equal(stubs_of("acme.local=10.0.0.1"),
	    "!\"acme.local=10.0.0.1\": must be a JSON object of domains, such as "
	    "{\"acme.local\": [\"10.0.0.1\"]}");
	assert_string_equal(
	    upstreams_of("[8.8.8.8]"), "!line 1, column 5: an address must be in double quotes");
	assert_string_equal(upstreams_of("[\"https://1.1.1.1\"]"),
	    "!\"https://1.1.1.1\" (server 1): only tls:// is supported: write ADDRESS, "
	    "ADDRESS:PORT "
	    "or tls://ADDRESS#SERVER-NAME");
	assert_string_equal(upstreams_of("[\"1.1.1.1#5353\"]"),
	    "!\"1.1.1.1#5353\" (server 1): the port must follow ':', as in 10.0.0.1:5353");
}

static void
stub_servers_that_are_urls_or_dnsmasqs_spelling_say_so(void **state)
{
	(void)state;
	assert_non_null(strstr(
	    stubs_of("{\"a\":[\"https://dns.google/dns-query\"]}"), "only tls:// is supported"));
	assert_non_null(strstr(stubs_of("{\"a\":[\"10.0.0.1#5353\"]}"), "must follow ':'"));
}

static void
names_are_under_zones_at_label_borders(void **state)
{
	(void)state;
	assert_true(conf_name_under("a.cluster.local", "cluster.LOCAL"));
	assert_true(conf_name_under("cluster.local", "cluster.local"));
	assert_false(conf_name_under("xcluster.local", "cluster.local"));
	assert_false(conf_name_under("local", "cluster.local"));
	assert_true(conf_name_under("a", ""));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_and_names_with_and_without_ports),
		cmocka_unit_test(domains_are_folded_and_sorted),
		cmocka_unit_test(duplicate_servers_count_once),
		cmocka_unit_test(null_is_empty),
		cmocka_unit_test(blank_text_is_empty),
		cmocka_unit_test(wrong_json_says_where),
		cmocka_unit_test(wrong_types_are_refused),
		cmocka_unit_test(a_domain_twice_is_refused_however_it_is_spelled),
		cmocka_unit_test(federations_as_json_are_refused_with_the_right_form),
		cmocka_unit_test(characters_that_look_like_json_are_named),
		cmocka_unit_test(good_entries_take_effect_beside_refused_ones),
		cmocka_unit_test(a_domain_without_a_good_server_keeps_its_last_ones_or_is_closed),
		cmocka_unit_test(tls_of_a_domain_that_cannot_be_read_is_never_dropped),
		cmocka_unit_test(cluster_names_are_refused),
		cmocka_unit_test(domains_that_are_no_names_are_refused),
		cmocka_unit_test(servers_that_cannot_be_asked_are_refused),
		cmocka_unit_test(nul_bytes_are_refused_wherever_they_hide),
		cmocka_unit_test(invalid_utf8_is_refused),
		cmocka_unit_test(ten_thousand_domains_are_accepted_and_more_than_the_limit_refused),
		cmocka_unit_test(seventeen_servers_of_a_domain_are_refused),
		cmocka_unit_test(upstreams_are_addresses_in_the_order_given),
		cmocka_unit_test(upstreams_that_are_not_addresses_are_refused),
		cmocka_unit_test(tls_servers_have_a_server_name),
		cmocka_unit_test(wrong_tls_servers_are_refused),
		cmocka_unit_test(plain_and_tls_servers_do_not_mix),
		cmocka_unit_test(a_program_without_tls_refuses_tls_servers),
		cmocka_unit_test(fifteen_upstreams_are_allowed_and_sixteen_refused),
		cmocka_unit_test(federations_are_names_and_domains),
		cmocka_unit_test(wrong_federations_are_refused),
		cmocka_unit_test(a_full_configmap_of_anything_is_judged_in_linear_time),
		cmocka_unit_test(fifty_thousand_entries_are_refused_by_their_number),
		cmocka_unit_test(what_is_not_json_is_shown_as_it_has_to_be_written),
		cmocka_unit_test(stub_servers_that_are_urls_or_dnsmasqs_spelling_say_so),
		cmocka_unit_test(names_are_under_zones_at_label_borders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
