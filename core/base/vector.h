/* vector.h: arrays that grow. Their owner has the array, how many items it holds and how many it
 * has room for; zeroed is empty, and free() gives it back. */
#ifndef TS_VECTOR_H
#define TS_VECTOR_H

#include <errno.h>
#include <stddef.h>

/* Makes room for `count` items, and for twice as many as before where there is too little: 0, or
 * -ENOMEM and nothing is changed. `array` and `room` are variables. */
#define VECTOR_ROOM(array, room, count)                                                            \
	({                                                                                         \
		const size_t vector_count = (count);                                               \
		size_t vector_room = (room);                                                       \
		void *vector_more;                                                                 \
                                                                                                   \
		if (vector_count > vector_room &&                                                  \
		    (vector_more = vector_grow((array), sizeof(*(array)), vector_count,            \
					       &vector_room, (__typeof__(room))-1))) {             \
			(array) = vector_more;                                                     \
			(room) = (__typeof__(room))vector_room;                                    \
		}                                                                                  \
		vector_count <= vector_room ? 0 : -ENOMEM;                                         \
	})

/* For VECTOR_ROOM, which asks for more than there is. At most `room_max`; NULL: no memory. */
void *vector_grow(void *array, size_t item_bytes, size_t count, size_t *room, size_t room_max);

#endif
