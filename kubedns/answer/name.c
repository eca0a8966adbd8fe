#include "kubedns/answer/name.h"

static struct name
cut(struct name_buf *buf, size_t len)
{
	unsigned count = 0;

	memset(buf->wire + len, 0, 8);
	for (unsigned at = 0; buf->wire[at] != 0; at += 1u + buf->wire[at])
		buf->offsets[count++] = (uint8_t)at;
	return (struct name){ buf->wire, buf->offsets, (uint8_t)len, (uint8_t)count };
}

struct name
name_copy(struct name_buf *buf, const uint8_t *wire, size_t len)
{
	memcpy(buf->wire, wire, len);
	return cut(buf, len);
}

struct name
name_copy_lower(struct name_buf *buf, const uint8_t *wire, size_t len)
{
	memcpy(buf->wire, wire, len);
	dname_lower(buf->wire, len);
	return cut(buf, len);
}

int
name_below(const struct name *name, const struct dname *zone)
{
	if (name->len < zone->len ||
	    !name_same_bytes(name->wire + name->len - zone->len, zone->wire, zone->len))
		return -1;
	/* Only a label border counts: "xcluster.local" is not below "cluster.local". */
	unsigned at = (unsigned)name->len - zone->len;
	for (unsigned i = name->count; i-- > 0 && name->offsets[i] >= at;)
		if (name->offsets[i] == at)
			return (int)i;
	return zone->len == 1 ? name->count : -1;
}
