/* attach_residue: what an attachment has left because its helper was killed together with the
 * daemon.
 *
 * All of it hangs on the page of code, whose address tells that it is ours. The numbers of the
 * sockets stand in the scratch memory, where the kernel itself wrote them, and whether the library
 * has taken one; the memfd is known by its name. The thread that worked for us goes back to the
 * program on its own, in its own time: its memory is left alone until then. The process may have
 * changed any of this, which then hurts itself only. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/attach/internal.h"
#include "daemon/proc/procfs.h"

#define PATIENCE_NS (10 * (uint64_t)NS_PER_S)
#define STEP_MS	    5

static bool is_traced(pid_t pid)
{
	_cleanup_(freep) pid_t *tid = NULL;
	struct attach_status status;
	bool traced = false;
	size_t count = 0;

	attach_threads_read(pid, &tid, &count);
	for (size_t i = 0; i < count; i++)
		traced |= attach_status_read(pid, tid[i], &status) == 0 && status.tracer;
	return traced;
}

/* Without a mark it was about to write one, and then held a thread. */
static bool is_owned(const struct attach_state *state, const struct attach_mark *mark)
{
	struct attach_status status;
	uint64_t ticks;

	if (!mark->helper)
		return is_traced(state->pid);
	return attach_status_read(mark->helper, 0, &status) == 0 && !strchr("ZX", status.state) &&
	       procfs_started_ticks((uint32_t)mark->helper, &ticks) == 0 &&
	       ticks == mark->helper_ticks;
}

static bool has_page(pid_t pid)
{
	const struct attach_map *map;
	struct attach_maps maps;
	bool found;

	if (attach_maps_read(pid, &maps) < 0)
		return false;
	map = attach_maps_find(&maps, ATTACH_CODE_AT);
	found = map && map->start == ATTACH_CODE_AT &&
		map->end == ATTACH_CODE_AT + ATTACH_CODE_SIZE && !map->path[0];
	attach_maps_free(&maps);
	return found;
}

/* It made a pair of them itself. */
static bool is_of_pair(int pidfd, pid_t pid, int number)
{
	_cleanup_(closep) int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	struct ucred peer = { 0 };
	socklen_t type_size = sizeof(int), peer_size = sizeof(peer);
	int type = 0;

	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 &&
	       type == SOCK_SEQPACKET &&
	       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) == 0 && peer.pid == pid;
}

static int find_memfd(pid_t pid)
{
	static const char name[] = "/memfd:" ATTACH_MEMFD_NAME " (deleted)";
	_cleanup_(closedirp) DIR *dir = NULL;
	struct dirent *entry;
	char path[64], text[sizeof(name)];

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (readlinkat(dirfd(dir), entry->d_name, text, sizeof(text)) ==
			    (ssize_t)strlen(name) &&
		    !memcmp(text, name, strlen(name)))
			return atoi(entry->d_name);
	return -1;
}

int attach_residue_find(struct attach_state *state)
{
	_cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, state->pid, 0);
	struct attach_scratch found = { .sockets = { -1, -1 } };
	const struct attach_mark *mark = &found.mark;
	bool scratch, taken, ours = false;

	state->sockets[0] = state->sockets[1] = -1;
	state->unload = false;
	if (!has_page(state->pid))
		return 0;
	scratch = attach_step_read(state, ATTACH_SCRATCH_AT, &found) == 0;
	if (is_owned(state, mark))
		return -EBUSY;
	state->remote.code = ATTACH_CODE_AT;
	state->remote.scratch = scratch ? ATTACH_SCRATCH_AT : 0;
	state->memfd = find_memfd(state->pid);
	/* One from before, perhaps of a former version, may not say that it took it. */
	taken = found.given.size && (found.given.socket < 0 || !mark->loads);
	for (int i = 0; i < 2 && found.sockets[0] != found.sockets[1]; i++)
		if (!(i && taken) && is_of_pair(pidfd, state->pid, found.sockets[i]))
			state->sockets[i] = found.sockets[i];
	state->unload =
		mark->loads && !taken &&
		attach_target_loaded(&state->target, &state->handle, &state->entry, &ours) == 0 &&
		ours;
	state->mark.tid = mark->tid;
	state->mark.loads = mark->loads;
	return 1;
}

static bool is_inside(const struct attach_state *state, uint64_t sp, uint64_t pc)
{
	return (sp >= ATTACH_SCRATCH_AT && sp <= ATTACH_SCRATCH_AT + ATTACH_SCRATCH_SIZE) ||
	       (pc >= ATTACH_CODE_AT && pc < ATTACH_CODE_AT + ATTACH_CODE_SIZE);
}

/* -ESRCH: it has ended. One that waits tells where by itself. */
static int look(struct attach_state *state, pid_t tid, bool *ret_inside)
{
	struct attach_remote *remote = &state->remote;
	struct attach_where where;
	int r;

	if (attach_where_read(state->pid, tid, &where) < 0)
		return -ESRCH;
	if (!where.running) {
		*ret_inside = is_inside(state, where.sp, where.pc);
		return 0;
	}
	r = attach_remote_stop(remote, tid);
	if (r < 0)
		return r;
	*ret_inside = is_inside(state, remote->saved.rsp, remote->saved.rip);
	return attach_remote_release(remote);
}

int attach_residue_wait(struct attach_state *state)
{
	const struct timespec step = { .tv_nsec = STEP_MS * NS_PER_MS };
	uint64_t end = attach_now_ns() + PATIENCE_NS;
	pid_t tid = state->mark.tid;

	while (tid) {
		bool inside = true;
		int r = look(state, tid, &inside);

		if (r == -ESRCH || (r == 0 && !inside))
			break;
		if (state->remote.stuck || attach_now_ns() > end)
			return ATTACH_FAILED(state->why, -EAGAIN,
					     "A thread of process %d does not come back from what "
					     "an earlier tracesmithd had it do",
					     state->pid);
		nanosleep(&step, NULL);
	}
	return 0;
}
