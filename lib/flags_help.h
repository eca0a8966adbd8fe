/*
 * Texts that flags_parse() prints: --help, suggestions for misspelt flags, and the file with the
 * flags.
 */
#ifndef LIB_FLAGS_HELP_H
#define LIB_FLAGS_HELP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/flags.h"

/* Whether `f` is a heading in --help rather than a flag. */
bool flags_is_heading(const struct flag *f);

/* Returns the flag of `table` or `common_table` that is most similar to the unknown `name` of `len`
 * bytes. Returns NULL if no flag is similar. */
const char *flags_nearest(
    const struct flag *table, const struct flag *common_table, const char *name, size_t len);

/*
 * Prints --help. The program's own flags, from `table`, come first, then the flags of
 * `common_table`, in the order of the tables. Without `all`, prints only the groups of
 * FLAG_GROUP_FIRST.
 */
void flags_print_help(const struct flag *table, const struct flag *common_table,
    const struct flags_common *common, bool all, FILE *out);

/*
 * If the environment has FLAGS_FROM=`FILE:VARIABLE` (an EnvironmentFile of systemd.exec(5)), prints
 * one line with the file and the number of the line that sets the variable. Otherwise prints
 * nothing.
 */
void flags_print_origin(const struct flags_common *common, FILE *out);

#endif
