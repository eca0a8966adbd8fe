/* Max-min fairness: shares out a capacity that is too small so that the smallest share is as large
 * as possible. */
#ifndef KUBEDNS_SERVE_MAX_MIN_H
#define KUBEDNS_SERVE_MAX_MIN_H

#include <stddef.h>

/*
 * Returns the level that keeps `count` demands and `others` within `capacity`: a demand up to the
 * level is met in full, a larger one gets the level. Below 0 if `others` alone exceed the capacity,
 * so that cutting the demands is of no use.
 */
double max_min_level(const double *demands, size_t count, double others, double capacity);

#endif
