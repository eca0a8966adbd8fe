/* Max-min fairness: what is too little for all is divided so that the smallest shares are as large as can be. */
#ifndef KUBEDNS_SERVE_MAX_MIN_H
#define KUBEDNS_SERVE_MAX_MIN_H

#include <stddef.h>

/*
 * How much each of `count` demands may have, so that they and `others` stay below
 * `capacity` together. All up to a level get what they ask for, the rest get the level. Returns the
 * level; below 0 if the others alone are above the capacity, so that holding these back is no use.
 */
double max_min_level(const double *demands, size_t count, double others, double capacity);

#endif
