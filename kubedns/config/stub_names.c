#include "kubedns/config/stub_names.h"

#include <stdlib.h>

#include "lib/conf.h"
#include "lib/dname.h"
#include "lib/xalloc.h"

bool
stub_names_take(struct stub_names *names, const struct conf_stubs *stubs)
{
	struct stub_names now = { .empty = conf_stubs_empty(stubs) };
	struct dname name;

	for (size_t i = 0; i < stubs->count; i++)
		now.len += stubs->items[i].count > 0 ? strlen(stubs->items[i].domain) + 2 : 0;
	now.wires = xmalloc(now.len + 1); /* also of none: NULL is before the first reading */
	now.len = 0;
	for (size_t i = 0; i < stubs->count; i++)
		if (stubs->items[i].count > 0 &&
		    dname_from_text(&name, stubs->items[i].domain) == 0) {
			memcpy(now.wires + now.len, name.wire, name.len);
			now.len += name.len;
		}
	bool changed = now.len != names->len || (now.len > 0 && names->wires != NULL &&
						    memcmp(now.wires, names->wires, now.len) != 0);
	free(names->wires);
	free(names->empty);
	*names = now;
	return changed;
}
