/* Helper: one request, from its frame to the last reply. It gives up its rights before it looks at
 * the request, and all calls but those of a computation before it runs it. A daemon of root may
 * have its database in another user's directory. */
#include "daemon/query/helper.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/store/query/query.h"
#include "daemon/helper/confine.h"
#include "daemon/helper/spawn.h"
#include "daemon/limits.h"
#include "daemon/query/scratch.h"
#include "proto/frame.h"

/* Descriptors: three standard ones, the zygote's socket, ours, the stream, the scratch file, and
 * three of the database. */
#define FILES 16

/* What SQLite and libc need for a computation over files that are open, and for the replies. */
static const uint16_t calls[] = {
	SYS_read,      SYS_pread64,    SYS_pwrite64,	    SYS_sendto,	      SYS_fcntl,
	SYS_fstat,     SYS_newfstatat, SYS_lseek,	    SYS_close,	      SYS_mmap,
	SYS_munmap,    SYS_mremap,     SYS_mprotect,	    SYS_madvise,      SYS_brk,
	SYS_futex,     SYS_getpid,     SYS_clock_gettime,   SYS_gettimeofday, SYS_clock_nanosleep,
	SYS_nanosleep, SYS_getrandom,  SYS_rt_sigprocmask,  SYS_rt_sigreturn, SYS_sched_yield,
	SYS_exit,      SYS_exit_group, SYS_restart_syscall,
};

/* There is one request in a process. */
static int stream = -1;

static int send_all(const uint8_t *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t r = send(stream, data + done, size - done, MSG_NOSIGNAL);

		if (r < 0 && errno != EINTR)
			return -ECANCELED; /* the daemon has hung up */
		done += r > 0 ? (size_t)r : 0;
	}
	return 0;
}

static int on_send(void *data, const Tracesmith__V1__Reply *reply)
{
	_cleanup_(freep) uint8_t *bytes = NULL;
	size_t size;
	int r = ts_frame_pack(&reply->base, TS_FRAME_REPLY_MAX, &bytes, &size);

	return r < 0 ? r : send_all(bytes, size);
}

/* It would be killed. */
static bool on_cancelled(void *data)
{
	return false;
}

static int on_opened(void *data)
{
	int r = confine_rights();

	tzset(); /* 'localtime' asks for nothing more */
	return r < 0 ? r : confine_calls(calls, ARRAY_SIZE(calls));
}

static Tracesmith__V1__Request *read_request(void)
{
	struct ts_frame_reader reader = { .max = TS_FRAME_REQUEST_MAX };
	Tracesmith__V1__Request *request = NULL;
	const uint8_t *data;
	size_t size;
	int r;

	while ((r = ts_frame_reader_next(&reader, &data, &size)) == 0) {
		void *room = ts_frame_reader_room(&reader, &size);
		ssize_t got = room ? read(stream, room, size) : -1;

		if (got <= 0)
			break;
		ts_frame_reader_fill(&reader, (size_t)got);
	}
	if (r > 0)
		request = tracesmith__v1__request__unpack(NULL, size, data);
	ts_frame_reader_done(&reader);
	return request;
}

/* The directory of the database has room for what a query puts aside. */
static int open_scratch(const char *database)
{
	_cleanup_(freep) char *directory = strdup(database);
	char *slash = directory ? strrchr(directory, '/') : NULL;

	if (!slash)
		return -EINVAL;
	*slash = '\0';
	return scratch_open(directory, LIMIT_QUERY_SCRATCH);
}

/* The database that a daemon of root has may be in another user's directory: until it is open it
 * keeps the right to read there. */
static int confine(const char *database)
{
	const struct confine_bounds bounds = {
		.memory_bytes = LIMIT_QUERY_MEMORY,
		.file_bytes = LIMIT_QUERY_SCRATCH,
		.cpu_s = LIMIT_QUERY_MS / 1000 + 1,
		.files = FILES,
	};
	int r = open_scratch(database);

	if (r == 0)
		r = confine_rights_but(geteuid() == 0 ? 1ull << CAP_DAC_READ_SEARCH : 0);
	if (r == 0)
		r = confine_resources(&bounds);
	return r < 0 ? r : confine_opening();
}

static int read_order(int socket, struct query_order *ret)
{
	int fd[SPAWN_FDS];
	uint32_t fds;
	ssize_t n = spawn_receive(socket, ret, sizeof(*ret), 0, fd, &fds);

	if (n != sizeof(*ret) || fds != 1)
		return -EPROTO;
	stream = fd[0];
	return 0;
}

void query_helper_run(int socket)
{
	static struct query_order order;
	struct query_job job = {
		.database = order.database,
		.boot_id = order.boot_id,
		.memory_mib = LIMIT_QUERY_MEMORY >> 20,
		.scratch_mib = LIMIT_QUERY_SCRATCH >> 20,
		.send = on_send,
		.cancelled = on_cancelled,
		.opened = on_opened,
	};
	Tracesmith__V1__Request *request;

	signal(SIGXFSZ, SIG_IGN); /* an error of the write is enough */
	if (read_order(socket, &order) < 0 || confine(order.database) < 0)
		return;
	job.now_ns = order.now_ns;
	job.suspended_ns = order.suspended_ns;
	job.older_ns = order.older_ns;
	job.own = order.own;
	job.owner = order.owner;
	job.unlooked = order.unlooked;
	if (order.watched[0])
		job.watched = order.watched;
	request = read_request();
	if (!request)
		return;
	job.request = request;
	query_run(&job);
	/* Nothing of it needs to be tidied up. */
	_exit(EXIT_SUCCESS);
}
