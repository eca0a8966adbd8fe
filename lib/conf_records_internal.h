/* Private to conf_records*.c. */
#ifndef LIB_CONF_RECORDS_INTERNAL_H
#define LIB_CONF_RECORDS_INTERNAL_H

#include "lib/conf_records.h"

/* Puts the items in order, each once, and says whether they may stand beside each other; as
 * conf_records_parse(), but frees nothing. */
int conf_records_judge(struct conf_records *records, const char *cluster_domain, char **why);

#endif
