#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/log.h"
#include "lib/xalloc.h"

static void *
checked(void *ptr)
{
	if (ptr == NULL)
		log_fatalx("out of memory");
	return ptr;
}

void *
xmalloc(size_t size)
{
	return checked(malloc(size > 0 ? size : 1));
}

void *
xcalloc(size_t count, size_t size)
{
	return checked(calloc(count > 0 ? count : 1, size > 0 ? size : 1));
}

void *
xreallocarray(void *ptr, size_t count, size_t size)
{
	if (count == 0 || size == 0)
		count = size = 1;
	return checked(reallocarray(ptr, count, size));
}

char *
xstrdup(const char *s)
{
	return checked(strdup(s));
}

char *
xstrndup(const char *s, size_t len)
{
	return checked(strndup(s, len));
}

char *
xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;

	va_start(ap, fmt);
	int n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return checked(n < 0 ? NULL : s);
}
