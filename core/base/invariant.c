/* Invariant: the count is the only state. */
#include "core/base/invariant.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/base/log.h"

#define LOGGED_MAX 10 /* the first ones say what is wrong; the rest only how often */

static atomic_uint_fast64_t broken;

void invariant_broken(const char *file, int line, const char *condition)
{
	if (atomic_fetch_add(&broken, 1) < LOGGED_MAX)
		log_error("Broken invariant at %s:%d: %s; please report this", file, line,
			  condition);
#ifndef NDEBUG
	abort();
#endif
}

uint64_t invariant_count(void)
{
	return atomic_load(&broken);
}
