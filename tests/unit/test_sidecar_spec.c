/* --probe in the format of kube-dns, and the values that are refused at startup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/wire.h"
#include "sidecar/options.h"
#include "sidecar/probes/probe_spec.h"

static struct probe_spec spec;
static char why[SPEC_WHY_MAX];

static void
assert_spec(const char *text, const char *label, const char *server, const char *name,
    unsigned interval_s, uint16_t type)
{
	char buf[DNAME_TEXT_MAX];

	assert_int_equal(spec_parse(&spec, text, why), 0);
	assert_string_equal(spec.label, label);
	assert_string_equal(server_format(&spec.server, buf), server);
	assert_string_equal(dname_to_text(spec.name.wire, buf), name);
	assert_int_equal(spec.interval_s, interval_s);
	assert_int_equal(spec.type, type);
}

static void
assert_refused(const char *text, const char *reason)
{
	why[0] = '\0';
	assert_true(spec_parse(&spec, text, why) < 0);
	if (strstr(why, reason) == NULL)
		fail_msg("%s: \"%s\" does not say \"%s\"", text, why, reason);
}

static void
kube_dns_arguments_are_understood(void **state)
{
	(void)state;
	assert_spec("kubedns,127.0.0.1:10053,kubernetes.default.svc.cluster.local,5,SRV", "kubedns",
	    "127.0.0.1:10053", "kubernetes.default.svc.cluster.local.", 5, TYPE_SRV);
	assert_spec("dnsmasq,127.0.0.1:53,kubernetes.default.svc.cluster.local,5,ANY", "dnsmasq",
	    "127.0.0.1:53", "kubernetes.default.svc.cluster.local.", 5, TYPE_ANY);
}

static void
what_is_left_out_has_a_default(void **state)
{
	(void)state;
	assert_spec("a,10.0.0.1,example.org", "a", "10.0.0.1:53", "example.org.", 5, TYPE_A);
	assert_spec("a,10.0.0.1,example.org.,60", "a", "10.0.0.1:53", "example.org.", 60, TYPE_A);
}

static void
ipv6_with_and_without_brackets(void **state)
{
	(void)state;
	assert_spec("six,::1,x.,1,aaaa", "six", "[::1]:53", "x.", 1, TYPE_AAAA);
	assert_spec("six,[2001:db8::1]:5353,x.", "six", "[2001:db8::1]:5353", "x.", 5, TYPE_A);
}

static void
what_is_wrong_is_named(void **state)
{
	(void)state;
	assert_refused("", "label");
	assert_refused("a", "is needed");
	assert_refused("a,127.0.0.1", "is needed");
	assert_refused(",127.0.0.1,x", "label");
	assert_refused("a,localhost,x", "not an address");
	assert_refused("a,127.0.0.1:0,x", "port");
	assert_refused("a,127.0.0.1:65536,x", "port");
	assert_refused("a,010.1.1.1,x", "not an address");
	assert_refused("a,127.0.0.1,x,0", "interval");
	assert_refused("a,127.0.0.1,x,-5", "interval");
	assert_refused("a,127.0.0.1,x,5s", "interval");
	assert_refused("a,127.0.0.1,x,99999999999999999999", "interval");
	assert_refused("a,127.0.0.1,x,5,TXT", "type");
	assert_refused("a,127.0.0.1,x,5,", "type");
	assert_refused("a,127.0.0.1,x,5,A,more", "five fields");
	assert_refused("a,127.0.0.1,", "DNS name");
	assert_refused("a,127.0.0.1,x..y", "DNS name");
}

static void
a_hostile_label_is_refused(void **state)
{
	static const char *const labels[] = { "<script>alert(1)</script>", "a\"b", "a'b", "a/b",
		"a b", "a\nb", "\xff\xfe", "..", "a%2fb", "\xc3\xa9" };
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
		snprintf(text, sizeof text, "%s,127.0.0.1,x", labels[i]);
		assert_refused(text, "label");
	}
	memset(text, 'a', 64);
	strcpy(text + 64, ",127.0.0.1,x");
	assert_refused(text, "63 characters");
}

static void
a_name_of_255_bytes_is_the_longest(void **state)
{
	char name[256] = "", text[300];

	(void)state;
	for (int i = 0; i < 4; i++) {
		memset(name + strlen(name), 'n', i < 3 ? 63 : 61);
		strcat(name, ".");
	}
	snprintf(text, sizeof text, "a,127.0.0.1,%s", name);
	assert_int_equal(spec_parse(&spec, text, why), 0);
	assert_int_equal(spec.name.len, 255);
	snprintf(text, sizeof text, "a,127.0.0.1,n.%s", name);
	assert_refused(text, "DNS name");
}

static void
a_label_becomes_part_of_a_metric_name(void **state)
{
	char name[SPEC_LABEL_MAX + 1];

	(void)state;
	assert_string_equal(spec_metric_name("my-probe.1", name), "my_probe_1");
}

static void
two_probes_of_one_metric_name_are_refused(void **state)
{
	static const struct {
		const char *a, *b;
		bool taken;
	} cases[] = { { "a-b", "a-b", true }, { "a-b", "a_b", true }, { "a-b", "a-c", false } };
	char program[] = "sidecar", first[64], second[64], said[1024], reason[256];
	char *argv[] = { program, first, second, NULL };
	int fds[2], saved = dup(STDERR_FILENO);

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct sidecar_options options;

		snprintf(first, sizeof first, "--probe=%s,127.0.0.1,x", cases[i].a);
		snprintf(second, sizeof second, "--probe=%s,127.0.0.2,y", cases[i].b);
		assert_int_equal(pipe(fds), 0);
		dup2(fds[1], STDERR_FILENO);
		close(fds[1]);
		int rc = sidecar_options_read(&options, 3, argv);
		sidecar_options_free(&options);
		dup2(saved, STDERR_FILENO);
		ssize_t n = read(fds[0], said, sizeof said - 1);
		close(fds[0]);
		said[n] = '\0';
		snprintf(reason, sizeof reason, "--probe \"%s\": the label is taken by probe %s\n",
		    second + 8, cases[i].a);
		assert_int_equal(rc < 0, cases[i].taken);
		assert_int_equal(strstr(said, reason) != NULL, cases[i].taken);
	}
	close(saved);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kube_dns_arguments_are_understood),
		cmocka_unit_test(what_is_left_out_has_a_default),
		cmocka_unit_test(ipv6_with_and_without_brackets),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(a_hostile_label_is_refused),
		cmocka_unit_test(a_name_of_255_bytes_is_the_longest),
		cmocka_unit_test(a_label_becomes_part_of_a_metric_name),
		cmocka_unit_test(two_probes_of_one_metric_name_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
