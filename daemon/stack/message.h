/* message.h: what is sent about the threads of a process. */
#ifndef TS_STACK_MESSAGE_H
#define TS_STACK_MESSAGE_H

#include "core/base/arena.h"
#include "core/base/map.h"
#include "daemon/stack/task.h"
#include "daemon/stack/work.h"
#include "proto/control.pb-c.h"

/* All zero is empty. Its reply is valid as long as it. */
struct stack_message {
	Tracesmith__V1__StackReply reply;
	struct arena arena;
	struct map texts; /* place in the reply's text + 1, by text */
	size_t text_room;
	bool locals; /* wanted */
};

struct python;
struct native;

/* Either may be NULL, with a sentence that says why, or an empty one. */
struct message_source {
	struct python *python;
	struct native *native;
	const char *no_python, *no_native;
};

/* -ESRCH: the process has ended; else as capture_threads. */
int message_fill(struct stack_message *message, const struct tasks *tasks,
		 const struct message_source *source);
/* What its streams have to do. */
int message_add_work(struct stack_message *message, const struct stack_work *work, size_t count,
		     uint64_t now_ns);
void message_clear(struct stack_message *message);

#endif
