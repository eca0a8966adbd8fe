/* Parses RDATA in presentation format: the words of a master file's entry. The functions are pure.
 * Names are written uncompressed, in lower case. */
#ifndef LIB_RDATA_TEXT_H
#define LIB_RDATA_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/wire.h"

struct dname;

/*
 * Returns the number of a record type. `word` is the name of the type, or has the form TYPE123. If
 * the type is refused, returns 0 and a static reason in `why`. Types that are used only in signed
 * zones, or not in zones at all, are refused.
 */
uint16_t rdata_type(const char *word, const char **why);

/*
 * Parses the words and appends the RDATA. Unknown types are written as `\# LENGTH HEX...` (RFC 3597
 * section 5). Returns 0, or -EINVAL, the wrong word and a static reason.
 */
int rdata_from_text(struct writer *w, uint16_t type, char *const *words, size_t count,
    const struct dname *origin, const char **wrong, const char **why);

/* Prints RDATA in presentation format; names in it must not be compressed. Unknown types and
 * malformed data are printed as `\# LENGTH HEX`. */
void rdata_print(FILE *out, uint16_t type, const uint8_t *rdata, size_t len);

/* --- private to rdata_*.c --- */

/* Returns the format of a type's RDATA, one letter per field (rdata_text.c). Returns NULL if the
 * type is unknown. */
const char *rdata_form(uint16_t type);

/* Appends the parameters of an SVCB or HTTPS record (RFC 9460 section 2.1). Returns the same as
 * rdata_from_text(). */
int rdata_svcb_params(
    struct writer *w, char *const *words, size_t count, const char **wrong, const char **why);

#endif
