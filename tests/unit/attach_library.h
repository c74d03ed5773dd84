/* attach_library.h: what the tests' library does in its entry, asked for in settings.flush_ms. */
#ifndef TS_ATTACH_LIBRARY_H
#define TS_ATTACH_LIBRARY_H

enum entry_does {
	ENTRY_STARTS,
	ENTRY_FAILS = 9001,
	ENTRY_HANGS,
	ENTRY_LOCKS, /* waits for a lock that nobody lets go */
	ENTRY_CRASHES,
	ENTRY_OUTLIVES, /* waits until its tracer is gone, and starts then */
};

#endif
