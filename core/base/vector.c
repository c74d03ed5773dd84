/* Vector: twice the room each time, so that an item is moved twice on average. */
#include "core/base/vector.h"

#include <stdint.h>
#include <stdlib.h>

#define ROOM_MIN 16

void *vector_grow(void *array, size_t item_bytes, size_t count, size_t *room, size_t room_max)
{
	size_t more = *room > room_max / 2 ? room_max : *room * 2;

	if (count > room_max)
		return NULL;
	if (more < ROOM_MIN)
		more = ROOM_MIN;
	if (more < count)
		more = count;
	/* As reallocarray() would, but a sanitizer ends the program there. */
	if (more > PTRDIFF_MAX / item_bytes)
		return NULL;
	array = reallocarray(array, more, item_bytes);
	if (array)
		*room = more;
	return array;
}
