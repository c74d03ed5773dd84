/* pythons_helper.h: reads the Pythons of processes, in a helper. It keeps what it has read of them
 * for the next task.
 */
#ifndef TS_PYTHONS_HELPER_H
#define TS_PYTHONS_HELPER_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/probe.h"

enum pythons_order_kind {
	PYTHONS_LOOK, /* the answer is struct pythons_place; the result as of python_open() */
	PYTHONS_NAME, /* the answer is struct pythons_row */
};

struct pythons_order {
	uint32_t kind, pid;
	uint64_t number; /* another one: it runs another program, or is another process; 0: none */
	uint32_t count;	 /* of the frames that follow */
	uint32_t reserved;
	struct ts_python_frame frame[TS_STACK_PYTHON_MAX];
};

/* With the file in which it frees code objects, at `freeing` in it; no file: that is not known. */
struct pythons_place {
	struct ts_python place;
	uint64_t freeing;
};

/* Of a frame that has its code, or that Python does not show. The name of the function and that of
 * the file follow, each with its NUL; then the next row. */
struct pythons_row {
	uint32_t index, line, hidden;
};

int pythons_help(int socket, const void *request, size_t size, const int *fd, uint32_t fds);

#endif
