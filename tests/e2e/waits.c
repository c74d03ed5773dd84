/* waits.c: a program that calls the driver while another thread of it waits in a call that the
 * kernel may end when it is interrupted, or with a lock of the loader (`loader`), for test_light.
 *
 * Usage: waits DRIVER uring|worker|submit|pipe|large|loader. Says "ready" when it waits. At the end
 * of its input, or a byte for io_uring, what it waits for comes, and it ends: with 0 if its call
 * returned what it would have returned alone, 77 where there is no io_uring. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/uring_of.h"

#define PAUSE_NS    1000000
#define PIECE_BYTES 4096
#define LARGE_BYTES (256 << 10)
#define NO_URING    77

static int (*query)(void *event);
static struct uring ring;
static int pipe_of[2];
static size_t before; /* bytes in the pipe */
static bool over, right, holds, let_go;

static void *calls(void *data)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	(void)data;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		query(NULL);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* What is to be submitted with the wait is put before. */
static void *waits_for_ring(void *data)
{
	bool submits = data;
	int32_t result = 0;
	long r = uring_enter(&ring, submits, 1);

	right = r == submits && uring_is_done(&ring, &result) && result == 1;
	return NULL;
}

static void *waits_for_reader(void *data)
{
	static char block[LARGE_BYTES];
	size_t size = *(size_t *)data;

	right = write(pipe_of[1], block, size) == (ssize_t)size;
	return NULL;
}

static int in_the_loader(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	(void)info;
	(void)size;
	(void)data;
	holds = true;
	while (!__atomic_load_n(&let_go, __ATOMIC_ACQUIRE))
		nanosleep(&pause, NULL);
	return 1;
}

/* And then anything can be loaded. */
static void *waits_in_the_loader(void *data)
{
	void *library;

	(void)data;
	dl_iterate_phdr(in_the_loader, NULL);
	library = dlopen("libresolv.so.2", RTLD_NOW);
	right = library && dlclose(library) == 0;
	return NULL;
}

static bool loader_start(pthread_t *thread)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	if (pthread_create(thread, NULL, waits_in_the_loader, NULL) != 0)
		return false;
	while (!__atomic_load_n(&holds, __ATOMIC_ACQUIRE))
		nanosleep(&pause, NULL);
	return true;
}

static bool ring_start(const char *what, pthread_t *thread)
{
	bool submits = strcmp(what, "submit") == 0;

	if (!uring_open(&ring))
		return false;
	uring_put_read(&ring, strcmp(what, "worker") == 0 ? IOSQE_ASYNC : 0);
	if (!submits && uring_enter(&ring, 1, 0) != 1)
		return false;
	return pthread_create(thread, NULL, waits_for_ring, submits ? &ring : NULL) == 0;
}

/* Full, or with room for a part. */
static bool pipe_start(const char *what, pthread_t *thread)
{
	static const char piece[PIECE_BYTES];
	static size_t size;
	ssize_t r;

	size = strcmp(what, "large") == 0 ? LARGE_BYTES : PIECE_BYTES;
	if (pipe2(pipe_of, O_CLOEXEC | O_NONBLOCK) < 0)
		return false;
	while (size == PIECE_BYTES && (r = write(pipe_of[1], piece, sizeof(piece))) > 0)
		before += (size_t)r;
	fcntl(pipe_of[1], F_SETFL, 0);
	fcntl(pipe_of[0], F_SETFL, 0);
	before += size;
	return pthread_create(thread, NULL, waits_for_reader, &size) == 0;
}

static void pipe_read(void)
{
	static char block[LARGE_BYTES];

	while (before) {
		ssize_t r =
			read(pipe_of[0], block, sizeof(block) < before ? sizeof(block) : before);

		if (r <= 0)
			return;
		before -= (size_t)r;
	}
}

int main(int argc, char **argv)
{
	pthread_t caller, waiter;
	bool piped, loader, started;
	void *driver;

	if (argc != 3 || !(driver = dlopen(argv[1], RTLD_NOW)) ||
	    !(query = (int (*)(void *))dlsym(driver, "cuEventQuery")))
		return 2;
	piped = strcmp(argv[2], "pipe") == 0 || strcmp(argv[2], "large") == 0;
	loader = strcmp(argv[2], "loader") == 0;
	started = loader  ? loader_start(&waiter)
		  : piped ? pipe_start(argv[2], &waiter)
			  : ring_start(argv[2], &waiter);
	if (!started)
		return NO_URING;
	if (pthread_create(&caller, NULL, calls, NULL) != 0)
		return 1;
	puts("ready");
	fflush(stdout);
	while ((piped || loader) && getchar() != EOF)
		;
	__atomic_store_n(&let_go, true, __ATOMIC_RELEASE);
	if (piped)
		pipe_read();
	pthread_join(waiter, NULL);
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	pthread_join(caller, NULL);
	return right ? 0 : 1;
}
