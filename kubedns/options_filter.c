/*
 * --filter-aaaa, --filter-a and --filter-except.
 */
#include <errno.h>
#include <string.h>

#include "kubedns/options_internal.h"
#include "lib/log.h"
#include "lib/xalloc.h"

static int
read_mode(const char *flag, const char *text, enum filter_mode *mode)
{
	static const char *const names[] = {
		[FILTER_OFF] = "off", [FILTER_ON] = "on", [FILTER_AUTO] = "auto"
	};

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(text, names[i]) == 0) {
			*mode = (enum filter_mode)i;
			return 0;
		}
	return options_refuse(flag, text, "must be auto, on or off");
}

static int
read_except(struct options *o)
{
	struct answer_config *answers = &o->answers;

	if (o->filter_except.count == 0)
		return 0;
	answers->filter_except = xcalloc(o->filter_except.count, sizeof *answers->filter_except);
	for (size_t i = 0; i < o->filter_except.count; i++) {
		struct dname *zone = &answers->filter_except[i];
		if (dname_from_text(zone, o->filter_except.items[i]) < 0)
			return options_refuse("filter-except", o->filter_except.items[i],
			    "not a DNS name, such as example.com");
		dname_lower(zone->wire, zone->len);
		answers->filter_except_count++;
	}
	return 0;
}

int
options_read_filter(struct options *o)
{
	int aaaa = read_mode("filter-aaaa", o->filter_aaaa_text, &o->filter_aaaa);
	int a = read_mode("filter-a", o->filter_a_text, &o->filter_a);
	int except = read_except(o);

	if (aaaa < 0 || a < 0 || except < 0)
		return -EINVAL;
	if (o->filter_a != FILTER_ON || o->filter_aaaa != FILTER_ON)
		return 0;
	log_errorx("--filter-a=on and --filter-aaaa=on: no outside name would have an address; "
		   "leave out one of them");
	return -EINVAL;
}
