/* internal.h: how the parts of attaching work together.
 *
 * attach.c has the sequence, step.c its steps, check.c the refusals, proc.c reads /proc, target.c
 * knows the layout of the process, thread.c chooses a thread of it, freeze.c stops all of them,
 * remote.c makes that thread do something for us, turn.c has it do its own work as well while that
 * waits, frame.c is its way back if we die, and residue.c removes what is left then.
 */
#ifndef TS_ATTACH_INTERNAL_H
#define TS_ATTACH_INTERNAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>
#include <time.h>

#include "daemon/attach/attach.h"

#define ATTACH_MEMFD_NAME   "tracesmith-library"
#define ATTACH_THREAD_NAME  "tracesmith"
#define ATTACH_SCRATCH_SIZE (256 << 10)
#define ATTACH_CODE_SIZE    4096
#define ATTACH_XSTATE_MAX   (32 << 10)

/* Puts it in the place of what was there, and returns `error`. */
int attach_why(struct remarks *why, int error, Tracesmith__V1__Remark__Reason reason, ...)
	__attribute__((sentinel));
/* The only argument is a sentence. */
int attach_why_text(struct remarks *why, int error, Tracesmith__V1__Remark__Reason reason,
		    const char *format, ...) __attribute__((format(printf, 4, 5)));
#define ATTACH_WHY(why, error, reason, ...)                                                        \
	attach_why(why, error, REASON(reason), ##__VA_ARGS__, NULL)
#define ATTACH_FAILED(why, error, ...)                                                             \
	attach_why_text(why, error, REASON(ATTACH_FAILED), __VA_ARGS__)
#define ATTACH_UNSUPPORTED(why, ...)                                                               \
	attach_why_text(why, -ENOEXEC, REASON(UNSUPPORTED), __VA_ARGS__)
uint64_t attach_now_ns(void);
/* Whether the other end of the leash is open still. */
bool attach_is_wanted(const int *leash);

/* proc.c */
struct attach_status {
	char state;
	char comm[17];
	pid_t tgid;
	pid_t ns_tid; /* its number where it lives */
	pid_t tracer;
	int seccomp;
	bool kernel_thread;
	uid_t uid[4]; /* real, effective, saved, of the file system */
};

struct attach_map {
	uint64_t start, end;
	char *path;
};

/* The executable mappings. */
struct attach_maps {
	struct attach_map *map;
	size_t count;
};

/* What a thread waits for: `call` is -1 outside of system calls. */
struct attach_where {
	bool running;
	long call;
	uint64_t argument[6];
	uint64_t sp, pc;
};

/* -ESRCH: not there. */
int attach_status_read(pid_t pid, pid_t tid, struct attach_status *ret);
/* The kernel refuses to trace such a thread as if it were not allowed. */
bool attach_thread_is_over(pid_t pid, pid_t tid);
/* A kernel thread of the process, such as io_uring's: it never runs the program's code, and cannot
 * be traced. */
bool attach_thread_is_kernels(pid_t pid, pid_t tid);
int attach_where_read(pid_t pid, pid_t tid, struct attach_where *ret);
int attach_maps_read(pid_t pid, struct attach_maps *ret);
void attach_maps_free(struct attach_maps *maps);
const struct attach_map *attach_maps_find(const struct attach_maps *maps, uint64_t address);
const char *attach_map_name(const struct attach_map *map);
bool attach_map_is_ours(const struct attach_map *map);
/* The thread ids, the caller frees *ret. */
int attach_threads_read(pid_t pid, pid_t **ret, size_t *ret_count);
/* Whether one of its threads is the library's. */
bool attach_is_live(pid_t pid);
/* An entry of the auxiliary vector; 0: not there. */
uint64_t attach_auxiliary(pid_t pid, uint64_t key);

/* check.c */
/* Whether `uid` may still trace it. Asked while a thread is stopped, so that the answer stays
 * valid: a program with other privileges may have been started since the last time. */
int attach_check_owner(pid_t pid, uid_t uid, struct remarks *why);
bool attach_ended(pid_t pid);

/* target.c */
struct attach_range {
	uint64_t start, end;
};

#define ATTACH_RANGES_MAX 32

struct attach_target {
	pid_t pid;
	int mem; /* its memory, of this program: fails after an exec */
	uint64_t dlopen, dlclose, dlerror, errno_location;
	uint64_t dlopen_flags;
	uint64_t syscall;  /* a system call instruction in its libc */
	bool returns;	   /* and it is followed by a return */
	uint64_t restorer; /* where its signal handlers return to; 0: unknown */
	uint64_t loader_state, loader_state_size;
	uint64_t link_maps; /* where the pointer to the first is */
	/* Code that we must not interrupt, and the part of it in libc. */
	struct attach_range unsafe[ATTACH_RANGES_MAX];
	size_t unsafe_count;
	struct attach_range libc;
};

#define ATTACH_TARGET_NONE                                                                         \
	{                                                                                          \
		.mem = -1                                                                          \
	}

int attach_target_open(pid_t pid, struct attach_target *ret, struct remarks *why);
void attach_target_close(struct attach_target *target);
/* All `size` bytes; else -EIO, or why writing failed. */
int attach_target_read(const struct attach_target *target, uint64_t address, void *data,
		       size_t size);
int attach_target_write(const struct attach_target *target, uint64_t address, const void *data,
			size_t size);
bool attach_target_unsafe(const struct attach_target *target, uint64_t pc);
enum attach_loader {
	LOADER_FREE,
	LOADER_BUSY,  /* another thread holds a lock of it */
	LOADER_LOADS, /* this thread does */
	LOADER_ANY,
};
enum attach_loader attach_target_loader(const struct attach_target *target, pid_t tid);
#define ATTACH_LOCKS_MAX  8
#define ATTACH_OWNER_NONE (1u << 22) /* the number of no thread */
#define ATTACH_LOCK_OWNER 8	     /* where that stands in a lock */
/* The locks of the loader that the thread with this number, as the process has it, holds; more than
 * ATTACH_LOCKS_MAX: not all are written. */
size_t attach_target_held(const struct attach_target *target, uint32_t owner,
			  uint64_t ret[ATTACH_LOCKS_MAX]);
/* For the loaded object with this handle (link map): the address of our entry; -ENOENT: not
 * ours. */
int attach_target_entry(const struct attach_target *target, uint64_t handle, uint64_t *ret);
/* The handle of a copy of the library in the process; -ENOENT. */
int attach_target_loaded(const struct attach_target *target, uint64_t *ret_handle,
			 uint64_t *ret_entry, bool *ret_ours);

/* remote.c */
struct attach_remote {
	const struct attach_target *target;
	pid_t tid;
	struct user_regs_struct saved;
	uint64_t mask;
	uint8_t *xstate; /* ATTACH_XSTATE_MAX */
	size_t xstate_size;
	uint64_t code;	  /* an executable page that we created; 0: none yet */
	uint64_t scratch; /* ATTACH_SCRATCH_SIZE of memory; 0: none yet */
	uint64_t stopped_at_ns, stopped_ns;
	uint64_t errno_at; /* 0: unknown */
	int error;	   /* the thread's own errno, if known */
	int nice;	   /* its value before */
	bool hurries;
	bool turns;   /* its call waits with a lock of the loader: for short times only */
	bool once;    /* its call is not made again, so a lock is waited for longer */
	int fault;    /* the signal that ended a call */
	bool settled; /* in a stop from which the kernel would restart a system call */
	bool gone;    /* the thread */
	bool stuck;   /* could not be stopped: released when our own thread ends */
};

/* For the tracing thread: a timer of its own, to be deleted at the end. */
int attach_remote_ticks(timer_t *ret);
/* -ESRCH: gone; -EPERM; -EAGAIN: cannot be used now. On failure it is released. */
int attach_remote_stop(struct attach_remote *remote, pid_t tid);
/* Raises its priority, or restores it. Threads it starts in between would inherit that. */
void attach_remote_hurry(struct attach_remote *remote, bool hurry);
/* *ret is a negative errno where the call failed. */
int attach_remote_syscall(struct attach_remote *remote, long number, const uint64_t argument[6],
			  int64_t *ret);
/* Needs code and scratch. -ETIMEDOUT, -EBUSY (it waits for a lock), -EFAULT: it did not return;
 * only release it. -EINPROGRESS: it waits for a lock and holds one of the loader's. Then it must go
 * on until it returns. */
int attach_remote_call(struct attach_remote *remote, uint64_t function, uint64_t first,
		       uint64_t second, uint64_t *ret);
int attach_remote_go_on(struct attach_remote *remote, uint64_t *ret);
/* Where the frame with the way back of a call is, and what it is called with. */
int attach_remote_frame(const struct attach_remote *remote, uint64_t *ret_sp);
/* For turn.c: a stop of the thread, -ETIMEDOUT; has it run on; notes what it has, to restore it. */
int attach_remote_wait(struct attach_remote *remote, uint64_t limit_ns, int *ret_status);
int attach_remote_resume(struct attach_remote *remote, int how, int signal);
int attach_remote_save(struct attach_remote *remote);
int attach_remote_release(struct attach_remote *remote);
/* Writes the few instructions that calls return to into the page `code`. */
int attach_remote_code(struct attach_remote *remote);

/* turn.c */
/* As attach_remote_call(), but never -EINPROGRESS: the thread gets on with its own work meanwhile.
 */
int attach_turn_call(struct attach_remote *remote, uint64_t function, uint64_t first,
		     uint64_t second, uint64_t *ret);
/* Ends a call that was set aside when its tracer was killed. 0: also where there is none; -ESRCH:
 * its thread has ended; -EAGAIN. */
int attach_turn_finish(struct attach_remote *remote, pid_t tid);

/* frame.c */
/* Where a stack with the given `top` must be when a function is called that returns through
 * rt_sigreturn to what `remote` saved; writes what is needed there. */
int attach_frame_write(const struct attach_remote *remote, uint64_t top, uint64_t return_to,
		       uint64_t *ret_sp);

/* thread.c */
/* Stops a usable thread, for system calls only or to call functions that load something; tries for
 * `patience_ms`. -EAGAIN: there was none. */
int attach_thread_stop(struct attach_remote *remote, pid_t pid, bool loads,
		       unsigned int patience_ms, struct remarks *why);
/* The kernel ends some calls with EINTR whenever they are interrupted. Makes it restart them,
 * unless a handler of the program runs. */
void attach_thread_again(struct user_regs_struct *regs);
/* Whether a stopped thread can do something for us now. */
bool attach_thread_usable(const struct attach_remote *remote, enum attach_loader loader_max);
/* Whether it is in a call that could end half done, or that cannot be stopped now. */
bool attach_thread_half_done(pid_t pid, pid_t tid, struct attach_where *ret);
/* A thread in such a call. */
struct attach_obstacle {
	pid_t tid; /* 0: none was found */
	struct attach_where where;
	uint64_t since_ns; /* it has been in it whenever it was looked at */
};
/* Looks for one; that of before, if it is still there. Returns whether there is one. */
bool attach_obstacle_look(pid_t pid, struct attach_obstacle *obstacle);
/* It is not just passing: names it. -EAGAIN if so, 0 if not. */
int attach_obstacle_why(pid_t pid, const struct attach_obstacle *obstacle, struct remarks *why);

/* Stands in the scratch memory, for whoever finds that. */
struct attach_mark {
	uint64_t magic;
	uint64_t helper_ticks; /* when the helper started */
	int32_t helper, tid;   /* the thread that runs on this memory, or was the last one */
	uint64_t loads;	       /* it was to load the library */
};

/* What the process has because of us, and the outcome. */
struct attach_state {
	struct attach_target target;
	struct attach_remote remote;
	pid_t pid;
	struct remarks *why;
	int memfd, sockets[2]; /* in the process, -1: none; [1] is the library's */
	struct attach_file {
		uint64_t device, inode; /* 0: unknown */
	} made[3];			/* what these are */
	uint64_t handle, entry;
	uint64_t longest_ns;
	uint32_t stops;
	bool late;   /* a call took too long and was abandoned before it did anything */
	bool locked; /* the same, as it waited for a lock */
	bool unload; /* the library is there, but did not start */
	bool lost;   /* a thread could not be stopped where it was: it still needs our memory */
	const struct attach_request *request; /* NULL: none */
	struct attach_mark mark;
};

/* step.c; each is a step for attach.c to do in one stop. Negative errno with a sentence. */
int attach_state_ended(const struct attach_state *state);
int attach_step_prepare(struct attach_state *state, const void *load); /* bool: a memfd too */
int attach_step_load(struct attach_state *state, const void *wanted);  /* struct ts_settings */
int attach_step_clean(struct attach_state *state, const void *none);
int attach_step_unload(struct attach_state *state, const void *none);
/* Says whose the scratch memory is, where it can be written. */
void attach_step_mark(struct attach_state *state);
/* What stands in scratch memory at that place; zero is what does not yet. */
struct attach_scratch {
	struct attach_mark mark;
	struct ts_attach given; /* to the library, which has set its socket to -1 if it took it */
	int sockets[2];
};
int attach_step_read(const struct attach_state *state, uint64_t scratch,
		     struct attach_scratch *ret);

/* residue.c */
/* Where both of our mappings are unless the program has something there: by that a later daemon
 * knows them. The page of code is the first to come and the last to go. */
#define ATTACH_CODE_AT	  ATTACH_PLACE
#define ATTACH_SCRATCH_AT (ATTACH_PLACE + (64 << 10))
/* Fills in what a helper that was killed has left. 1: something; 0: nothing; -EBUSY: who made it
 * lives. */
int attach_residue_find(struct attach_state *state);
/* Until its thread does not run on it any more. */
int attach_residue_wait(struct attach_state *state);

#endif
