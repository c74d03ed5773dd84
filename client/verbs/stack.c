/* tsctl stack: what the threads of a process are doing: their state, the system call that
 * they are in, and their frames of Python. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/base/argument.h"
#include "client/link/link.h"
#include "client/output/json.h"
#include "client/verbs/command.h"
#include "core/base/units.h"

#define CLEAR	"\033[H\033[J"
#define PAUSE_S 1

typedef Tracesmith__V1__StackReply Stack;
typedef Tracesmith__V1__StackReply__Thread Thread;
typedef Tracesmith__V1__StackReply__Frame Frame;
typedef Tracesmith__V1__StackReply__Work Work;

static int ask_stack(const struct options *options, struct link *link, uint32_t pid,
		     Tracesmith__V1__Reply **ret)
{
	Tracesmith__V1__StackRequest stack = TRACESMITH__V1__STACK_REQUEST__INIT;

	stack.pid = pid;
	stack.locals = (options->given & OPTION(LOCALS)) != 0;
	stack.native = (options->given & OPTION(NATIVE)) != 0;
	return link_single(link, &stack.base, TRACESMITH__V1__REPLY__BODY_STACK, ret);
}

static const char *text_of(const Stack *stack, uint32_t place)
{
	return place < stack->n_text ? stack->text[place] : "?";
}

static void write_state(const Thread *thread)
{
	char text[UNITS_TEXT_SIZE];

	printf("Thread %u (%s): %s", thread->tid, thread->name, thread->state);
	if (*thread->call)
		printf(" in %s%s",
		       *thread->call >= '0' && *thread->call <= '9' ? "system call " : "",
		       thread->call);
	if (*thread->waits)
		printf(" (%s)", thread->waits);
	if (*thread->driver_call)
		printf(", in %s", thread->driver_call);
	if (thread->driver_ns)
		printf(" for %s", units_nanoseconds(text, (int64_t)thread->driver_ns));
	putchar('\n');
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void write_native(const Stack *stack, const Frame *frame)
{
	const char *function = text_of(stack, frame->function);
	const char *file = base_name(text_of(stack, frame->file));

	if (*function)
		printf("    %s (%s)\n", function, file);
	else if (*file)
		printf("    %s+0x%" PRIx64 "\n", file, frame->offset);
	else
		printf("    0x%" PRIx64 "\n", frame->address);
}

static void write_frame(const Stack *stack, const Frame *frame)
{
	if (frame->native) {
		write_native(stack, frame);
		return;
	}
	printf("    %s (%s", text_of(stack, frame->function), text_of(stack, frame->file));
	if (frame->line)
		printf(":%u", frame->line);
	putchar(')');
	if (frame->interpreter)
		printf(", subinterpreter %" PRId64, frame->interpreter);
	putchar('\n');
	for (size_t i = 0; i < frame->n_local; i++)
		printf("        %s = %s\n", frame->local[i]->name, frame->local[i]->value);
	if (frame->moved)
		puts("        … these variables may be incomplete or wrong: the frame went on");
}

static void write_thread(const Stack *stack, const Thread *thread)
{
	putchar('\n');
	write_state(thread);
	for (size_t i = 0; i < thread->n_frame; i++)
		write_frame(stack, thread->frame[i]);
	if (thread->cut)
		puts("    … outer frames are left out");
	if (thread->broken)
		puts("    … outer frames cannot be read");
	if (thread->moving)
		puts("    It changed while it was read: these frames may not belong together");
	if (*thread->native_end)
		printf("    … %s\n", thread->native_end);
	if (thread->python && !thread->n_frame)
		puts("    no Python frame");
}

static void write_work(const Work *work)
{
	char text[UNITS_TEXT_SIZE];

	units_nanoseconds(text, (int64_t)work->ns);
	if (work->device >= 0)
		printf("GPU %d, ", work->device);
	if (work->stream)
		printf("stream 0x%" PRIx64 ": ", work->stream);
	else
		fputs("default stream: ", stdout);
	if (work->waits)
		printf("waits for an event or another stream since %s", text);
	else
		printf("%s, called %s ago, is not known to be finished",
		       *work->call ? work->call : "work", text);
	if (work->count > !work->waits)
		printf(", %u more behind it", work->count - !work->waits);
	putchar('\n');
}

static void write_text(const struct options *options, uint32_t pid, const Stack *stack)
{
	const bool all = (options->given & (OPTION(THREADS) | OPTION(NATIVE))) || !*stack->python;
	size_t hidden = 0;

	printf("Process %u (%s)", pid, stack->comm);
	if (*stack->python)
		printf(", Python %s", stack->python);
	putchar('\n');
	if (*stack->no_python)
		printf("No Python frames: %s\n", stack->no_python);
	if (*stack->no_native)
		printf("No native frames: %s\n", stack->no_native);
	for (size_t i = 0; i < stack->n_work; i++)
		write_work(stack->work[i]);
	for (size_t i = 0; i < stack->n_thread; i++) {
		const Thread *thread = stack->thread[i];

		if (all || thread->python || i == 0)
			write_thread(stack, thread);
		else
			hidden++;
	}
	if (hidden)
		printf("\n%zu %s without Python: see --threads\n", hidden,
		       hidden == 1 ? "thread" : "threads");
	if (stack->cut)
		puts("\nThere are more threads than can be shown");
}

static void write_text_or_null(const char *text)
{
	if (*text)
		json_string(stdout, text);
	else
		fputs("null", stdout);
}

static const char *boolean(bool value)
{
	return value ? "true" : "false";
}

static void native_json(const Stack *stack, const Frame *frame)
{
	fputs("{\"native\":true,\"function\":", stdout);
	write_text_or_null(text_of(stack, frame->function));
	fputs(",\"file\":", stdout);
	write_text_or_null(text_of(stack, frame->file));
	if (*text_of(stack, frame->file))
		printf(",\"offset\":%" PRIu64, frame->offset);
	else
		fputs(",\"offset\":null", stdout);
	printf(",\"address\":\"0x%" PRIx64 "\"}", frame->address);
}

static void frame_json(const Stack *stack, const Frame *frame)
{
	if (frame->native) {
		native_json(stack, frame);
		return;
	}
	fputs("{\"native\":false,\"function\":", stdout);
	json_string(stdout, text_of(stack, frame->function));
	fputs(",\"file\":", stdout);
	json_string(stdout, text_of(stack, frame->file));
	printf(frame->line ? ",\"line\":%u" : ",\"line\":null", frame->line);
	printf(",\"interpreter\":%" PRId64 ",\"moved\":%s,\"locals\":{", frame->interpreter,
	       boolean(frame->moved));
	for (size_t i = 0; i < frame->n_local; i++) {
		fputs(i ? "," : "", stdout);
		json_string(stdout, frame->local[i]->name);
		putchar(':');
		json_string(stdout, frame->local[i]->value);
	}
	fputs("}}", stdout);
}

static void thread_json(const Stack *stack, const Thread *thread)
{
	printf("{\"tid\":%u,\"name\":", thread->tid);
	json_string(stdout, thread->name);
	fputs(",\"state\":", stdout);
	json_string(stdout, thread->state);
	fputs(",\"call\":", stdout);
	write_text_or_null(thread->call);
	fputs(",\"waits\":", stdout);
	write_text_or_null(thread->waits);
	fputs(",\"driver_call\":", stdout);
	write_text_or_null(thread->driver_call);
	printf(thread->driver_ns ? ",\"driver_ns\":%" PRIu64 : ",\"driver_ns\":null",
	       thread->driver_ns);
	printf(",\"python\":%s,\"moving\":%s,\"cut\":%s,\"broken\":%s,\"native_end\":",
	       boolean(thread->python), boolean(thread->moving), boolean(thread->cut),
	       boolean(thread->broken));
	write_text_or_null(thread->native_end);
	fputs(",\"frames\":[", stdout);
	for (size_t i = 0; i < thread->n_frame; i++) {
		fputs(i ? "," : "", stdout);
		frame_json(stack, thread->frame[i]);
	}
	fputs("]}", stdout);
}

static void work_json(const Work *work)
{
	printf(work->device < 0 ? "{\"device\":null" : "{\"device\":%d", work->device);
	printf(",\"stream\":\"0x%" PRIx64 "\",\"call\":", work->stream);
	write_text_or_null(work->call);
	printf(",\"ns\":%" PRIu64 ",\"count\":%u,\"waiting\":%s}", work->ns, work->count,
	       boolean(work->waits));
}

static void write_json(uint32_t pid, const Stack *stack)
{
	printf("{\"pid\":%u,\"comm\":", pid);
	json_string(stdout, stack->comm);
	fputs(",\"python\":", stdout);
	write_text_or_null(stack->python);
	fputs(",\"no_python\":", stdout);
	write_text_or_null(stack->no_python);
	fputs(",\"no_native\":", stdout);
	write_text_or_null(stack->no_native);
	fputs(",\"work\":[", stdout);
	for (size_t i = 0; i < stack->n_work; i++) {
		fputs(i ? "," : "", stdout);
		work_json(stack->work[i]);
	}
	printf("],\"cut\":%s,\"threads\":[", boolean(stack->cut));
	for (size_t i = 0; i < stack->n_thread; i++) {
		fputs(i ? "," : "", stdout);
		thread_json(stack, stack->thread[i]);
	}
	puts("]}");
}

static int show_once(const struct options *options, struct link *link, uint32_t pid)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r = ask_stack(options, link, pid, &reply);

	if (r < 0)
		return r;
	if ((options->given & OPTION(WATCH)) && isatty(STDOUT_FILENO))
		fputs(CLEAR, stdout);
	if (options->given & OPTION(JSON))
		write_json(pid, reply->stack);
	else
		write_text(options, pid, reply->stack);
	return 0;
}

int cmd_stack(const struct options *options, int count, char **argument)
{
	const struct timespec pause = { .tv_sec = PAUSE_S };
	_cleanup_(link_freep) struct link *link = NULL;
	uint32_t pid;
	int r;

	if (argument_pid(argument[0], &pid) < 0)
		return EXIT_USAGE;
	if (link_open(options, &link) < 0)
		return EXIT_FAILED;
	/* One that could not be read this time (-EREMOTEIO) may be the next. */
	while (((r = show_once(options, link, pid)) == 0 || r == -EREMOTEIO) &&
	       (options->given & OPTION(WATCH))) {
		if (fflush(stdout) != 0)
			break;
		nanosleep(&pause, NULL);
	}
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
