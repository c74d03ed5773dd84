/* Layout: a row for each version before 3.13, and what later ones say of themselves, which is
 * checked: every offset lies within what is read of its structure. */
#include "daemon/python/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/array.h"
#include "daemon/limits.h"

#define MINOR(version)	((version) >> 16)
#define VERSION_3_9	0x0309u
#define VERSION_3_10	0x030au
#define VERSION_3_11	0x030bu
#define VERSION_3_12	0x030cu
#define VERSION_3_13	0x030du
#define VERSION_3_14	0x030eu
#define FIELD_SIZE	8
#define TRACEABLE_BELOW 16 /* _co_firsttraceable, then co_extra, then the bytecode */
#define COMPACT_MORE	16 /* of a str that is not ASCII, since 3.12 */
#define TAGS_3_14	3

/* What was in all versions where it is. */
#define COMMON                                                                                     \
	.unicode.state = 32, .unicode.length = 16, .bytes.size = 16, .bytes.data = 32,             \
	.type_name = 24, .type_dealloc = 48, .type_flags = 168, .tuple_items = 24,                 \
	.float_value = 16, .long_digits = 24, .dict_used = 16, .set_used = 24, .thread.next = 8

#define BEFORE_3_11                                                                                \
	COMMON, .runtime.head = 32, .interpreter = { .next = 0, .id = 24, .threads = 8 },          \
		.thread.thread_id = 176, .thread.frame = 24, .indirect = LAYOUT_NO_OFFSET,         \
		.frame.previous = 24, .frame.code = 32,                                            \
		.code = { .argcount = 16,                                                          \
			  .kwonly = 24,                                                            \
			  .flags = 36,                                                             \
			  .first_line = 40,                                                        \
			  .file = 104,                                                             \
			  .name = 112,                                                             \
			  .lines = 120,                                                            \
			  .names = 72,                                                             \
			  .local_count = 28 },                                                     \
		.unicode.ascii = 48, .unicode.compact = 72

static const struct row {
	uint32_t version;
	struct layout layout;
} rows[] = {
	{ VERSION_3_9,
	  { BEFORE_3_11, .frame.position = 104, .frame.locals = 360, .position_unit = 1,
	    .lines = LINES_LNOTAB } },
	{ VERSION_3_10,
	  { BEFORE_3_11, .frame.position = 96, .frame.locals = 352, .position_unit = 2,
	    .lines = LINES_LINETABLE } },
	{ VERSION_3_11,
	  { COMMON, .runtime.head = 40, .interpreter = { .next = 0, .id = 48, .threads = 16 },
	    .thread.thread_id = 152, .thread.native = 160, .thread.frame = 56, .indirect = 8,
	    .frame = { .previous = 48,
		       .code = 32,
		       .position = 56,
		       .locals = 72,
		       .entry = 68,
		       .owner = 69 },
	    .entries = LAYOUT_ENTRY_FLAG,
	    .code = { .argcount = 56,
		      .kwonly = 64,
		      .flags = 48,
		      .first_line = 72,
		      .file = 112,
		      .name = 120,
		      .qualname = 128,
		      .lines = 136,
		      .names = 96,
		      .local_count = 76,
		      .bytecode = 184,
		      .first_traceable = 168 },
	    .unicode.ascii = 48, .unicode.compact = 72, .lines = LINES_LOCATIONS } },
	{ VERSION_3_12,
	  { COMMON, .runtime.head = 40, .interpreter = { .next = 0, .id = 8, .threads = 72 },
	    .thread.thread_id = 136, .thread.native = 144, .thread.frame = 56, .indirect = 0,
	    .frame = { .previous = 8, .code = 0, .position = 56, .locals = 72, .owner = 70 },
	    .entries = LAYOUT_ENTRY_FRAME,
	    .code = { .argcount = 52,
		      .kwonly = 60,
		      .flags = 48,
		      .first_line = 68,
		      .file = 112,
		      .name = 120,
		      .qualname = 128,
		      .lines = 136,
		      .names = 96,
		      .local_count = 72,
		      .bytecode = 192,
		      .first_traceable = 176 },
	    .unicode.ascii = 40, .unicode.compact = 56, .long_tag = 16,
	    .lines = LINES_LOCATIONS } },
};

/* What 3.13 has at the start of _PyRuntime. */
struct debug_offsets {
	char cookie[8];
	uint64_t version, free_threaded;
	struct {
		uint64_t size, finalizing, interpreters_head;
	} runtime;
	struct {
		uint64_t size, id, next, threads_head, gc, imports_modules, sysdict, builtins,
			ceval_gil, gil_state, gil_enabled, gil_locked, gil_holder;
	} interpreter;
	struct {
		uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id,
			datastack_chunk, status;
	} thread;
	struct {
		uint64_t size, previous, executable, instr_ptr, localsplus, owner;
	} frame;
	struct {
		uint64_t size, filename, name, qualname, linetable, firstlineno, argcount,
			localsplusnames, localspluskinds, co_code_adaptive;
	} code;
	struct {
		uint64_t size, ob_type;
	} object;
	struct {
		uint64_t size, tp_name, tp_repr, tp_flags;
	} type;
	struct {
		uint64_t size, ob_item, ob_size;
	} tuple, list;
	struct {
		uint64_t size, ma_keys, ma_values;
	} dict;
	struct {
		uint64_t size, ob_fval;
	} floating;
	struct {
		uint64_t size, lv_tag, ob_digit;
	} integer;
	struct {
		uint64_t size, ob_size, ob_sval;
	} bytes;
	struct {
		uint64_t size, state, length, asciiobject_size;
	} unicode;
};

_Static_assert(sizeof(struct debug_offsets) <= LAYOUT_DEBUG_SIZE, "it is read whole");

/* 3.14 has more between. */
static void debug_from_3_14(const uint8_t runtime[LAYOUT_DEBUG_SIZE], struct debug_offsets *ret)
{
	static const struct {
		uint8_t from, count; /* words that both have */
	} runs[] = {
		{ 0, 10 },  /* up to threads_head; threads_main is new */
		{ 11, 9 },  /* to gil_holder; two generations are */
		{ 22, 9 },  /* the thread's */
		{ 31, 6 },  /* the frame's; the stack pointer and an index are */
		{ 39, 10 }, /* the code object's; a table of threads is */
		{ 50, 12 }, /* object, type, tuple and list; set is */
		{ 66, 15 }, /* dict to unicode */
	};
	size_t word = 0;

	for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
		memcpy((uint64_t *)ret + word, runtime + runs[i].from * sizeof(uint64_t),
		       runs[i].count * sizeof(uint64_t));
		word += runs[i].count;
	}
}

static bool take(uint32_t *ret, uint64_t offset, uint64_t size)
{
	*ret = (uint32_t)offset;
	return offset <= size - FIELD_SIZE;
}

static int from_debug(const struct debug_offsets *debug, struct layout *ret)
{
	const uint64_t far = LIMIT_PYTHON_STRUCTURE, object = LAYOUT_OBJECT_SIZE;
	const uint64_t frame = LAYOUT_FRAME_SIZE, code = LAYOUT_CODE_SIZE;
	struct layout of = { COMMON, .indirect = LAYOUT_NO_OFFSET, .lines = LINES_LOCATIONS };

	bool good = take(&of.runtime.head, debug->runtime.interpreters_head, far) &&
		    take(&of.interpreter.next, debug->interpreter.next, far) &&
		    take(&of.interpreter.id, debug->interpreter.id, far) &&
		    take(&of.interpreter.threads, debug->interpreter.threads_head, far) &&
		    take(&of.thread.next, debug->thread.next, far) &&
		    take(&of.thread.thread_id, debug->thread.thread_id, far) &&
		    take(&of.thread.native, debug->thread.native_thread_id, far) &&
		    take(&of.thread.frame, debug->thread.current_frame, far) &&
		    take(&of.frame.previous, debug->frame.previous, frame) &&
		    take(&of.frame.code, debug->frame.executable, frame) &&
		    take(&of.frame.position, debug->frame.instr_ptr, frame) &&
		    take(&of.frame.locals, debug->frame.localsplus, frame) &&
		    take(&of.frame.owner, debug->frame.owner, frame) &&
		    take(&of.code.argcount, debug->code.argcount, code - FIELD_SIZE) &&
		    take(&of.code.first_line, debug->code.firstlineno, code) &&
		    take(&of.code.file, debug->code.filename, code) &&
		    take(&of.code.name, debug->code.name, code) &&
		    take(&of.code.qualname, debug->code.qualname, code) &&
		    take(&of.code.lines, debug->code.linetable, code) &&
		    take(&of.code.names, debug->code.localsplusnames, code) &&
		    take(&of.code.bytecode, debug->code.co_code_adaptive, code) &&
		    debug->code.co_code_adaptive >= TRACEABLE_BELOW &&
		    take(&of.unicode.state, debug->unicode.state, object) &&
		    take(&of.unicode.length, debug->unicode.length, object) &&
		    take(&of.unicode.ascii, debug->unicode.asciiobject_size, object) &&
		    take(&of.bytes.size, debug->bytes.ob_size, object) &&
		    take(&of.bytes.data, debug->bytes.ob_sval, object) &&
		    take(&of.type_name, debug->type.tp_name, object) &&
		    take(&of.type_flags, debug->type.tp_flags, object) &&
		    take(&of.tuple_items, debug->tuple.ob_item, object) &&
		    take(&of.float_value, debug->floating.ob_fval, object) &&
		    take(&of.long_tag, debug->integer.lv_tag, object) &&
		    take(&of.long_digits, debug->integer.ob_digit, object);

	if (!good)
		return -EBADMSG;
	/* It does not say these. */
	of.code.kwonly = of.code.argcount + 2 * sizeof(uint32_t);
	of.code.flags = 48;
	of.code.local_count = 72;
	of.code.first_traceable = of.code.bytecode - TRACEABLE_BELOW;
	of.unicode.compact = of.unicode.ascii + COMPACT_MORE;
	of.entries = LAYOUT_ENTRY_FRAME;
	*ret = of;
	return 0;
}

int layout_find(uint32_t version, const uint8_t runtime[LAYOUT_DEBUG_SIZE], struct layout *ret)
{
	struct debug_offsets debug;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].version != MINOR(version))
			continue;
		*ret = rows[i].layout;
		return 0;
	}
	if (MINOR(version) == VERSION_3_13)
		memcpy(&debug, runtime, sizeof(debug));
	else if (MINOR(version) == VERSION_3_14)
		debug_from_3_14(runtime, &debug);
	else
		return -EOPNOTSUPP;
	if (memcmp(debug.cookie, "xdebugpy", sizeof(debug.cookie)) != 0 ||
	    MINOR(debug.version) != MINOR(version))
		return -EBADMSG;
	if (debug.free_threaded)
		return -ENOTUNIQ;
	r = from_debug(&debug, ret);
	if (r == 0 && MINOR(version) == VERSION_3_14)
		ret->tags = TAGS_3_14;
	return r;
}
