/* Harm: runs one awkward program. Usage: harm CASE PAGE DRIVER, see harm.h. HARM_LONGER: how many
 * times the usual work. */
#include "harm.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS	  200
#define NAP_US	  1000
#define WAIT_NAPS 250 /* of a driver that polls, no such moment comes */
#define PATTERN	  1024
#define LONGEST_S 120

/* PTX, which a real driver compiles; the simulated one reads the time from the name. */
static const char image[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry carry() { ret; }\n"
	".visible .entry spin_us300000() {\n.reg .u64 %a, %b;\n.reg .pred %p;\n"
	"mov.u64 %a, %globaltimer;\nadd.u64 %a, %a, 300000000;\n"
	"again: mov.u64 %b, %globaltimer;\nsetp.lt.u64 %p, %b, %a;\n@%p bra again;\nret;\n}\n";

#ifdef HARM_TLS_BYTES
/* Static: of the program itself. */
__thread volatile char harm_tls[HARM_TLS_BYTES];
#endif

struct harm_page *harm_page;
struct harm_cuda cuda;
const char *harm_driver, *harm_folder;
char **harm_arguments;

static handle context, kernel, spin;
static unsigned int longer = 1; /* to compare times */
static uint64_t left_ns;	/* the last place */
static _Thread_local handle stream, event;

static const struct harm_case *const tables[] = {
	harm_threads, harm_signals, harm_processes, harm_limits,   harm_loaders,
	harm_blocked, harm_filters, harm_memory,    harm_borrowed,
};

uint64_t harm_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void harm_say(const char *format, ...)
{
	char line[512];
	uint32_t at;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(line, sizeof(line) - 1, format, ap);
	va_end(ap);
	if (n < 0)
		return;
	n = n < (int)sizeof(line) - 2 ? n : (int)sizeof(line) - 2;
	line[n++] = '\n';
	at = harm_page->used;
	while (at + (uint32_t)n <= sizeof(harm_page->text) &&
	       !atomic_compare_exchange_weak(&harm_page->used, &at, at + (uint32_t)n))
		;
	if (at + (uint32_t)n <= sizeof(harm_page->text))
		memcpy(harm_page->text + at, line, (size_t)n);
}

void harm_skip(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(harm_page->text, sizeof(harm_page->text), format, ap);
	va_end(ap);
	harm_page->used = (uint32_t)strlen(harm_page->text);
	harm_page->skipped = 1;
	_exit(77);
}

void harm_nap(unsigned int us)
{
	struct timespec left = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

bool harm_may_leave(enum harm_place place)
{
	return harm_page->go >= place;
}

void harm_hold(enum harm_place place)
{
	int saved = errno;

	harm_page->busy_ns += harm_now() - left_ns;
	harm_page->at = place;
	while (!harm_may_leave(place))
		harm_nap(NAP_US);
	left_ns = harm_now();
	errno = saved;
}

void harm_bind(void *library)
{
#define X(name, arguments)                                                                         \
	cuda.name = (int(*) arguments)dlsym(library, #name);                                       \
	if (!cuda.name)                                                                            \
		harm_say("no " #name);
	HARM_CUDA(X)
#undef X
}

static bool went(const char *what, int result)
{
	if (result == 0)
		return true;
	if (harm_page->failures++ < 8)
		harm_say("%s failed: %d", what, result);
	return false;
}
#define TRY(name, ...) went(#name, cuda.name(__VA_ARGS__))

void harm_load(void)
{
	void *library = dlopen(harm_driver, RTLD_NOW | RTLD_GLOBAL);

	if (!library) {
		harm_say("dlopen: %s", dlerror());
		_exit(1);
	}
	harm_bind(library);
}

bool harm_enter(void)
{
	return TRY(cuCtxSetCurrent, context) &&
	       (stream || (TRY(cuStreamCreate, &stream, 1) && TRY(cuEventCreate, &event, 0)));
}

void harm_begin(void)
{
	handle module;

	if (!cuda.cuInit)
		harm_load();
	if (!TRY(cuInit, 0) || !TRY(cuDevicePrimaryCtxRetain, &context, 0) ||
	    !TRY(cuCtxSetCurrent, context) || !TRY(cuModuleLoadData, &module, image) ||
	    !TRY(cuModuleGetFunction, &kernel, module, "carry") ||
	    !TRY(cuModuleGetFunction, &spin, module, "spin_us300000") || !harm_enter())
		_exit(1);
}

static bool round_trip(uint32_t number)
{
	uint32_t there[PATTERN], back[PATTERN];
	uint64_t memory = 0;

	for (uint32_t i = 0; i < PATTERN; i++)
		there[i] = number * 2654435761u + i;
	if (!TRY(cuMemAlloc_v2, &memory, sizeof(there)))
		return false;
	if (!TRY(cuMemcpyHtoD_v2, memory, there, sizeof(there)) ||
	    !TRY(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL) ||
	    !TRY(cuEventRecord, event, stream) || !TRY(cuStreamSynchronize, stream) ||
	    !TRY(cuMemcpyDtoH_v2, back, memory, sizeof(back)) || !TRY(cuMemFree_v2, memory))
		return false;
	if (memcmp(there, back, sizeof(there)) == 0)
		return true;
	harm_say("a copy came back changed");
	return false;
}

void harm_work(unsigned int rounds)
{
	for (unsigned int i = 0; i < rounds * longer; i++)
		if (!round_trip(i))
			return;
}

void harm_light(unsigned int rounds)
{
	for (unsigned int i = 0; i < rounds * longer; i++) {
		if (!TRY(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL) ||
		    !TRY(cuEventRecord, event, stream))
			return;
		cuda.cuEventQuery(event); /* ready or not */
	}
}

handle harm_spin(void)
{
	handle own = NULL;

	if (!TRY(cuStreamCreate, &own, 1) ||
	    !TRY(cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, own, NULL, NULL))
		return NULL;
	return own;
}

void harm_run(void)
{
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	harm_work(ROUNDS);
	harm_hold(HARM_LAST);
}

void harm_start(pthread_t *thread, void *(*run)(void *), void *data)
{
	int r = pthread_create(thread, NULL, run, data);

	if (r) {
		harm_say("pthread_create: %s", strerror(r));
		_exit(1);
	}
}

void harm_wait_in(pid_t tid, long call)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	for (int i = 0; i < WAIT_NAPS; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

		if (fd >= 0)
			close(fd);
		if (n <= 0)
			return; /* it has ended */
		text[n] = '\0';
		if (text[0] != 'r' && (call < 0 || strtol(text, NULL, 10) == call))
			return;
		harm_nap(NAP_US);
	}
}

void harm_bound(void)
{
	alarm(LONGEST_S);
}

static const struct harm_case *find(const char *name)
{
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (const struct harm_case *c = tables[t]; c->name; c++)
			if (strcmp(c->name, name) == 0)
				return c;
	return NULL;
}

int main(int argc, char **argv)
{
	const struct harm_case *found = argc == 4 ? find(argv[1]) : NULL;
	int fd = argc == 4 ? open(argv[2], O_RDWR | O_CLOEXEC) : -1;
	char *slash;

	if (!found || fd < 0)
		return 2;
	harm_page = mmap(NULL, sizeof(*harm_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (harm_page == MAP_FAILED)
		return 2;
	close(fd);
	harm_driver = argv[3];
	if (getenv("HARM_LONGER"))
		longer = (unsigned int)atoi(getenv("HARM_LONGER"));
	harm_arguments = argv;
	harm_folder = strdup(argv[0]);
	slash = strrchr(harm_folder, '/');
	if (slash)
		*slash = '\0';
#ifdef HARM_TLS_BYTES
	harm_tls[HARM_TLS_BYTES - 1] = 1;
#endif
	left_ns = harm_now();
	harm_bound();
	found->run();
	if (harm_page->failures)
		harm_say("%u calls failed", harm_page->failures);
	return 0;
}
