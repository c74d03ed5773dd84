/* object.h: the BPF objects: loaded once, and kept as descriptors of what they consist of.
 */
#ifndef TS_BROKER_OBJECT_H
#define TS_BROKER_OBJECT_H

#include "daemon/broker/request.h"
#include "daemon/broker/trial.h"
#include "daemon/library/returns.h"

enum object_program {
	OBJECT_ENTER,
	OBJECT_LEAVE,
	OBJECT_NOTE,
	OBJECT_INSIDE,
	OBJECT_FREED,
	OBJECT_PROGRAMS
};
enum object_link {
	OBJECT_PROCESS_EXIT,
	OBJECT_PROCESS_EXEC,
	OBJECT_WORKER_QUEUE,
	OBJECT_WORKER_START,
	OBJECT_LINKS
};

struct object {
	struct broker_programs told;
	struct returns returns;
	int map[BROKER_MAPS], program[OBJECT_PROGRAMS], link[OBJECT_LINKS];
};

/* The programs of the probes, with the function table, on the tracepoints that they need.
 * `returns`: which functions are to be probed at their return, if that passes the trial. */
int object_load(enum probe_way way, uint64_t ring_bytes, struct trial *trial,
		const struct returns *returns, struct object *ret);
/* The task iterator: its link, and the map of who wants to read what. */
int object_look(int *ret);
/* The one of who holds the lock of his memory: the same. */
int object_held(int *ret);
/* Those of who has changed his code: the links of both, and their map. */
#define OBJECT_ITERATOR_FDS 3
int object_hooked(int *ret);

#endif
