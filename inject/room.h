/* room.h: whether the process has memory left for CUPTI, which ends it with an exception if not. */
#ifndef TS_INJECT_ROOM_H
#define TS_INJECT_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* False, with a sentence for the user, where a limit of the process leaves it too little. */
bool room_is_there(char *why, size_t size);

#endif
