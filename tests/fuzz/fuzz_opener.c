/* Any message to an opener: it answers each, and hands nothing over but programs and libraries for
 * reading or to look at, and what /proc has of this process. */
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/base/cleanup.h"
#include "daemon/helper/spawn.h"
#include "daemon/proc/opener.h"
#include "tests/fuzz/seed.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int ours = -1, theirs = -1;

static void must(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");
	/* Kind and pid, from where to where, which request, a path. */
	struct {
		uint32_t kind, pid;
		uint64_t start, end, number;
		char path[16];
	} seed = { .pid = (uint32_t)getpid(), .number = 1, .path = "/bin/true" };
	int pair[2];

	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	ours = pair[0];
	theirs = pair[1];
	for (seed.kind = 0; directory && seed.kind <= OPENER_KINDS; seed.kind++)
		write_seed(directory, seed.kind, (uint8_t)(seed.kind == OPENER_FILE), &seed,
			   sizeof(seed));
	seed.kind = OPENER_PATH;
	strcpy(seed.path, "/etc/passwd");
	if (directory)
		write_seed(directory, OPENER_KINDS + 1, 0, &seed, sizeof(seed));
	return 0;
}

static void check(int fd)
{
	_cleanup_(closep) int read_fd = -1;
	int flags = fcntl(fd, F_GETFL);
	char path[32], magic[SELFMAG];
	struct stat st;

	must(flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && fstat(fd, &st) == 0);
	if (flags & O_PATH) {
		must(S_ISREG(st.st_mode));
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		read_fd = open(path, O_RDONLY | O_CLOEXEC);
		must(read(read_fd, magic, SELFMAG) == SELFMAG && !memcmp(magic, ELFMAG, SELFMAG));
	}
}

/* The first byte: whether a file comes along, which no request may name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(closep) int file = -1;
	char answer[4096];
	int fd[SPAWN_FDS];
	uint32_t fds;

	if (size < 2 || size > 8192)
		return 0;
	if (data[0] & 1)
		file = open("/bin/true", O_PATH | O_CLOEXEC);
	must(spawn_send(ours, data + 1, size - 1, &file, file >= 0) > 0);
	must(opener_serve(theirs));
	must(spawn_receive(ours, answer, sizeof(answer), MSG_DONTWAIT, fd, &fds) > 0 && fds <= 1);
	if (fds) {
		check(fd[0]);
		close(fd[0]);
	}
	return 0;
}
