/* note.h: the places that a library's code names itself (USDT, as sys/sdt.h makes them): an
 * instruction without effect, of which a note in the file says where it is and where its arguments
 * are. */
#ifndef TS_NOTE_H
#define TS_NOTE_H

#include <stddef.h>

#include "daemon/elf/elf.h"
#include "daemon/library/library.h"

struct note {
	uint64_t offset;    /* in the file */
	uint64_t semaphore; /* likewise: counts who looks; 0: none */
	struct probe_note operands;
};

/* The places that go by the function's name, "provider:name", and whose arguments that it wants can
 * be read: `max` at most. Their number; 0 also if the notes are damaged. */
size_t notes_find(const struct elf *elf, const struct library_function *function, struct note *ret,
		  size_t max);

#endif
