/* merge.h: native frames and frames of Python as one stack.
 *
 * A native frame of the interpreter's loop (_PyEval_EvalFrameDefault) runs frames of Python: since
 * 3.11 a function that is called from Python runs in the loop of its caller. So a loop stands for
 * the frames up to the one that it was entered with.
 */
#ifndef TS_PYTHON_MERGE_H
#define TS_PYTHON_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/python/layout.h"

/* Of a frame of Python. */
enum merge_mark {
	MERGE_ENTRY = 1, /* its loop was entered with it: the next one outwards is another loop's */
	MERGE_HIDDEN = 2, /* Python does not show it */
};

/* Of a native frame. */
enum merge_loop {
	MERGE_NO_LOOP,
	MERGE_LOOP,
	MERGE_LOOP_PART, /* an instruction, as a function that the loop calls; shown with it */
};

/* Both innermost first. "Whole": no frames are missing at the outer end. */
struct merge_stack {
	const uint8_t *loop; /* by native frame: enum merge_loop */
	size_t native_count;
	const uint8_t *mark; /* by frame of Python: of enum merge_mark */
	size_t python_count;
	bool native_whole, python_whole;
	/* Both were taken at the same moment: if there are not as many loops as were entered, some
	 * were not known by their name. Their frames are put to the first that was, or at the end.
	 */
	bool at_once;
};

struct merged {
	bool python;
	size_t index; /* of its kind */
};

/* The marks of a frame by its bytes, as layout.frame has them. */
uint8_t merge_mark(const struct layout *layout, uint8_t entry, uint8_t owner);
/* What makes a name one of the interpreter's loop: the compiler may have split it, and since 3.14
 * it may be built of tail calls from one instruction to the next. Of enum merge_loop; NULL is no
 * name. */
uint8_t merge_loop(const char *function);

/* `ret` has room for all frames of both; returns how many there are. Loops without frames of Python
 * stay as native frames. *ret_uneven: there are not as many loops as were entered, as if the two
 * were not taken at the same moment; then the outer ones are joined, the inner ones may be wrong.
 */
size_t merge(const struct merge_stack *stack, struct merged *ret, bool *ret_uneven);

#endif
