#include "lib/version.h"

#ifndef VERSION
#define VERSION "unversioned"
#endif

const char suite_version[] = VERSION;
