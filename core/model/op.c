/* Op: the names of its states. */
#include "core/model/op.h"

#include <stddef.h>

const char *op_state_name(uint8_t state)
{
	static const char *const names[] = {
#define X(number, identifier, name, ...) [number] = name,
		OP_STATES(X)
#undef X
	};

	return state <= OP_STATE_MAX ? names[state] : NULL;
}
