/* attach_step: what a stopped thread does in each step. A step stops at the first failure; struct
 * attach_state says what the process has by then. */
#include <assert.h>
#include <errno.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/array.h"
#include "daemon/attach/internal.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8u
#endif

#define ERROR_TEXT 160
#define MARK_MAGIC 0x6b72616d68746d73ull /* a mark of ours */
/* Layout of the scratch memory, below the stack that grows down from its end. */
#define SCRATCH_NAME	0
#define SCRATCH_SOCKETS 64
#define SCRATCH_ATTACH	128
#define SCRATCH_MARK	2048

static_assert(SCRATCH_ATTACH + sizeof(struct ts_attach) <= SCRATCH_MARK, "both have room");

int attach_state_ended(const struct attach_state *state)
{
	return ATTACH_WHY(state->why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(state->pid));
}

/* A system call of the process; its failure becomes a sentence. */
static int state_syscall(struct attach_state *state, const char *name, long number,
			 const uint64_t argument[6], int64_t *ret)
{
	int r = attach_remote_syscall(&state->remote, number, argument, ret);

	if (r < 0)
		return ATTACH_FAILED(state->why, r == -ESRCH ? r : -EIO,
				     "Process %d did not return from %s()", state->pid, name);
	if (*ret >= 0 || *ret < -4095)
		return 0;
	return ATTACH_FAILED(state->why, -EIO, "Cannot attach to process %d: %s() failed: %s%s",
			     state->pid, name, strerror((int)-*ret),
			     *ret == -EPERM || *ret == -ENOSYS || *ret == -EACCES
				     ? " (its seccomp filter or security policy forbids it)"
				     : "");
}

static int state_write(const struct attach_state *state, uint64_t address, const void *data,
		       size_t size)
{
	int r = attach_target_write(&state->target, address, data, size);

	if (r == 0)
		return 0;
	if (r == -ESRCH || attach_ended(state->pid))
		return attach_state_ended(state);
	return ATTACH_FAILED(state->why, -EIO, "Cannot write to the memory of process %d: %s%s",
			     state->pid, strerror(-r),
			     r == -EPERM || r == -ENOSYS
				     ? " (tracesmithd's seccomp filter or the security policy "
				       "forbids it)"
				     : "");
}

/* At that place, or anywhere if it is taken. */
static int state_map(struct attach_state *state, uint64_t place, size_t size, int protection,
		     uint64_t *ret)
{
	uint64_t argument[6] = { place,
				 size,
				 (uint64_t)protection,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
				 -1ull,
				 0 };
	int64_t address = 0;
	int r = attach_remote_syscall(&state->remote, SYS_mmap, argument, &address);

	if (r < 0 || address < 0) {
		argument[0] = 0;
		argument[3] = MAP_PRIVATE | MAP_ANONYMOUS;
		r = state_syscall(state, "mmap", SYS_mmap, argument, &address);
	}
	if (r == 0)
		*ret = (uint64_t)address;
	return r;
}

static int step_memory(struct attach_state *state)
{
	int r = state_map(state, ATTACH_CODE_AT, ATTACH_CODE_SIZE, PROT_READ | PROT_EXEC,
			  &state->remote.code);

	if (r == 0)
		r = state_map(state, ATTACH_SCRATCH_AT, ATTACH_SCRATCH_SIZE, PROT_READ | PROT_WRITE,
			      &state->remote.scratch);
	if (r < 0)
		return r;
	attach_step_mark(state);
	r = attach_remote_code(&state->remote);
	return r < 0 ? ATTACH_FAILED(state->why, -EIO, "Cannot write to the memory of process %d",
				     state->pid)
		     : 0;
}

void attach_step_mark(struct attach_state *state)
{
	if (!state->remote.scratch)
		return;
	state->mark.magic = MARK_MAGIC;
	state->mark.tid = state->remote.tid;
	attach_target_write(&state->target, state->remote.scratch + SCRATCH_MARK, &state->mark,
			    sizeof(state->mark));
}

int attach_step_read(const struct attach_state *state, uint64_t scratch, struct attach_scratch *ret)
{
	const struct attach_target *target = &state->target;
	struct attach_scratch found;

	if (attach_target_read(target, scratch + SCRATCH_MARK, &found.mark, sizeof(found.mark)) ||
	    attach_target_read(target, scratch + SCRATCH_ATTACH, &found.given,
			       sizeof(found.given)) ||
	    attach_target_read(target, scratch + SCRATCH_SOCKETS, found.sockets,
			       sizeof(found.sockets)))
		return -EIO;
	if (found.mark.magic != MARK_MAGIC)
		found.mark = (struct attach_mark){ 0 };
	*ret = found;
	return 0;
}

static int step_memfd(struct attach_state *state)
{
	const uint64_t flags[] = { MFD_CLOEXEC | MFD_NOEXEC_SEAL, MFD_CLOEXEC | MFD_ALLOW_SEALING };
	uint64_t scratch = state->remote.scratch;
	int64_t fd = -1;
	int r;

	r = state_write(state, scratch + SCRATCH_NAME, ATTACH_MEMFD_NAME,
			sizeof(ATTACH_MEMFD_NAME));
	if (r < 0)
		return r;
	for (int i = 0; fd < 0 && i < 2; i++) /* before Linux 6.3 there is only the second way */
		r = state_syscall(state, "memfd_create", SYS_memfd_create,
				  (const uint64_t[6]){ scratch + SCRATCH_NAME, flags[i] }, &fd);
	if (r == 0)
		state->memfd = (int)fd;
	return r;
}

static int step_sockets(struct attach_state *state)
{
	const uint64_t argument[6] = { AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
				       state->remote.scratch + SCRATCH_SOCKETS };
	int64_t result;
	int r = state_syscall(state, "socketpair", SYS_socketpair, argument, &result);

	if (r < 0)
		return r;
	return attach_target_read(&state->target, argument[3], state->sockets,
				  sizeof(state->sockets))
		       ? attach_state_ended(state)
		       : 0;
}

/* Of the stopped thread. */
static bool file_of(const struct attach_state *state, int number, struct attach_file *ret)
{
	struct stat file;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", state->pid, state->remote.tid,
		 number);
	if (number < 0 || stat(path, &file) < 0)
		return false;
	*ret = (struct attach_file){ file.st_dev, file.st_ino };
	return true;
}

int attach_step_prepare(struct attach_state *state, const void *data)
{
	const bool *load = data;
	int r = step_memory(state);

	if (r == 0 && *load)
		r = step_memfd(state);
	if (r == 0)
		r = step_sockets(state);
	file_of(state, state->memfd, &state->made[0]);
	file_of(state, state->sockets[0], &state->made[1]);
	file_of(state, state->sockets[1], &state->made[2]);
	return r;
}

/* A thread may have descriptors of its own, with other files under these numbers. */
static bool is_made(const struct attach_state *state, int number, const struct attach_file *made)
{
	struct attach_file now;

	return number >= 0 &&
	       (!made->inode || (file_of(state, number, &now) && now.device == made->device &&
				 now.inode == made->inode));
}

static bool step_is_late(int r)
{
	return r == -ETIMEDOUT || r == -EBUSY;
}

/* Removes what is left; continues after a failure, since nothing else can be done. */
int attach_step_clean(struct attach_state *state, const void *data)
{
	struct attach_remote *remote = &state->remote;
	const int fds[] = { state->memfd, state->sockets[0], state->sockets[1] };
	uint64_t closed;
	int64_t result;
	int r = 0;

	if (state->unload && !attach_is_live(state->pid)) {
		r = attach_turn_call(remote, state->target.dlclose, state->handle, 0, &closed);
		state->late = step_is_late(r);
		if (state->late)
			return r; /* all is there still, for another try */
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(fds); i++)
		if (is_made(state, fds[i], &state->made[i]))
			r = attach_remote_syscall(remote, SYS_close,
						  (const uint64_t[6]){ (uint64_t)fds[i] }, &result);
	state->memfd = state->sockets[0] = state->sockets[1] = -1;
	if (r == 0 && remote->scratch)
		r = attach_remote_syscall(
			remote, SYS_munmap,
			(const uint64_t[6]){ remote->scratch, ATTACH_SCRATCH_SIZE }, &result);
	remote->scratch = 0;
	if (r == 0 && remote->code)
		r = attach_remote_syscall(remote, SYS_munmap,
					  (const uint64_t[6]){ remote->code, ATTACH_CODE_SIZE },
					  &result);
	remote->code = 0;
	return r;
}

/* Calls a function of the process; a call that does not return becomes a sentence. */
static int state_call(struct attach_state *state, const char *name, uint64_t function,
		      uint64_t first, uint64_t second, uint64_t *ret)
{
	int r = attach_turn_call(&state->remote, function, first, second, ret);

	state->locked = r == -EBUSY;
	state->late = step_is_late(r);
	if (r == 0)
		return 0;
	if (r == -ESRCH)
		return attach_state_ended(state);
	if (r == -EFAULT)
		return ATTACH_FAILED(state->why, -EIO, "%s() in process %d got signal %d (%s)",
				     name, state->pid, state->remote.fault,
				     strsignal(state->remote.fault));
	return ATTACH_FAILED(state->why, state->late ? -EAGAIN : r,
			     "%s() in process %d did not return and was undone: %s; try again",
			     name, state->pid,
			     state->locked ? "a lock was held there" : "it takes too long");
}

static int state_dlerror(struct attach_state *state)
{
	char text[ERROR_TEXT] = "no reason given";
	uint64_t address = 0;
	ssize_t n;

	if (state->target.dlerror &&
	    state_call(state, "dlerror", state->target.dlerror, 0, 0, &address) < 0)
		return -EIO;
	if (address) {
		n = pread(state->target.mem, text, sizeof(text) - 1, (off_t)address);
		text[n > 0 ? n : 0] = '\0';
	}
	for (char *p = text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = ' ';
	return ATTACH_FAILED(state->why, -EIO, "Process %d could not load the library: %s",
			     state->pid, text);
}

static int step_dlopen(struct attach_state *state)
{
	uint64_t name = state->remote.scratch + SCRATCH_NAME;
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", state->memfd);
	r = state_write(state, name, path, sizeof(path));
	if (r < 0)
		return r;
	state->mark.loads = true;
	attach_step_mark(state);
	r = state_call(state, "dlopen", state->target.dlopen, name, state->target.dlopen_flags,
		       &state->handle);
	if (r < 0)
		return r;
	if (!state->handle)
		return state_dlerror(state);
	if (attach_target_entry(&state->target, state->handle, &state->entry) < 0)
		return ATTACH_FAILED(state->why, -EIO, "The library has no function '%s'",
				     TS_INJECT_ATTACH_ENTRY);
	return 0;
}

static int step_entry(struct attach_state *state, const struct ts_settings *wanted)
{
	struct ts_attach attach = { .size = sizeof(attach),
				    .socket = state->sockets[1],
				    .wanted = *wanted };
	uint64_t address = state->remote.scratch + SCRATCH_ATTACH, result;
	int r;

	r = state_write(state, address, &attach, sizeof(attach));
	if (r < 0)
		return r;
	attach_remote_hurry(&state->remote, false);
	state->remote.once = true;
	r = state_call(state, TS_INJECT_ATTACH_ENTRY, state->entry, address, 0, &result);
	state->remote.once = false;
	if (state->late)
		r = -EIO;
	state->late = false; /* how far it got is unknown */
	if (r < 0)
		return r;
	if ((int)result == -EALREADY)
		return ATTACH_WHY(state->why, -EALREADY, OTHER_DAEMON, REMARK_NUMBER(state->pid));
	if ((int)result < 0)
		return ATTACH_FAILED(state->why, -EIO,
				     "The library could not start in process %d: %s", state->pid,
				     strerror(-(int)result));
	state->sockets[1] = -1; /* the library's now */
	return 0;
}

/* The thread may be about to look at its errno. */
static int state_errno(struct attach_state *state)
{
	struct attach_remote *remote = &state->remote;
	uint64_t where;
	int r = state_call(state, "__errno_location", state->target.errno_location, 0, 0, &where);

	if (r == 0 &&
	    attach_target_read(&state->target, where, &remote->error, sizeof(remote->error)) == 0)
		remote->errno_at = where;
	return r;
}

static void state_errno_back(const struct attach_state *state)
{
	const struct attach_remote *remote = &state->remote;

	if (remote->errno_at && !remote->gone)
		attach_target_write(&state->target, remote->errno_at, &remote->error,
				    sizeof(remote->error));
}

int attach_step_load(struct attach_state *state, const void *data)
{
	bool load = !state->entry;
	int r = state_errno(state);

	if (r < 0)
		return r;
	/* What the numbers name in this thread would be given away. */
	if (!is_made(state, state->sockets[1], &state->made[2]) ||
	    (state->memfd >= 0 && !is_made(state, state->memfd, &state->made[0])))
		return ATTACH_FAILED(state->why, -EAGAIN,
				     "Cannot take over a descriptor of process %d: its threads do "
				     "not share them",
				     state->pid);
	if (load)
		r = step_dlopen(state);
	/* That may have taken long. */
	if (r == 0 && state->request && !attach_is_wanted(state->request->leash))
		r = ATTACH_FAILED(state->why, -ECANCELED, "Process %d is not attached to any more",
				  state->pid);
	if (r == 0)
		r = step_entry(state, data);
	state->unload = r < 0 && load && state->handle;
	state_errno_back(state);
	return r;
}

int attach_step_unload(struct attach_state *state, const void *data)
{
	uint64_t result;
	int r;

	r = step_memory(state);
	if (r == 0)
		r = state_errno(state);
	if (r < 0)
		return r;
	r = state_call(state, "dlclose", state->target.dlclose, state->handle, 0, &result);
	if (r == 0 && (int)result)
		r = ATTACH_FAILED(state->why, -EIO, "Process %d could not unload the library",
				  state->pid);
	state_errno_back(state);
	if (!state->remote.gone && !state->remote.fault)
		attach_step_clean(state, NULL);
	return r;
}
