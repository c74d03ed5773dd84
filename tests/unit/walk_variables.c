/* walk_variables: stands for PyTorch's library, with the thread-local variables of its autograd.
 * Loaded late, it gets a thread's block when the thread first looks at them. */
#include "tests/unit/walk_variables.h"

static __thread struct walk_variables own = { .next = 1 };

struct walk_variables *walk_variables(void)
{
	return &own;
}
