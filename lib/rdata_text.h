/*
 * RDATA from presentation form: the words of a master file's entry. Pure; names are written whole, in
 * lower case.
 */
#ifndef LIB_RDATA_TEXT_H
#define LIB_RDATA_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/wire.h"

struct dname;

/* The number of a type that records may have, by name or as TYPE123; 0: none, and `why` gets a static
 * reason. Types that only signed zones, or no zones, have are refused. */
uint16_t rdata_type(const char *word, const char **why);

/*
 * Appends the RDATA that the words stand for. Types that are not known are written as `\# LENGTH HEX...`
 * (RFC 3597 section 5). 0, or -EINVAL and the wrong word and a static reason.
 */
int rdata_from_text(struct writer *w, uint16_t type, char *const *words, size_t count,
    const struct dname *origin, const char **wrong, const char **why);

/* Prints RDATA, whose names are not compressed, in presentation form; of an unknown type, or malformed,
 * as `\# LENGTH HEX`. */
void rdata_print(FILE *out, uint16_t type, const uint8_t *rdata, size_t len);

/* --- private to rdata_*.c --- */

/* What stands in a type's RDATA, a letter a field (rdata_text.c); NULL: a type that is not known. */
const char *rdata_form(uint16_t type);

/* Appends the parameters of an SVCB or HTTPS record (RFC 9460 section 2.1); as above. */
int rdata_svcb_params(
    struct writer *w, char *const *words, size_t count, const char **wrong, const char **why);

#endif
