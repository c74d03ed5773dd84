/* Hold: a process that lets nobody look into it. A thread of it reads a page of a file system whose
 * server, ours, does not answer, and holds the lock of its memory meanwhile; another one waits to
 * write. Whoever asks for the lock now waits as well, until standard input ends.
 *
 * With --silent it holds nothing: the file is mapped executable, and closing it is not answered.
 * With --breakpoint it does not hold it before its code of FILE changes, all of which it maps: in
 * the middle of putting probes on.
 *
 * Usage: hold [--silent|--breakpoint] DIRECTORY INJECT-SOCKET|- [FILE [COUNT]]. First it maps the
 * first page of FILE, COUNT times, or with 0 all of it. Prints "held" when it holds the lock and,
 * with a socket, has said hello. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/hello.h"

#define PAGE	  4096
#define SKIP	  77
#define NAME	  "page"
#define FILE_ID	  2
#define WRITE_MS  20
#define LONGEST_S 300

static char *page; /* of the file */
static _Atomic int writer, held;
static int silent, breakpoint;
static char *code, *original; /* with --breakpoint: mapped, and what the file has */
static size_t code_size;

static void fail(const char *what)
{
	perror(what);
	_exit(errno == ENOENT || errno == EPERM || errno == ENODEV ? SKIP : 1);
}

static struct fuse_attr attributes(uint64_t node)
{
	struct fuse_attr attr = { .ino = node, .nlink = 1, .blksize = PAGE };

	attr.mode = node == FILE_ID ? S_IFREG | 0555 : S_IFDIR | 0555;
	attr.size = node == FILE_ID ? PAGE : 0;
	return attr;
}

static void answer(int fd, uint64_t unique, int error, const void *data, size_t size)
{
	char message[sizeof(struct fuse_out_header) + 256];
	struct fuse_out_header head = { (uint32_t)(sizeof(head) + size), error, unique };

	memcpy(message, &head, sizeof(head));
	if (size)
		memcpy(message + sizeof(head), data, size);
	if (write(fd, message, head.len) < 0 && errno != ENOENT)
		fail("write");
}

static void serve_one(int fd, const struct fuse_in_header *in, int read_seen)
{
	const struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31 };
	const struct fuse_entry_out entry = { .nodeid = FILE_ID, .attr = attributes(FILE_ID) };
	const struct fuse_attr_out attr = { .attr = attributes(in->nodeid) };
	const struct fuse_open_out open = { 0 };

	if (in->opcode == FUSE_INIT)
		answer(fd, in->unique, 0, &init, sizeof(init));
	else if (in->opcode == FUSE_LOOKUP)
		answer(fd, in->unique, 0, &entry, sizeof(entry));
	else if (in->opcode == FUSE_GETATTR)
		answer(fd, in->unique, 0, &attr, sizeof(attr));
	else if (in->opcode == FUSE_OPEN)
		answer(fd, in->unique, 0, &open, sizeof(open));
	else if (in->opcode == FUSE_READ)
		(void)!write(read_seen, "", 1); /* and no answer */
	else if (in->opcode == FUSE_FLUSH && silent)
		; /* who closes it waits */
	else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_INTERRUPT)
		answer(fd, in->unique, -ENOSYS, NULL, 0);
}

static void serve(int fd, int read_seen)
{
	static char message[(1 << 20) + PAGE];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(LONGEST_S); /* ps waits for it, too */
	for (;;) {
		ssize_t n = read(fd, message, sizeof(message));

		if (n < 0 && errno == ENODEV)
			_exit(0);
		if (n > 0)
			serve_one(fd, (struct fuse_in_header *)message, read_seen);
	}
}

/* Page faults of others' making keep the lock while they wait: this one is in access_remote_vm().
 */
static void *reader_main(void *data)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	char byte;

	while (breakpoint && memcmp(code, original, code_size) == 0)
		;
	(void)!pread(fd, &byte, 1, (off_t)(uintptr_t)page);
	close(fd);
	return NULL;
}

static void *writer_main(void *data)
{
	while (!held)
		usleep(WRITE_MS * 1000);
	writer = (int)syscall(SYS_gettid);
	mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return NULL;
}

/* Only what needs no lock of ours. */
static int writer_waits(void)
{
	char path[64], text[512] = "";
	int fd;

	if (!writer)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", writer);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		fail("stat");
	close(fd);
	return strrchr(text, ')')[2] == 'D';
}

static void map_many(const char *path, long count)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const size_t size = count ? PAGE : (size_t)lseek(fd, 0, SEEK_END);

	/* Neighbours that are not one mapping. */
	for (long i = 0; i < count || i == 0; i++) {
		code = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		if (code == MAP_FAILED)
			fail("mmap");
	}
	code_size = size;
	original = malloc(size);
	if (!original || pread(fd, original, size, 0) != (ssize_t)size)
		fail("read");
	close(fd);
}

static int hello_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		fail("connect");
	return fd;
}

static void hold_lock(int seen, pthread_t *reader, pthread_t *waiter)
{
	char byte;

	if (pthread_create(waiter, NULL, writer_main, NULL) ||
	    pthread_create(reader, NULL, reader_main, NULL))
		fail("pthread_create");
	if (read(seen, &byte, 1) != 1)
		fail("read");
	held = 1;
	while (!breakpoint && !writer_waits())
		usleep(WRITE_MS * 1000);
}

int main(int argc, char **argv)
{
	struct ts_hello hello = { TS_MESSAGE_HELLO, TS_HELLO_PROTOCOL, TS_HELLO_RUN, 0, { 0 }, "" };
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC), seen[2], daemon, fd;
	pthread_t reader, waiter;
	char text[256], byte;
	pid_t server;

	silent = argc > 1 && strcmp(argv[1], "--silent") == 0;
	breakpoint = argc > 1 && strcmp(argv[1], "--breakpoint") == 0;
	argv += silent || breakpoint;
	argc -= silent || breakpoint;
	if (argc < 3)
		return 2;
	snprintf(text, sizeof(text), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
	if (fuse < 0 || mount("hold", argv[1], "fuse", MS_NOSUID | MS_NODEV, text) < 0)
		fail("mount");
	if (pipe2(seen, O_CLOEXEC) < 0)
		fail("pipe");
	server = fork();
	if (server == 0)
		serve(fuse, seen[1]);
	close(fuse);
	snprintf(text, sizeof(text), "%s/" NAME, argv[1]);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	page = fd < 0 ? MAP_FAILED
		      : mmap(NULL, PAGE, silent ? PROT_READ | PROT_EXEC : PROT_READ, MAP_PRIVATE,
			     fd, 0);
	if (page == MAP_FAILED)
		fail("mmap");
	umount2(argv[1], MNT_DETACH);
	if (argc > 3)
		map_many(argv[3], argc > 4 ? strtol(argv[4], NULL, 10) : 1);
	daemon = strcmp(argv[2], "-") == 0 ? -1 : hello_to(argv[2]);
	if (!silent)
		hold_lock(seen[0], &reader, &waiter);
	if ((daemon >= 0 && send(daemon, &hello, sizeof(hello), 0) < 0) ||
	    write(STDOUT_FILENO, "held\n", 5) != 5)
		fail("hello");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	kill(server, SIGKILL); /* with it ends the wait */
	if (silent)
		return 0;
	pthread_join(reader, NULL);
	pthread_join(waiter, NULL);
	return 0;
}
