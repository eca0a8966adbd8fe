#include "kubedns/transfer/ixfr_query.h"

#include <errno.h>

#include "lib/wire.h"

int
ixfr_serial(const uint8_t *query, size_t len, size_t question_len, uint32_t *serial)
{
	size_t at = DNS_HEADER + question_len;
	struct record record;
	struct dname name;

	if (len < at || wire_get16(query + 6) != 0 || wire_get16(query + 8) != 1 ||
	    wire_read_record(query, len, &at, &record) < 0 || record.type != TYPE_SOA)
		return -EBADMSG;
	at = (size_t)(record.rdata - query);
	for (int i = 0; i < 2; i++) /* MNAME, RNAME */
		if (wire_read_name(query, record.end, &at, &name) < 0)
			return -EBADMSG;
	if (record.end - at != 20)
		return -EBADMSG;
	*serial = wire_get32(query + at);
	return 0;
}
