/* Attach: the steps that load the library into a process, and unload it.
 *
 * In the first stop a thread creates what is needed: memory, a memfd, a pair of sockets. While the
 * process continues, the library is written to the memfd. In the second stop the thread loads it
 * and calls its entry; in the third it removes what was only needed for that. struct attach_state
 * lists what the process has because of us; all of it is gone at the end, whatever happens. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "core/store/thread.h"
#include "daemon/attach/internal.h"
#include "daemon/attach/signal_frame.h"
#include "daemon/proc/procfs.h"

#define PATIENCE_MS	 3000
#define PATIENCE_UNDO_MS 15000 /* leftovers are unwelcome */
#define LATE_TRIES	 4     /* of PATIENCE_MS; with more patience, more of them */
#define THREADS_END_MS	 5000
#define TIDY_NS		 (10 * NS_PER_S)
#define TIDY_WAIT_NS	 (20 * NS_PER_MS) /* then twice as long, and so on */
#define LIBRARY_MAX	 (64 << 20)
#define SENTENCE_SIZE	 512
#define HANDLER_WINDOW	 (16 << 10) /* of a stack is searched for signal frames */
#define LOOKS		 3	    /* at a thread that runs */
#define LOOK_NS		 100000

int attach_why(struct remarks *why, int error, Tracesmith__V1__Remark__Reason reason, ...)
{
	va_list arguments;

	remarks_clear(why);
	va_start(arguments, reason);
	remarks_add_list(why, reason, arguments);
	va_end(arguments);
	return error;
}

int attach_why_text(struct remarks *why, int error, Tracesmith__V1__Remark__Reason reason,
		    const char *format, ...)
{
	char text[SENTENCE_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return attach_why(why, error, reason, text, NULL);
}

/* The memory of the checked program cannot be read any more after an exec. */
static bool state_is_replaced(const struct attach_state *state)
{
	uint16_t instruction;

	return attach_target_read(&state->target, state->target.syscall, &instruction,
				  sizeof(instruction));
}

/* Whether the stopped thread still runs the checked program. */
static int state_confirm(const struct attach_state *state)
{
	const struct attach_request *request = state->request;

	if (state_is_replaced(state))
		return ATTACH_WHY(state->why, -ESRCH, PROGRAM_CHANGED, REMARK_NUMBER(state->pid));
	return request && request->limited
		       ? attach_check_owner(state->pid, request->uid, state->why)
		       : 0;
}

/* Each step takes one stop. */
static int state_step(struct attach_state *state, bool loads, unsigned int patience_ms,
		      int (*step)(struct attach_state *state, const void *data), const void *data)
{
	unsigned int tries = LATE_TRIES * patience_ms / PATIENCE_MS;
	int r, end;

	for (unsigned int i = 0; i < tries; i++) {
		r = attach_thread_stop(&state->remote, state->pid, loads, patience_ms, state->why);
		if (r < 0)
			break;
		state->late = false;
		attach_remote_hurry(&state->remote, true);
		r = state_confirm(state);
		if (r == 0) {
			attach_step_mark(state);
			r = step(state, data);
		}
		end = attach_remote_release(&state->remote);
		state->lost |= state->remote.stuck;
		state->stops++;
		if (state->remote.stopped_ns > state->longest_ns)
			state->longest_ns = state->remote.stopped_ns;
		if (state->remote.gone || (r == 0 && end == -ESRCH))
			return attach_state_ended(state);
		if (!state->late)
			break;
	}
	return r;
}

/* Duplicates a descriptor of the process. Threads may have different tables: it must be what the
 * thread that created it sees under the number. */
static int state_take(struct attach_state *state, int pidfd, int number, int *ret)
{
	_cleanup_(closep) int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	struct stat here, there;
	int error = errno;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", state->pid, state->remote.tid,
		 number);
	if (fd < 0 && state_is_replaced(state))
		return ATTACH_WHY(state->why, -ESRCH, PROGRAM_CHANGED, REMARK_NUMBER(state->pid));
	/* And we must not write to a pipe, for example, that somebody put there: it could block. */
	if (fd < 0 || (number == state->memfd && fcntl(fd, F_GET_SEALS) < 0) ||
	    fstat(fd, &here) < 0 || stat(path, &there) < 0 || here.st_ino != there.st_ino ||
	    here.st_dev != there.st_dev)
		return ATTACH_FAILED(state->why, -EIO,
				     "Cannot take over a descriptor of process %d: %s", state->pid,
				     fd < 0 ? strerror(error) : "its threads do not share them");
	*ret = TAKE_FD(fd);
	return 0;
}

static int copy_library(int from, int to)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0 || st.st_size <= 0 || st.st_size > LIBRARY_MAX)
		return -EBADF;
	while (at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

		if (n == 0)
			return -EIO;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
	}
	/* The process runs exactly what we wrote. */
	fcntl(to, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return 0;
}

static int state_transfer(struct attach_state *state, int library, int *ret_socket)
{
	_cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, state->pid, 0);
	_cleanup_(closep) int memfd = -1, socket = -1;
	int r;

	if (pidfd < 0)
		return attach_state_ended(state);
	r = state_take(state, pidfd, state->sockets[0], &socket);
	if (r < 0)
		return r;
	if (state->memfd >= 0) {
		r = state_take(state, pidfd, state->memfd, &memfd);
		if (r < 0)
			return r;
		r = copy_library(library, memfd);
		if (r < 0)
			return ATTACH_FAILED(state->why, -EIO,
					     "Cannot copy the library into process %d: %s",
					     state->pid, strerror(-r));
	}
	*ret_socket = TAKE_FD(socket);
	return 0;
}

bool attach_is_wanted(const int *leash)
{
	char byte;

	return !leash || recv(*leash, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

/* Nobody would have the library's records. */
static int state_wanted(const struct attach_state *state, const struct attach_request *request)
{
	if (attach_is_wanted(request->leash))
		return 0;
	return ATTACH_FAILED(state->why, -ECANCELED, "Process %d is not attached to any more",
			     state->pid);
}

static int state_attach(struct attach_state *state, const struct attach_request *request,
			int *ret_socket)
{
	_cleanup_(closep) int socket = -1;
	bool load = !state->entry;
	int r;

	r = state_step(state, false, PATIENCE_MS, attach_step_prepare, &load);
	if (r == 0)
		r = state_transfer(state, request->library, &socket);
	if (r == 0)
		r = state_wanted(state, request);
	if (r == 0)
		r = state_step(state, true, PATIENCE_MS, attach_step_load, &request->wanted);
	if (r != -ESRCH && !state->lost && (state->remote.scratch || state->memfd >= 0)) {
		_cleanup_(remarks_clear) struct remarks ignored = { 0 };
		struct remarks *why = state->why;

		state->why = &ignored;
		state_step(state, state->unload, PATIENCE_UNDO_MS, attach_step_clean, NULL);
		if (state->late && state->unload) {
			state->unload = false; /* it stays, without the rest */
			state_step(state, false, PATIENCE_UNDO_MS, attach_step_clean, NULL);
		}
		state->why = why;
	}
	if (r == 0)
		*ret_socket = TAKE_FD(socket);
	return r;
}

static int state_open(struct attach_state *state, pid_t pid, uint64_t started_ticks,
		      struct remarks *why)
{
	uint64_t ticks;
	int r;

	*state = (struct attach_state){ .target = ATTACH_TARGET_NONE,
					.pid = pid,
					.why = why,
					.memfd = -1,
					.sockets = { -1, -1 } };
	r = attach_target_open(pid, &state->target, why);
	if (r < 0)
		return r;
	/* Its memory is held now: a later process with the same pid cannot be mistaken for it. */
	if (procfs_started_ticks((uint32_t)pid, &ticks) < 0 ||
	    (started_ticks && ticks != started_ticks))
		return attach_state_ended(state);
	state->remote.target = &state->target;
	state->remote.xstate = malloc(ATTACH_XSTATE_MAX);
	state->mark.helper = getpid();
	procfs_started_ticks((uint32_t)state->mark.helper, &state->mark.helper_ticks);
	return state->remote.xstate ? 0 : -ENOMEM;
}

static void state_close(struct attach_state *state)
{
	attach_target_close(&state->target);
	free(state->remote.xstate);
}

/* Runs on a thread of its own: the kernel releases what a thread traces when it ends, which is the
 * only way if one could not be stopped. */
struct attach_work {
	int (*run)(struct attach_work *work);
	const struct attach_request *request;
	struct attach_result *result;
	pid_t pid;
	uint64_t started_ticks, handle;
	struct remarks *why;
	int r;
};

static void *work_thread(void *data)
{
	struct attach_work *work = data;

	timer_t ticks;

	work->r = attach_remote_ticks(&ticks);
	if (work->r < 0) {
		ATTACH_FAILED(work->why, work->r, "Cannot start a timer: %s", strerror(-work->r));
		return NULL;
	}
	work->r = work->run(work);
	timer_delete(ticks);
	return NULL;
}

static int work_run(struct attach_work *work)
{
	pthread_t thread;
	int r = thread_start(&thread, work_thread, work);

	if (r < 0)
		return ATTACH_FAILED(work->why, -EAGAIN, "Cannot start a thread: %s", strerror(-r));
	pthread_join(thread, NULL);
	if (work->r < 0 && attach_ended(work->pid))
		return ATTACH_WHY(work->why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(work->pid));
	return work->r;
}

static int work_attach(struct attach_work *work)
{
	const struct attach_request *request = work->request;
	struct attach_result result = { .socket = -1 };
	uint64_t begin = attach_now_ns();
	struct attach_state state;
	bool ours = true;
	int r;

	r = state_open(&state, request->pid, request->started_ticks, work->why);
	if (r == 0) {
		state.request = request;
		result.loaded_before = attach_target_loaded(&state.target, &state.handle,
							    &state.entry, &ours) == 0;
		r = state_attach(&state, request, &result.socket);
	}
	result.handle = ours ? state.handle : 0;
	result.stopped_ns = state.longest_ns;
	result.stops = state.stops;
	result.total_ns = attach_now_ns() - begin;
	state_close(&state);
	if (r == 0)
		*work->result = result;
	return r;
}

int attach_run(const struct attach_request *request, struct attach_result *ret, struct remarks *why)
{
	struct attach_work work = { .run = work_attach,
				    .pid = request->pid,
				    .request = request,
				    .result = ret,
				    .why = why };
	int r;

	remarks_clear(why);
	r = attach_check(request, why);
	return r < 0 ? r : work_run(&work);
}

static bool is_ours(const struct attach_maps *maps, uint64_t address)
{
	const struct attach_map *map = attach_maps_find(maps, address);

	return map && attach_map_is_ours(map);
}

/* Whether a thread is in the library, or in a handler that has interrupted it there. */
static bool place_is_inside(const struct attach_state *state, const struct attach_maps *maps,
			    uint64_t pc, uint64_t sp)
{
	uint64_t word[HANDLER_WINDOW / sizeof(uint64_t)];
	ssize_t size;

	if (is_ours(maps, pc))
		return true;
	size = pread(state->target.mem, word, sizeof(word), (off_t)(sp & ~7ull));
	for (size_t i = 0; size > 0 && i < (size_t)size / sizeof(word[0]); i++)
		if (signal_frame_is_at(word, i) && is_ours(maps, word[i - SIGNAL_RIP]))
			return true;
	return false;
}

/* Positive: it is. One that runs each time is stopped to be looked at. */
static int thread_is_inside(struct attach_state *state, const struct attach_maps *maps, pid_t tid)
{
	const struct user_regs_struct *regs = &state->remote.saved;
	struct attach_where where;
	int r;

	for (int i = 0; i < LOOKS; i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
		if (attach_where_read(state->pid, tid, &where) < 0)
			return 0;
		if (!where.running)
			return place_is_inside(state, maps, where.pc, where.sp);
	}
	r = attach_remote_stop(&state->remote, tid);
	if (r == -ESRCH || (r < 0 && (attach_thread_is_over(state->pid, tid) ||
				      attach_thread_is_kernels(state->pid, tid))))
		return 0;
	if (r < 0)
		return r;
	r = place_is_inside(state, maps, regs->rip, regs->rsp);
	attach_remote_release(&state->remote);
	return r;
}

/* The same of all threads. Once the library reports nothing, who is seen outside does not come
 * back. */
static int state_inside(struct attach_state *state)
{
	_cleanup_(freep) pid_t *tid = NULL;
	struct attach_maps maps;
	size_t count = 0;
	int r = 0;

	if (attach_maps_read(state->pid, &maps) < 0)
		return 0;
	attach_threads_read(state->pid, &tid, &count);
	for (size_t i = 0; i < count && r == 0; i++)
		r = thread_is_inside(state, &maps, tid[i]);
	attach_maps_free(&maps);
	return r;
}

static bool still_mapped(pid_t pid, uint64_t entry)
{
	struct attach_maps maps;
	bool mapped;

	if (attach_maps_read(pid, &maps) < 0)
		return false;
	mapped = is_ours(&maps, entry);
	attach_maps_free(&maps);
	return mapped;
}

static int wait_threads_end(pid_t pid, struct remarks *why)
{
	uint64_t end = attach_now_ns() + THREADS_END_MS * NS_PER_MS;

	while (attach_is_live(pid)) {
		if (attach_now_ns() > end)
			return ATTACH_FAILED(why, -EAGAIN,
					     "The library's thread in process %d is still running: "
					     "the library stays loaded but inactive",
					     pid);
		nanosleep(&(struct timespec){ .tv_nsec = NS_PER_MS }, NULL);
	}
	return 0;
}

/* It leaves soon, but not before it gets a processor. */
static int wait_outside(struct attach_state *state, struct remarks *why)
{
	uint64_t end = attach_now_ns() + PATIENCE_MS * NS_PER_MS;
	int r;

	while ((r = state_inside(state)) != 0) {
		if (r == -EPERM)
			return ATTACH_WHY(why, r, TRACE_REFUSED, REMARK_NUMBER(state->pid));
		if (r == -ENOEXEC)
			return ATTACH_WHY(why, r, SHADOW_STACK, REMARK_NUMBER(state->pid));
		/* One that is stuck is let go when this thread of ours ends. */
		if (state->remote.stuck || attach_now_ns() > end)
			return ATTACH_FAILED(
				why, -EAGAIN,
				r > 0 ? "A thread of process %d is inside the library: it "
					"stays loaded"
				      : "A thread of process %d cannot be stopped to see "
					"whether it is inside the library: it stays loaded",
				state->pid);
		nanosleep(&(struct timespec){ .tv_nsec = NS_PER_MS }, NULL);
	}
	return 0;
}

static int work_unload(struct attach_work *work)
{
	struct attach_state state;
	bool ours = true;
	int r;

	r = state_open(&state, work->pid, work->started_ticks, work->why);
	if (r == 0)
		r = wait_threads_end(work->pid, work->why);
	state.handle = work->handle;
	/* An earlier daemon has loaded it. */
	if (r == 0 && !state.handle)
		attach_target_loaded(&state.target, &state.handle, &state.entry, &ours);
	if (r == 0 && (!ours || attach_target_entry(&state.target, state.handle, &state.entry) < 0))
		r = ATTACH_FAILED(work->why, -ENOEXEC,
				  "The library in process %d was not loaded by attaching: it stays "
				  "loaded but inactive",
				  work->pid);
	if (r == 0)
		r = wait_outside(&state, work->why);
	if (r == 0)
		r = state_step(&state, true, PATIENCE_MS, attach_step_unload, NULL);
	if (r == 0 && still_mapped(work->pid, state.entry))
		r = ATTACH_FAILED(work->why, -EIO,
				  "The library stays loaded in process %d: something there still "
				  "refers to it",
				  work->pid);
	state_close(&state);
	return r;
}

int attach_unload(pid_t pid, uint64_t started_ticks, uint64_t handle, struct remarks *why)
{
	struct attach_work work = { .run = work_unload,
				    .pid = pid,
				    .started_ticks = started_ticks,
				    .handle = handle,
				    .why = why };

	remarks_clear(why);
	return work_run(&work);
}

static int tidy(const struct attach_work *work)
{
	struct attach_state state;
	int r;

	r = state_open(&state, work->pid, work->started_ticks, work->why);
	if (r == 0)
		r = attach_residue_find(&state);
	/* A call of the helper's, which holds a lock of the loader. */
	if (r > 0 && state.remote.scratch && state.mark.tid) {
		int end = attach_turn_finish(&state.remote, state.mark.tid);

		r = end < 0 && end != -ESRCH ? end : r;
	}
	/* Its thread may just be closing what was found, and the program opens something there. */
	if (r > 0)
		r = attach_residue_wait(&state) ?: attach_residue_find(&state);
	if (r > 0) {
		r = state_step(&state, state.unload, PATIENCE_UNDO_MS, attach_step_clean, NULL);
		r = r < 0 ? r : 1;
	}
	state_close(&state);
	return r;
}

/* Who made it may be about to end, and still hold a thread; and on a busy host a thread may not get
 * on in time. What is half removed is found again, as its page goes last. */
static int work_tidy(struct attach_work *work)
{
	uint64_t end = attach_now_ns() + (uint64_t)TIDY_NS, wait_ns = TIDY_WAIT_NS;
	int r;

	for (;; wait_ns += wait_ns) {
		struct timespec wait = timespec_of(wait_ns);

		remarks_clear(work->why);
		r = tidy(work);
		if (r >= 0 || r == -ESRCH || attach_now_ns() + wait_ns > end)
			break;
		nanosleep(&wait, NULL);
	}
	return r == -EBUSY ? 0 : r;
}

int attach_tidy(pid_t pid, uint64_t started_ticks, struct remarks *why)
{
	struct attach_work work = {
		.run = work_tidy, .pid = pid, .started_ticks = started_ticks, .why = why
	};

	remarks_clear(why);
	return work_run(&work);
}
