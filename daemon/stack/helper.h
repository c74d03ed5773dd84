/* helper.h: reads the threads of a process, in a helper, which keeps what it has learned of the
 * process for the next request.
 */
#ifndef TS_STACK_HELPER_H
#define TS_STACK_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/api/api.h"
#include "daemon/native/look.h"
#include "daemon/probe/probe.h"

/* Its descriptors: the map of open calls, then those of the look, if native frames are wanted and
 * the kernel has it. */
struct stack_order {
	struct api_target target;
	struct api_stack wanted;
	struct probe_open_place open;
};

#define STACK_ORDER_FDS (1 + LOOK_FDS)

/* In front of each message. */
enum stack_said {
	STACK_SAID_PART, /* the next bytes of a StackReply, packed */
	STACK_SAID_WHY,	 /* struct stack_why: there is none */
};

struct stack_why {
	uint32_t reason; /* its first argument is the pid */
	char second[64]; /* "": it has no other */
};

int stack_help(int socket, const void *request, size_t size, const int *fd, uint32_t fds);

#endif
