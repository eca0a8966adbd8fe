/* The cluster and the user in the current context of a kubeconfig, and the error texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubedns/api/kubeconfig.h"

static struct kubeconfig config;
static char *why;

static int
read_text(const char *text)
{
	char *copy = strdup(text);
	FILE *in = fmemopen(copy, strlen(copy), "r");

	kubeconfig_free(&config);
	free(why);
	int error = kubeconfig_read(in, "/etc/kubedns/config", &config, &why);
	fclose(in);
	free(copy);
	return error;
}

/* Reads the smallest kubeconfig that has these lines in its cluster and its user (flow style). */
static int
read_with(const char *cluster, const char *user)
{
	char text[2048];

	snprintf(text, sizeof text,
	    "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
	    "contexts: [{name: other, context: {cluster: no, user: no}}, {name: c, context: "
	    "{cluster: k, user: u}}]\n"
	    "clusters: [{name: k, cluster: {server: 'https://10.0.0.1:6443' %s}}]\n"
	    "users: [{name: u, user: {%s}}]\n",
	    cluster, user);
	return read_text(text);
}

static void
refused(int error, const char *words)
{
	assert_int_equal(error, -EINVAL);
	if (strstr(why, words) == NULL)
		fail_msg("\"%s\" is not in: %s", words, why);
}

static void
the_current_context_decides(void **state)
{
	(void)state;
	assert_int_equal(read_with("", "token: abc"), 0);
	assert_null(why);
	assert_string_equal(config.context, "c");
	assert_string_equal(config.server, "https://10.0.0.1:6443");
	assert_string_equal(config.token, "abc");
	assert_null(config.ca.path);
	assert_false(config.insecure);
}

static void
paths_are_relative_to_the_file(void **state)
{
	(void)state;
	assert_int_equal(read_with(", certificate-authority: pki/ca.crt",
			     "tokenFile: /run/token, client-certificate: a.crt, client-key: a.key"),
	    0);
	assert_string_equal(config.ca.path, "/etc/kubedns/pki/ca.crt");
	assert_string_equal(config.token_file, "/run/token");
	assert_string_equal(config.cert.path, "/etc/kubedns/a.crt");
	assert_string_equal(config.key.path, "/etc/kubedns/a.key");
}

static void
data_wins_over_paths(void **state)
{
	(void)state;
	assert_int_equal(
	    read_with(", certificate-authority: ca.crt, certificate-authority-data: Q0E=", ""), 0);
	assert_null(config.ca.path);
	assert_string_equal(config.ca.data, "CA");
	assert_int_equal(config.ca.len, 2);
}

static void
the_rest_of_a_cluster_is_read(void **state)
{
	(void)state;
	assert_int_equal(read_with(", tls-server-name: kubernetes, proxy-url: 'http://p:1', "
				   "insecure-skip-tls-verify: true",
			     ""),
	    0);
	assert_string_equal(config.tls_server_name, "kubernetes");
	assert_string_equal(config.proxy_url, "http://p:1");
	assert_true(config.insecure);
}

static void
json_is_read_too_and_a_user_is_not_needed(void **state)
{
	(void)state;
	assert_int_equal(
	    read_text("{\"kind\":\"Config\",\"current-context\":\"c\",\"contexts\":[{\"name\":"
		      "\"c\",\"context\":{\"cluster\":\"k\"}}],"
		      "\"clusters\":[{\"name\":\"k\",\"cluster\":{\"server\":\"http://a\"}}]}"),
	    0);
	assert_string_equal(config.server, "http://a");
}

static void
programs_and_passwords_are_refused_with_what_to_use(void **state)
{
	(void)state;
	refused(read_with("", "exec: {command: aws}"), "exec plugins are not supported");
	refused(read_with("", "exec: {command: aws}, token: abc"), "use a token");
	refused(read_with("", "auth-provider: {name: gcp}"), "auth-provider");
	refused(read_with("", "username: a, password: b"), "password");
}

static void
what_is_missing_is_named(void **state)
{
	(void)state;
	refused(read_text("kind: Config\n"), "current-context is missing");
	refused(read_text("current-context: production\ncontexts: []\n"),
	    "context \"production\": not in the file");
	refused(read_text("current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"),
	    "cluster \"k\": not in the file");
	refused(read_text("current-context: c\ncontexts: [{name: c, context: {user: u}}]\n"),
	    "has no cluster");
	refused(read_text("current-context: c\ncontexts: [{name: c, context: {cluster: "
			  "k}}]\nclusters: [{name: k, cluster: {}}]\n"),
	    "server is missing");
	refused(read_with("", "client-certificate: a.crt"), "need each other");
}

static void
what_contradicts_or_is_malformed_is_refused(void **state)
{
	(void)state;
	refused(read_with(", insecure-skip-tls-verify: true, certificate-authority: ca.crt", ""),
	    "exclude");
	refused(read_with(", insecure-skip-tls-verify: maybe", ""), "not a boolean");
	refused(read_with(", certificate-authority-data: 'a*b'", ""), "not base64");
	refused(read_with("", "token: [a]"), "token: not a string");
	refused(read_text("a: &x [1]\nb: *x\n"), "alias");
	refused(read_text("\ta: b"), "line ");
	refused(read_text("\n"), "empty");
}

static void
base64_is_strict(void **state)
{
	static const char *const bad[] = { "a", "ab", "abc", "abcde", "ab=c", "a===", "====", "=",
		"ab\377d" };
	size_t len;
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_null(kubeconfig_base64(bad[i], &len));
	char *text = kubeconfig_base64("aGVs\nbG8g d29ybGQ=\n", &len);
	assert_string_equal(text, "hello world");
	assert_int_equal(len, 11);
	free(text);
	text = kubeconfig_base64("", &len);
	assert_int_equal(len, 0);
	free(text);
}

static int
clean_up(void **state)
{
	(void)state;
	kubeconfig_free(&config);
	free(why);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_current_context_decides),
		cmocka_unit_test(paths_are_relative_to_the_file),
		cmocka_unit_test(data_wins_over_paths),
		cmocka_unit_test(the_rest_of_a_cluster_is_read),
		cmocka_unit_test(json_is_read_too_and_a_user_is_not_needed),
		cmocka_unit_test(programs_and_passwords_are_refused_with_what_to_use),
		cmocka_unit_test(what_is_missing_is_named),
		cmocka_unit_test(what_contradicts_or_is_malformed_is_refused),
		cmocka_unit_test(base64_is_strict),
	};

	return cmocka_run_group_tests(tests, NULL, clean_up);
}
