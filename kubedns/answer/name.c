#include "kubedns/answer/name.h"

struct name
name_in_buf(struct name_buf *buf, size_t len)
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
	return name_in_buf(buf, len);
}

struct name
name_copy_lower(struct name_buf *buf, const uint8_t *wire, size_t len)
{
	memcpy(buf->wire, wire, len);
	dname_lower(buf->wire, len);
	return name_in_buf(buf, len);
}

int
name_below(const struct name *name, const struct dname *zone)
{
	return name_labels_below(name, zone);
}
