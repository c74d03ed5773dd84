/* layout.h: where the interpreter's structures have their fields, by its version.
 *
 * Since 3.13 the interpreter says so itself (struct _Py_DebugOffsets, at the start of _PyRuntime);
 * for earlier versions offsetof() on the headers of CPython 3.9.18, 3.10.13, 3.11.7 and 3.12.1 did,
 * and is the same within a minor version.
 */
#ifndef TS_PYTHON_LAYOUT_H
#define TS_PYTHON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/python/lines.h"

#define LAYOUT_DEBUG_SIZE  1024 /* bytes of _PyRuntime that are enough for its offsets */
#define LAYOUT_FRAME_SIZE  128	/* the fields of a frame lie within this, */
#define LAYOUT_CODE_SIZE   256	/* those of a code object, */
#define LAYOUT_OBJECT_SIZE 256	/* and of any other object */

/* How to tell the frame that the interpreter's loop was entered with. */
enum layout_entries {
	LAYOUT_ALL_ENTER,   /* a loop runs one frame: up to 3.10 */
	LAYOUT_ENTRY_FLAG,  /* a field says it: 3.11 */
	LAYOUT_ENTRY_FRAME, /* behind it comes a frame that is no function's: since 3.12 */
};
/* Its owner, in enum _frameowner. */
#define LAYOUT_OWNED_BY_C_STACK 3

struct layout {
	struct {
		uint32_t head;
	} runtime;
	struct {
		uint32_t next, id, threads;
	} interpreter;
	struct {
		uint32_t next, thread_id;
		uint32_t native; /* 0: there is only the pthread */
		uint32_t frame;
	} thread;
	uint32_t indirect; /* thread.frame points to a pointer, this far in; NO_OFFSET: it is it */
	struct {
		uint32_t previous, code, position, locals;
		uint32_t entry; /* 0: none has one, as with the owner */
		uint32_t owner;
	} frame;
	enum layout_entries entries;
	struct {
		uint32_t argcount, kwonly, flags, first_line, file, name, lines, names;
		uint32_t qualname; /* 0: none has one */
		uint32_t local_count;
		uint32_t bytecode; /* 0: a frame's position is an index */
		uint32_t first_traceable;
	} code;
	struct {
		uint32_t state, length, ascii, compact;
	} unicode;
	struct {
		uint32_t size, data;
	} bytes;
	uint32_t type_name, type_dealloc, type_flags, tuple_items, float_value, long_digits,
		dict_used, set_used;
	uint32_t long_tag;	/* 0: its size is that of a variable object */
	uint32_t position_unit; /* of an index: bytes */
	uint64_t tags;		/* bits of what a frame points to that are none of its address */
	enum lines_format lines;
};

#define LAYOUT_NO_OFFSET UINT32_MAX

/* As PY_VERSION_HEX. `runtime`: the first bytes of _PyRuntime. -EOPNOTSUPP: a version that is not
 * known; -ENOTUNIQ: built without the GIL; -EBADMSG: what it says of itself cannot be. */
int layout_find(uint32_t version, const uint8_t runtime[LAYOUT_DEBUG_SIZE], struct layout *ret);

#endif
