#include "lib/rcu.h"

#ifdef RCU_TSAN
char rcu_grace;
#endif

/* ISO C wants a translation unit to hold something in every build. */
typedef int rcu_header_compiles;
