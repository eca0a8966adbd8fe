/* Shared by flags.c (reading a command line) and flags_text.c (--help and messages); private. */
#ifndef LIB_FLAGS_INTERNAL_H
#define LIB_FLAGS_INTERNAL_H

#include <stddef.h>
#include <stdio.h>

#include "lib/flags.h"

/* --check, --log-format, -v, --version, --help. */
extern const struct flag flags_common_table[];

/* The flag of `table` or the common ones that is most like the unknown `name` of `len` bytes, or
 * NULL if none is. */
const char *flags_nearest(const struct flag *table, const char *name, size_t len);

/* Writes --help: the program's flags, then the common ones, in the order of the tables. */
void flags_print_help(const struct flag *table, const struct flags_common *common, FILE *out);

/*
 * Where the flags were written, if the environment's FLAGS_FROM says it as `FILE:VARIABLE` (an
 * EnvironmentFile of systemd.exec(5)): one line on `out` with the file and the number of the line
 * that sets the variable. Nothing without FLAGS_FROM.
 */
void flags_print_origin(const struct flags_common *common, FILE *out);

#endif
