/* Conversion of reverse names to addresses, and of addresses to reverse names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "kubedns/answer/zone_lookup.h"

/* Writes the prefix of the reverse name to `addr`, and returns the number of its bits. Returns -1
 * if the name is not a reverse name. */
static int
read_name(const struct dname *name, struct addr *addr)
{
	struct name_buf buf;
	struct name cut = name_copy_lower(&buf, name->wire, name->len);

	return resolve_reverse_name(&cut, addr);
}

static void
names_spell_the_addresses_that_they_were_made_of(void **state)
{
	(void)state;
	unsigned random = 1;

	for (unsigned round = 0; round < 20000; round++) {
		struct addr addr = { .family = round % 2 == 0 ? AF_INET : AF_INET6 }, back;
		unsigned most = (unsigned)addr_len(&addr) * 8, width = round % 2 == 0 ? 8 : 4;

		random = random * 1103515245u + 12345u;
		unsigned bits = (random >> 8) % (most / width + 1) * width;
		for (unsigned i = 0; i < bits / 8; i++) {
			random = random * 1103515245u + 12345u;
			/* Some of the bytes are small numbers. */
			addr.bytes[i] = (uint8_t)(random >> (16 + random % 8));
		}
		if (bits % 8 != 0)
			addr.bytes[bits / 8] = (uint8_t)(random >> 16 & 0xf0);
		struct dname name;
		reverse_name_prefix(&addr, bits, &name);
		assert_int_equal(read_name(&name, &back), bits);
		assert_true(addr_equal(&back, &addr));
	}
}

static void
what_spells_no_address_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int bits;
	} names[] = {
		{ "4.3.2.1.in-addr.arpa.", 32 },
		{ "4.3.2.1.IN-ADDR.ARPA.", 32 },
		{ "0.0.0.0.in-addr.arpa.", 32 },
		{ "255.255.255.255.in-addr.arpa.", 32 },
		{ "2.1.in-addr.arpa.", 16 },
		{ "in-addr.arpa.", 0 },
		{ "ip6.arpa.", 0 },
		{ "F.ip6.arpa.", 4 },
		{ "1.f.ip6.arpa.", 8 },
		{ "256.3.2.1.in-addr.arpa.", -1 },
		{ "999.in-addr.arpa.", -1 },
		{ "01.in-addr.arpa.", -1 },
		{ "00.in-addr.arpa.", -1 },
		{ "1234.in-addr.arpa.", -1 },
		{ "1a.in-addr.arpa.", -1 },
		{ "-1.in-addr.arpa.", -1 },
		{ "\\047.in-addr.arpa.", -1 }, /* the byte before '0' */
		{ ":.in-addr.arpa.", -1 },
		{ "5.4.3.2.1.in-addr.arpa.", -1 },
		{ "g.ip6.arpa.", -1 },
		{ "`.ip6.arpa.", -1 },
		{ "11.ip6.arpa.", -1 },
		{ "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa.",
		    -1 },
		{ "arpa.", -1 },
		{ "1.arpa.", -1 },
		{ "1.in-addr.", -1 },
		{ "1.xin-addr.arpa.", -1 },
		{ "1.xip6.arpa.", -1 },
		/* The last bytes are those of a reverse name, but the labels are different. */
		{ "aaaaaaaa\\007in-addr.arpa.", -1 },
		{ "aaa\\003ip6.arpa.", -1 },
		{ ".", -1 },
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct dname name;
		struct addr addr;

		assert_int_equal(dname_from_text(&name, names[i].text), 0);
		int bits = read_name(&name, &addr);
		if (bits != names[i].bits)
			fail_msg("%s: %d bits, want %d", names[i].text, bits, names[i].bits);
	}
}

static int
below(const uint8_t *wire, size_t len, const struct dname *zone)
{
	struct name_buf buf;
	struct name name = name_copy(&buf, wire, len);

	return name_below(&name, zone);
}

/* If any byte of the zone changes, the result is another zone. Only whole labels count. */
static void
names_are_below_a_zone_by_every_byte_of_it(void **state)
{
	(void)state;
	static const char *const zones[] = { "a.", "local.", "x.local.", "cluster.local.",
		"k8s.example.org.", "a-long-cluster-domain.corp.example.org." };

	for (size_t z = 0; z < sizeof zones / sizeof zones[0]; z++) {
		char text[100];
		struct dname zone, name, other;

		assert_int_equal(dname_from_text(&zone, zones[z]), 0);
		snprintf(text, sizeof text, "web.default.svc.%s", zones[z]);
		assert_int_equal(dname_from_text(&name, text), 0);
		assert_int_equal(below(name.wire, name.len, &zone), 3);
		assert_int_equal(below(zone.wire, zone.len, &zone), 0);
		assert_int_equal(
		    below(zone.wire + 1 + zone.wire[0], zone.len - 1u - zone.wire[0], &zone), -1);
		for (size_t i = (size_t)name.len - zone.len; i + 1 < name.len; i++) {
			/* If a length byte changes, the name is invalid. */
			if (name.wire[i] < 'a')
				continue;
			other = name;
			other.wire[i] ^= 1;
			assert_int_equal(below(other.wire, other.len, &zone), -1);
		}
		/* The bytes of the zone are inside a label. "xxx\5local." is one label and the
		 * root. */
		struct dname inside = { .len = (uint8_t)(zone.len + 2),
			.wire = { (uint8_t)zone.len, 'x' } };
		memcpy(inside.wire + 2, zone.wire, zone.len);
		if (zone.len < DNAME_LABEL_MAX)
			assert_int_equal(below(inside.wire, inside.len, &zone), -1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_spell_the_addresses_that_they_were_made_of),
		cmocka_unit_test(names_are_below_a_zone_by_every_byte_of_it),
		cmocka_unit_test(what_spells_no_address_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
