#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "nanny/dnsmasq/servers_plan.h"

static struct domain_table wanted, fixed;
static struct servers_file file;
static uint64_t now;
static bool strict, fresh;

static int
setup(void **state)
{
	(void)state;
	now = 0;
	strict = fresh = false;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	domain_table_free(&wanted);
	domain_table_free(&fixed);
	servers_free(&file);
	return 0;
}

/* Reads `domain=ip,ip domain=ip`. An empty domain stands for all other names. */
static void
read_table(struct domain_table *table, const char *text)
{
	char *copy = strdup(text), *save = NULL;

	domain_table_free(table);
	for (char *word = strtok_r(copy, " ", &save); word != NULL;
	     word = strtok_r(NULL, " ", &save)) {
		char *servers = strchr(word, '='), *save2 = NULL;

		*servers++ = '\0';
		domain_table_add(table, word);
		for (char *one = strtok_r(servers, ",", &save2); one != NULL;
		     one = strtok_r(NULL, ",", &save2)) {
			struct server server;

			assert_int_equal(server_parse(one, 53, &server, NULL), 0);
			assert_true(
			    domain_servers_add_server(domain_table_add(table, word), &server));
		}
	}
	free(copy);
}

static void
plan(const char *text)
{
	read_table(&wanted, text);
	struct servers_input input = { .wanted = &wanted,
		.fixed = &fixed,
		.before = &file,
		.strict_order = strict,
		.fresh = fresh,
		.now = ++now };
	assert_int_equal(server_parse("127.0.1.3:9", 53, &input.nobody, NULL), 0);
	struct servers_file next = servers_plan(&input);
	servers_free(&file);
	file = next;
}

/* Plans `text` after the previous plan. Compares the file with `want`: its lines without `server=`,
 * separated by blanks. */
static void
expect(const char *text, const char *want)
{
	static char got[8192];
	size_t len;

	plan(text);
	char *body = servers_render(&file, 0, 0, &len), *p = got;
	assert_int_equal(len, strlen(body));
	for (char *save = NULL, *l = strtok_r(body, "\n", &save); l != NULL;
	     l = strtok_r(NULL, "\n", &save)) {
		assert_memory_equal(l, "server=", 7);
		p += sprintf(p, "%s%s", p == got ? "" : " ", l + 7);
	}
	*p = '\0';
	free(body);
	assert_string_equal(got, want);
}

static void
a_new_dnsmasq_gets_the_plain_truth(void **state)
{
	(void)state;
	expect("=8.8.8.8,[2001:db8::1]:54 b.test=10.0.0.2:5353 a.test=10.0.0.1",
	    "8.8.8.8#53 2001:db8::1#54 /a.test/10.0.0.1#53 /b.test/10.0.0.2#5353");
}

static void
domains_without_servers_have_no_line(void **state)
{
	(void)state;
	expect("= a.test= b.test=10.0.0.2", "/b.test/10.0.0.2#53");
}

static void
a_changed_server_takes_over_the_line(void **state)
{
	(void)state;
	expect("=8.8.8.8 a=10.0.0.1", "8.8.8.8#53 /a/10.0.0.1#53");
	expect("=9.9.9.9 a=10.0.0.2", "9.9.9.9#53 /a/10.0.0.2#53");
}

static void
fewer_servers_are_repeated(void **state)
{
	(void)state;
	expect("a=10.0.0.1,10.0.0.2", "/a/10.0.0.1#53 /a/10.0.0.2#53");
	expect("a=10.0.0.3", "/a/10.0.0.3#53 /a/10.0.0.3#53");
	expect("a=10.0.0.4,10.0.0.5,10.0.0.6", "/a/10.0.0.4#53 /a/10.0.0.5#53 /a/10.0.0.6#53");
	expect("a=10.0.0.4", "/a/10.0.0.4#53 /a/10.0.0.4#53 /a/10.0.0.4#53");
}

static void
servers_that_stay_keep_their_line(void **state)
{
	(void)state;
	expect("a=10.0.0.1,10.0.0.2", "/a/10.0.0.1#53 /a/10.0.0.2#53");
	expect("a=10.0.0.2", "/a/10.0.0.2#53 /a/10.0.0.2#53");
	expect("a=10.0.0.3,10.0.0.2", "/a/10.0.0.2#53 /a/10.0.0.3#53");
	expect("a=10.0.0.4,10.0.0.3", "/a/10.0.0.4#53 /a/10.0.0.3#53");
	expect("a=10.0.0.5,10.0.0.3,10.0.0.4", "/a/10.0.0.4#53 /a/10.0.0.3#53 /a/10.0.0.5#53");
}

static void
another_order_is_no_change_unless_order_counts(void **state)
{
	(void)state;
	expect("a=10.0.0.1,10.0.0.2", "/a/10.0.0.1#53 /a/10.0.0.2#53");
	expect("a=10.0.0.2,10.0.0.1", "/a/10.0.0.1#53 /a/10.0.0.2#53");
	strict = true;
	expect("a=10.0.0.2,10.0.0.1", "/a/10.0.0.2#53 /a/10.0.0.1#53");
	expect("a=10.0.0.3", "/a/10.0.0.3#53 /a/10.0.0.3#53");
}

static void
a_domain_that_is_gone_goes_to_the_upstreams(void **state)
{
	(void)state;
	expect("=8.8.8.8,9.9.9.9 a=10.0.0.1", "8.8.8.8#53 9.9.9.9#53 /a/10.0.0.1#53");
	expect("=8.8.8.8,9.9.9.9", "8.8.8.8#53 9.9.9.9#53 /a/8.8.8.8#53 /a/9.9.9.9#53");
	assert_true(file.items[1].retired);
	expect("=1.1.1.1", "1.1.1.1#53 1.1.1.1#53 /a/1.1.1.1#53 /a/1.1.1.1#53");
	expect("=1.1.1.1 a=10.0.0.7", "1.1.1.1#53 1.1.1.1#53 /a/10.0.0.7#53 /a/10.0.0.7#53");
	assert_false(file.items[1].retired);
}

static void
a_domain_that_is_gone_goes_to_the_nearest_domain_above(void **state)
{
	(void)state;
	expect("=8.8.8.8 b.a=10.0.0.1 a=10.0.0.2", "8.8.8.8#53 /a/10.0.0.2#53 /b.a/10.0.0.1#53");
	expect("=8.8.8.8 a=10.0.0.2", "8.8.8.8#53 /a/10.0.0.2#53 /b.a/10.0.0.2#53");
	expect("=8.8.8.8", "8.8.8.8#53 /a/8.8.8.8#53 /b.a/8.8.8.8#53");
	read_table(&fixed, "a=127.0.0.1:10053");
	expect("=8.8.8.8 x.b.a=10.0.0.5",
	    "8.8.8.8#53 /a/8.8.8.8#53 /b.a/127.0.0.1#10053 /x.b.a/10.0.0.5#53");
}

static void
without_any_upstream_somebody_still_says_no(void **state)
{
	(void)state;
	expect("=8.8.8.8 a=10.0.0.1", "8.8.8.8#53 /a/10.0.0.1#53");
	expect("", "127.0.1.3#9 /a/127.0.1.3#9");
	read_table(&fixed, "=1.1.1.1");
	expect("", "1.1.1.1#53 /a/1.1.1.1#53");
}

/* The rule itself, with many random changes. The number of lines of a domain never shrinks. Each
 * line has a wanted server. */
static void
lines_of_a_domain_never_shrink(void **state)
{
	(void)state;
	static const char *const domains[] = { "", "a", "b", "c.a", "d.c.a", "e" };
	size_t before[6] = { 0 };
	srandom(1);
	for (int round = 0; round < 2000; round++) {
		char text[1024] = "=8.8.8.8", *p = text + strlen(text);

		for (int d = 1; d < 6; d++) {
			if (random() % 3 == 0)
				continue;
			p += sprintf(p, " %s=", domains[d]);
			for (long n = random() % 5; n >= 0; n--)
				p += sprintf(p, "10.0.%d.%ld,", d, random() % 6 + 1);
		}
		plan(text);
		for (size_t i = 0; i < file.count; i++) {
			int d = 0;

			while (strcmp(domains[d], file.items[i].domain) != 0)
				d++;
			assert_true(file.items[i].count >= before[d]);
			before[d] = file.items[i].count;
			const struct domain_servers *entry =
			    domain_table_get(&wanted, file.items[i].domain);
			if (entry == NULL || entry->count == 0)
				entry = domain_table_above(&wanted, file.items[i].domain);
			for (size_t k = 0; k < file.items[i].count; k++) {
				bool found = false;

				for (size_t s = 0; s < entry->count; s++)
					found |= server_equal(
					    &entry->servers[s], &file.items[i].lines[k]);
				assert_true(found);
			}
			for (size_t s = 0; s < entry->count; s++) {
				bool found = false;

				for (size_t k = 0; k < file.items[i].count; k++)
					found |= server_equal(
					    &entry->servers[s], &file.items[i].lines[k]);
				assert_true(found);
			}
		}
	}
}

static void
too_many_domains_that_are_gone_lose_the_oldest(void **state)
{
	(void)state;
	struct server server;
	assert_int_equal(server_parse("10.0.0.1", 53, &server, NULL), 0);
	for (int round = 0; round < 3; round++) {
		domain_table_free(&wanted);
		for (int i = 0; i < 15000; i++) {
			char domain[32];

			snprintf(domain, sizeof domain, "r%dd%05d", round, i);
			domain_servers_add_server(domain_table_add(&wanted, domain), &server);
		}
		size_t dropped = 0;
		do {
			struct servers_input input = { .wanted = &wanted,
				.fixed = &fixed,
				.before = &file,
				.nobody = server,
				.now = ++now };
			struct servers_file next = servers_plan(&input);
			servers_free(&file);
			file = next;
			dropped += next.dropped;
		} while (file.waiting > 0);
		assert_int_equal(dropped, round == 2 ? 10000 : 0);
	}
	size_t first = 0, second = 0;
	for (size_t i = 0; i < file.count; i++) {
		first += file.items[i].domain[1] == '0';
		second += file.items[i].domain[1] == '1';
	}
	assert_int_equal(first, 5000);
	assert_int_equal(second, 15000);
}

/* Lines of `domain` in the file. */
static size_t
lines_of(const char *domain)
{
	for (size_t i = 0; i < file.count; i++)
		if (strcmp(file.items[i].domain, domain) == 0)
			return file.items[i].count;
	return 0;
}

/* Makes a table with `count` domains below a parent domain, and with the parent domain. */
static char *
many_domains(int count)
{
	char *text = malloc((size_t)count * 32 + 64), *end = text;

	end += sprintf(end, "=8.8.8.8 a.example=10.0.0.1");
	for (int i = 0; i < count; i++)
		end += sprintf(end, " n%05d.a.example=10.0.0.2", i);
	return text;
}

static void
very_many_new_domains_come_in_parts(void **state)
{
	char *text = many_domains(20000);
	size_t lines = 1, files = 0;

	(void)state;
	plan("=8.8.8.8");
	do {
		plan(text);
		/* each new line is compared with all lines before it */
		size_t added = file.count - lines,
		       comparisons = added * (lines + file.count - 1) / 2;
		assert_true(added > 0);
		assert_true(comparisons <= SERVERS_COMPARISONS_MAX);
		/* the parent domain comes last, or its server would get the other domains' names */
		assert_int_equal(lines_of("a.example"), file.waiting == 0);
		assert_int_equal(file.count + file.waiting, 20002);
		lines = file.count;
		files++;
	} while (file.waiting > 0);
	assert_in_range(files, 2, 20);
	plan(text);
	assert_int_equal(file.count, 20002);
	free(text);
}

static void
a_new_dnsmasq_gets_very_many_domains_at_once(void **state)
{
	char *text = many_domains(20000);

	(void)state;
	fresh = true;
	plan(text);
	assert_int_equal(file.count, 20002);
	assert_int_equal(file.waiting, 0);
	free(text);
}

static void
the_marker_is_the_last_line_and_counts(void **state)
{
	(void)state;
	size_t len;
	plan("=8.8.8.8");
	char *text = servers_render(&file, 0x010203, 4711, &len);
	assert_string_equal(
	    text, "server=8.8.8.8#53\nserver=/generation.nanny.invalid/127.1.2.3#4711\n");
	free(text);
	static const uint32_t generations[] = { SERVERS_GENERATION_MIN, 0x10000,
		SERVERS_GENERATION_MAX };
	for (int i = 0; i < 3; i++) {
		struct addr addr = servers_generation_addr(generations[i]);

		assert_int_equal(servers_generation(&addr), generations[i]);
	}
	struct addr loopback = servers_generation_addr(1);
	assert_int_equal(servers_generation(&loopback), 0);
}

static void
equal_files_have_equal_hashes(void **state)
{
	(void)state;
	plan("=8.8.8.8 a=10.0.0.1");
	uint64_t hash = servers_hash(&file);
	plan("=8.8.8.8 a=10.0.0.1");
	assert_true(hash == servers_hash(&file));
	plan("=8.8.8.8 a=10.0.0.2");
	assert_true(hash != servers_hash(&file));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_dnsmasq_gets_the_plain_truth),
		TEST(domains_without_servers_have_no_line),
		TEST(a_changed_server_takes_over_the_line),
		TEST(fewer_servers_are_repeated),
		TEST(servers_that_stay_keep_their_line),
		TEST(another_order_is_no_change_unless_order_counts),
		TEST(a_domain_that_is_gone_goes_to_the_upstreams),
		TEST(a_domain_that_is_gone_goes_to_the_nearest_domain_above),
		TEST(without_any_upstream_somebody_still_says_no),
		TEST(lines_of_a_domain_never_shrink),
		TEST(too_many_domains_that_are_gone_lose_the_oldest),
		TEST(very_many_new_domains_come_in_parts),
		TEST(a_new_dnsmasq_gets_very_many_domains_at_once),
		TEST(the_marker_is_the_last_line_and_counts),
		TEST(equal_files_have_equal_hashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
