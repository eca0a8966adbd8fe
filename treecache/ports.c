#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"
#include "lib/xalloc.h"
#include "treecache/ports.h"

uint64_t
port_label(uint64_t seed, const uint8_t *name, const uint8_t *proto)
{
	uint8_t both[2 * (1 + DNAME_LABEL_MAX) + HASH_PAD];
	size_t name_len = 1u + *name, len = name_len + 1u + *proto;

	memcpy(both, name, name_len);
	memcpy(both + name_len, proto, 1u + *proto);
	uint64_t label = hash64(seed, both, len);
	return label != 0 ? label : 1;
}

int
labelled_number_compare(const void *a, const void *b)
{
	const struct labelled_number *na = a, *nb = b;

	if (na->label != nb->label)
		return na->label < nb->label ? -1 : 1;
	return (na->number > nb->number) - (na->number < nb->number);
}

/* A port number under a label, and the port it comes from. */
struct numbered {
	struct labelled_number key; /* must be first, because labelled_number_compare() gets a
				     * pointer to it */
	uint16_t item;
	bool unnamed;
};

/* Lists all ports under label 0, and each named port also under its own label and under its
 * protocol. The list is sorted and has no duplicates. */
static size_t
numbered_ports(uint64_t seed, const struct port *items, size_t count, struct numbered *out)
{
	static const uint8_t unnamed[] = "";
	size_t all = 0, kept = 0;

	for (size_t i = 0; i < count; i++) {
		const struct port *port = &items[i];

		if (port->number == 0)
			continue;
		struct numbered one = { { 0, port->number }, (uint16_t)i, true };
		out[all++] = one;
		if (port->name[0] == 0)
			continue;
		one.key.label = port_label(seed, unnamed, port->proto);
		out[all++] = one;
		one.key.label = port_label(seed, port->name, port->proto);
		one.unnamed = false;
		out[all++] = one;
	}
	qsort(out, all, sizeof *out, labelled_number_compare);
	for (size_t i = 0; i < all; i++)
		if (i == 0 || labelled_number_compare(&out[i], &out[kept - 1]) != 0)
			out[kept++] = out[i];
	return kept;
}

struct ports *
ports_new(uint64_t seed, const struct port *items, size_t count)
{
	assert(count <= PORTS_MAX);
	struct numbered *numbered = xcalloc(3 * count + 1, sizeof *numbered);
	size_t all = numbered_ports(seed, items, count, numbered), bare = 0, labels = 0;

	while (bare < all && numbered[bare].key.label == 0)
		bare++;
	for (size_t i = bare; i < all; i++)
		labels += i == bare || numbered[i].key.label != numbered[i - 1].key.label;

	size_t items_len = (count * sizeof *items + 7) & ~(size_t)7;
	struct ports *ports = xmalloc(sizeof *ports + items_len +
				      labels * sizeof(struct port_label) + all * sizeof(uint16_t));
	struct port_label *label = (void *)((uint8_t *)ports->items + items_len);
	uint16_t *numbers = (void *)(label + labels);
	*ports = (struct ports){ .count = (uint32_t)count,
		.number_count = (uint16_t)bare,
		.label_count = (uint32_t)labels,
		.numbers = numbers,
		.labels = label,
		.label_numbers = numbers + bare };
	memcpy(ports->items, items, count * sizeof *items);
	for (size_t i = 0; i < all; i++) {
		numbers[i] = numbered[i].key.number;
		if (i < bare)
			continue;
		if (i == bare || numbered[i].key.label != numbered[i - 1].key.label)
			*label++ = (struct port_label){ .label = numbered[i].key.label,
				.first = (uint16_t)(i - bare),
				.item = numbered[i].item,
				.unnamed = numbered[i].unnamed };
		label[-1].count++;
	}
	free(numbered);
	return ports;
}

const uint16_t *
ports_numbers(const struct ports *ports, uint64_t label, unsigned *count)
{
	size_t low = 0, high = ports->label_count;

	*count = ports->number_count;
	if (label == 0)
		return *count == 0 ? NULL : ports->numbers;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (ports->labels[middle].label < label)
			low = middle + 1;
		else
			high = middle;
	}
	*count = 0;
	if (low == ports->label_count || ports->labels[low].label != label)
		return NULL;
	*count = ports->labels[low].count;
	return ports->label_numbers + ports->labels[low].first;
}
