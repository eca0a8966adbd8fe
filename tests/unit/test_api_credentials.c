/* How kubedns finds the API server, and how it reads tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubedns/api/api_credentials.h"

static struct api_credentials cluster;
static char dir[] = "/tmp/test_api_credentials.XXXXXX";
static char path[128];

static int
find(const char *kubecfg_file, const char *master_url)
{
	struct api_credentials_source source = {
		.kubecfg_file = kubecfg_file, .master_url = master_url, .serviceaccount_dir = dir
	};

	api_credentials_free(&cluster);
	return api_credentials_find(&cluster, &source);
}

static const char *
write_file(const char *name, const char *text)
{
	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return path;
}

static const char *
kubeconfig(const char *cluster_lines, const char *user_lines)
{
	char text[1024];

	snprintf(text, sizeof text,
	    "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: "
	    "[{name: k, cluster: {%s}}]\n"
	    "users: [{name: u, user: {%s}}]\n",
	    cluster_lines, user_lines);
	return write_file("config", text);
}

static void
in_a_cluster_the_environment_says(void **state)
{
	(void)state;
	setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	assert_int_equal(find(NULL, NULL), 0);
	assert_string_equal(cluster.url, "https://10.96.0.1:443");
	assert_string_equal(cluster.proxy, ""); /* proxies of the environment do not apply */
	assert_int_equal(strncmp(cluster.ca_path, dir, strlen(dir)), 0);
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	assert_int_equal(find(NULL, NULL), 0);
	assert_string_equal(cluster.url, "https://[fd00::1]:443");
	unsetenv("KUBERNETES_SERVICE_PORT");
	assert_int_equal(find(NULL, NULL), -EINVAL);
	unsetenv("KUBERNETES_SERVICE_HOST");
	assert_int_equal(find(NULL, ""), -EINVAL);
}

static void
the_master_url_stands_alone_as_kubectl_proxy_offers_it(void **state)
{
	(void)state;
	setenv("API_PORT", "8001", 1);
	assert_int_equal(find(NULL, "http://127.0.0.1:${API_PORT}/"), 0);
	assert_string_equal(cluster.url, "http://127.0.0.1:8001");
	assert_false(cluster.https);
	assert_null(cluster.token_file);
	assert_true(api_credentials_has_token(&cluster));
	assert_int_equal(find(NULL, "http://127.0.0.1:8001/k8s/clusters/c-1/"), 0);
	assert_string_equal(cluster.url, "http://127.0.0.1:8001/k8s/clusters/c-1");
}

static void
urls_of_other_sorts_are_refused(void **state)
{
	static const char *const bad[] = { "ftp://a", "127.0.0.1:8001", "localhost", "https://",
		"file:///etc/passwd", "https://a:b@c", "https://a?b=c", "https://a:70000",
		"http://a b" };
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (find(NULL, bad[i]) != -EINVAL)
			fail_msg("taken: %s as %s", bad[i], cluster.url);
	}
}

static void
the_master_url_overrides_the_kubeconfigs_server(void **state)
{
	(void)state;
	assert_int_equal(find(kubeconfig("server: 'https://a:1'", "token: t"), "https://b:2"), 0);
	assert_string_equal(cluster.url, "https://b:2");
	assert_string_equal(cluster.token, "t");
}

static void
a_tls_server_name_is_verified_and_the_host_still_connected_to(void **state)
{
	(void)state;
	assert_int_equal(
	    find(kubeconfig("server: 'https://10.0.0.1:6443', tls-server-name: kubernetes", ""),
		NULL),
	    0);
	assert_string_equal(cluster.url, "https://kubernetes:6443");
	assert_string_equal(cluster.connect_to, "kubernetes:6443:10.0.0.1:6443");
	assert_string_equal(cluster.host, "Host: 10.0.0.1:6443");
	assert_string_equal(cluster.shown_url, "https://10.0.0.1:6443");
}

static void
data_is_readable_at_a_path_again_and_again(void **state)
{
	static const char pem[] = "-----BEGIN CERTIFICATE-----\n";
	char text[80] = "";

	(void)state;
	assert_int_equal(find(kubeconfig("server: 'https://a', certificate-authority-data: "
					 "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ"
					 "0VSVElGSUNBVEUtLS0tLQo=",
				  ""),
			     NULL),
	    0);
	for (int i = 0; i < 2; i++) {
		FILE *f = fopen(cluster.ca_path, "r");

		assert_non_null(f);
		assert_string_equal(fgets(text, sizeof text, f), pem);
		fclose(f);
	}
	FILE *f = fopen(cluster.ca_path, "r+");
	/* The file is sealed, so nobody can write to it. */
	assert_true(f == NULL || fputc('x', f) == EOF || fclose(f) == EOF);
}

static void
files_that_are_not_there_are_the_users_mistake(void **state)
{
	(void)state;
	assert_int_equal(find("/nonexistent/config", NULL), -EINVAL);
	assert_int_equal(
	    find(kubeconfig("server: 'https://a', certificate-authority: nothing.crt", ""), NULL),
	    -EINVAL);
}

static void
a_token_file_is_trimmed_read_again_and_kept_when_it_fails(void **state)
{
	(void)state;
	assert_int_equal(find(kubeconfig("server: 'https://a'", "tokenFile: token"), NULL), 0);
	assert_false(api_credentials_token_refresh(&cluster, 1000, false));
	assert_false(api_credentials_has_token(&cluster)); /* without a token, no request is sent */
	write_file("token", " one\n");
	/* The next reading is not due yet. */
	assert_false(api_credentials_token_refresh(&cluster, 1500, false));
	assert_true(api_credentials_token_refresh(&cluster, 2000, false));
	assert_string_equal(cluster.token, "one");
	write_file("token", "two");
	assert_false(
	    api_credentials_token_refresh(&cluster, 2000 + API_TOKEN_PERIOD_MS - 1, false));
	assert_true(api_credentials_token_refresh(&cluster, 3000, true)); /* after a 401 */
	assert_string_equal(cluster.token, "two");
	write_file("token", "");
	assert_false(api_credentials_token_refresh(&cluster, 4000, true));
	unlink(path);
	assert_false(api_credentials_token_refresh(&cluster, 5000, true));
	assert_string_equal(cluster.token, "two");
	write_file("token", "three\n");
	assert_true(api_credentials_token_refresh(&cluster, 5000 + API_TOKEN_PERIOD_MS, false));
	assert_true(API_TOKEN_PERIOD_MS <= 60000);
}

static void
a_token_cannot_carry_another_header(void **state)
{
	(void)state;
	assert_int_equal(find(kubeconfig("server: 'https://a'", "tokenFile: token"), NULL), 0);
	write_file("token", "one\r\nX-Remote-User: admin");
	assert_false(api_credentials_token_refresh(&cluster, 1000, true));
	assert_false(api_credentials_has_token(&cluster));
}

static void
variables_are_expanded(void **state)
{
	static const char *const cases[][2] = { { "${A}b$A_$A", "1b1" }, { "$NONE.x", ".x" },
		{ "a$", "a$" }, { "${A", "${A" }, { "", "" } };
	(void)state;
	setenv("A", "1", 1);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *got = api_credentials_expand(cases[i][0]);

		assert_string_equal(got, cases[i][1]);
		free(got);
	}
}

static int
begin(void **state)
{
	(void)state;
	cluster = (struct api_credentials){ .memory = { -1, -1, -1 } };
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static int
end(void **state)
{
	static const char *const names[] = { "config", "token" };
	(void)state;
	api_credentials_free(&cluster);
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		unlink(path);
	}
	return rmdir(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_a_cluster_the_environment_says),
		cmocka_unit_test(the_master_url_stands_alone_as_kubectl_proxy_offers_it),
		cmocka_unit_test(urls_of_other_sorts_are_refused),
		cmocka_unit_test(the_master_url_overrides_the_kubeconfigs_server),
		cmocka_unit_test(a_tls_server_name_is_verified_and_the_host_still_connected_to),
		cmocka_unit_test(data_is_readable_at_a_path_again_and_again),
		cmocka_unit_test(files_that_are_not_there_are_the_users_mistake),
		cmocka_unit_test(a_token_file_is_trimmed_read_again_and_kept_when_it_fails),
		cmocka_unit_test(a_token_cannot_carry_another_header),
		cmocka_unit_test(variables_are_expanded),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
