/*
 * For tests of kernel interfaces that qemu-user does not have. It runs the programs of another
 * architecture on this machine's kernel: tests/release.sh arm64 sets EMULATOR then.
 */
#ifndef TESTS_UNIT_EMULATOR_H
#define TESTS_UNIT_EMULATOR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Skips the test under an emulator. `lacking` is the interface that it does not have. */
static inline void
skip_under_emulator(const char *lacking)
{
	const char *emulator = getenv("EMULATOR");

	if (emulator == NULL)
		return;
	print_message("%s does not have %s\n", emulator, lacking);
	skip();
}

#endif
