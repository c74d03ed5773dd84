/* walked DRIVER LIBRARY LIBRARY: launches nothing, from places whose stacks are hard to walk. Each
 * launch has a width that tells its place apart. Each line that it reads is one order, and answered
 * with a line of JSON:
 *
 * round N        goes N times through all places of the main thread: how many launches that were
 * threads T N    likewise T threads at once, through those that have no state of their own
 * tiny N         a thread with a small stack that is not glibc's
 * load WHICH     the first or the second library, in place of the other: where its function is
 * call N         launches from the library that is loaded
 * swap N M       loads them in turns, N times each, and launches M times from each
 * fork N, vfork N  a child launches, and ends: how it ended
 * exec           it is the same program anew */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* One function each, under its name. */
#ifdef __clang__
#define PLACE __attribute__((noinline))
#else
#define PLACE __attribute__((noipa))
#endif
#define KEPT	   __asm__ volatile("" ::: "memory") /* the call before it is no jump */
#define CALLS	   10				     /* of a place, each time */
#define STACK_SIZE 65536
#define TINY	   (32 << 10)
#define THREADS	   16
#define OF_THREADS 100 /* what their widths are above those of the main thread */

enum width { WIDTH_LIBRARY = 201, WIDTH_FORK = 203, WIDTH_VFORK, WIDTH_TINY };

static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		     void *, void **, void **);
static int (*set_current)(void *context);
static void *context;
static char **arguments;
static __thread unsigned width;
static __thread long calls = CALLS;

static PLACE void call(void)
{
	for (long i = 0; i < calls; i++)
		launch(NULL, width, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	KEPT;
}

static PLACE void plain(void)
{
	call();
	KEPT;
}

static PLACE void deep(int n)
{
	if (n > 0)
		deep(n - 1);
	else
		call();
	KEPT;
}

static PLACE void deep_60(void)
{
	deep(60);
	KEPT;
}

/* More than any stack may have frames. */
static PLACE void deep_300(void)
{
	deep(300);
	KEPT;
}

static PLACE void variable(void)
{
	volatile char *bytes = alloca(16 + width % 3 * 32);

	bytes[0] = 1;
	call();
	(void)bytes[0];
}

static PLACE void aligned(void)
{
	__attribute__((aligned(64))) volatile char vector[64];
	volatile char *bytes = alloca(16 + width % 3 * 32);

	bytes[0] = vector[0] = 1;
	call();
	(void)bytes[0];
	(void)vector[0];
}

/* Further down than the main thread's stack has been. */
static PLACE void large(void)
{
	volatile char bytes[400000];

	for (size_t i = 0; i < sizeof(bytes); i += 4096)
		bytes[i] = 1;
	call();
	(void)bytes[0];
}

static int compare(const void *a, const void *b)
{
	call();
	KEPT;
	return 0;
}

static PLACE void callback(void)
{
	int numbers[] = { 2, 1 };

	qsort(numbers, 2, sizeof(numbers[0]), compare);
	KEPT;
}

static ucontext_t below, beside;

static void in_coroutine(void)
{
	call();
	KEPT;
}

static PLACE void coroutine(void)
{
	static char *stack;

	if (!stack)
		stack = malloc(STACK_SIZE);
	getcontext(&beside);
	beside.uc_stack.ss_sp = stack;
	beside.uc_stack.ss_size = STACK_SIZE;
	beside.uc_link = &below;
	makecontext(&beside, in_coroutine, 0);
	swapcontext(&below, &beside);
	KEPT;
}

static void on_signal(int number)
{
	call();
	KEPT;
}

static PLACE void take_signal(int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	KEPT;
}

static PLACE void signalled(void)
{
	take_signal(0);
	KEPT;
}

static PLACE void signalled_aside(void)
{
	take_signal(SA_ONSTACK);
	KEPT;
}

/* Frames of other sizes return to one address, in turns. */
static PLACE void compiled(void)
{
	static const uint8_t code[][11] = {
		{ 0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3 },
		{ 0x48, 0x83, 0xec, 0x28, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x28, 0xc3 },
	};
	static unsigned turn;
	static void *page;

	if (!page)
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code[turn++ % 2], sizeof(code[0]));
	((void (*)(void (*)(void)))page)(call);
	KEPT;
}

static PLACE void compiled_linked(void)
{
	static const uint8_t code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
	static void *page;

	if (!page)
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(page, code, sizeof(code));
	((void (*)(void (*)(void)))page)(call);
	KEPT;
}

/* `one`: its state is not each thread's own. */
static const struct place {
	const char *name;
	void (*go)(void);
	int one;
} places[] = {
	{ "plain", plain, 0 },	       { "deep_60", deep_60, 0 },
	{ "deep_300", deep_300, 0 },   { "variable", variable, 0 },
	{ "aligned", aligned, 0 },     { "large", large, 0 },
	{ "callback", callback, 0 },   { "coroutine", coroutine, 1 },
	{ "signalled", signalled, 1 }, { "signalled_aside", signalled_aside, 1 },
	{ "compiled", compiled, 1 },   { "compiled_linked", compiled_linked, 1 },
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static PLACE long go_round(long count, unsigned above)
{
	long made = 0;

	for (long i = 0; i < count; i++)
		for (unsigned n = 0; n < PLACES; n++) {
			if (above && places[n].one)
				continue;
			width = 1 + n + above;
			places[n].go();
			made += CALLS;
		}
	KEPT;
	return made;
}

static void *worker(void *data)
{
	long count = (long)(intptr_t)data;

	set_current(context);
	return (void *)(intptr_t)go_round(count, OF_THREADS);
}

static long go_in_threads(long threads, long count)
{
	pthread_t id[THREADS];
	long made = 0;
	void *one;

	for (long i = 0; i < threads && i < THREADS; i++)
		pthread_create(&id[i], NULL, worker, (void *)(intptr_t)count);
	for (long i = 0; i < threads && i < THREADS; i++) {
		pthread_join(id[i], &one);
		made += (long)(intptr_t)one;
	}
	return made;
}

static void *tiny_worker(void *data)
{
	set_current(context);
	width = WIDTH_TINY;
	calls = (long)(intptr_t)data;
	deep(5);
	KEPT;
	return NULL;
}

static void go_tiny(long count)
{
	static void *stack;
	pthread_attr_t attr;
	pthread_t id;

	if (!stack)
		stack = mmap(NULL, TINY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, TINY);
	pthread_create(&id, &attr, tiny_worker, (void *)(intptr_t)count);
	pthread_join(id, NULL);
	pthread_attr_destroy(&attr);
}

static void *loaded;
static void (*call_back)(void (*function)(void));

static void load(long which)
{
	if (loaded)
		dlclose(loaded);
	loaded = dlopen(arguments[2 + which], RTLD_NOW);
	call_back = loaded ? dlsym(loaded, "call_back") : NULL;
	if (!call_back)
		_exit(3);
	width = WIDTH_LIBRARY + (unsigned)which;
}

static PLACE void call_library(long count)
{
	calls = count;
	call_back(call);
	calls = CALLS;
}

static PLACE void swap(long times, long count)
{
	for (long i = 0; i < 2 * times; i++) {
		load(i % 2);
		call_library(count);
	}
	KEPT;
}

static int end_of(pid_t pid)
{
	int status = -1;

	return waitpid(pid, &status, 0) == pid ? status : -1;
}

static PLACE void in_child(long count, unsigned its_width)
{
	width = its_width;
	calls = count;
	call();
	calls = CALLS;
}

static PLACE int go_forked(long count)
{
	pid_t pid = fork();

	if (pid == 0) {
		in_child(count, WIDTH_FORK);
		_exit(0);
	}
	return end_of(pid);
}

static PLACE int go_vforked(long count)
{
	pid_t pid = vfork();

	if (pid == 0) {
		in_child(count, WIDTH_VFORK);
		_exit(0);
	}
	return end_of(pid);
}

static PLACE void obey(const char *order, long first, long second)
{
	if (!strcmp(order, "round"))
		printf("{\"calls\": %ld}\n", go_round(first, 0));
	else if (!strcmp(order, "threads"))
		printf("{\"calls\": %ld}\n", go_in_threads(first, second));
	else if (!strcmp(order, "fork"))
		printf("{\"status\": %d}\n", go_forked(first));
	else if (!strcmp(order, "vfork"))
		printf("{\"status\": %d}\n", go_vforked(first));
	else if (!strcmp(order, "exec"))
		execv("/proc/self/exe", arguments);
	else {
		if (!strcmp(order, "tiny"))
			go_tiny(first);
		else if (!strcmp(order, "load"))
			load(first);
		else if (!strcmp(order, "call"))
			call_library(first);
		else
			swap(first, second);
		printf("{\"at\": %lu}\n", (unsigned long)call_back);
	}
}

static int use_driver(const char *path)
{
	void *driver = dlopen(path, RTLD_NOW);
	int (*create)(void **, unsigned, int);
	int (*init)(unsigned);

	if (!driver)
		return -1;
	init = dlsym(driver, "cuInit");
	create = dlsym(driver, "cuCtxCreate_v2");
	set_current = dlsym(driver, "cuCtxSetCurrent");
	launch = dlsym(driver, "cuLaunchKernel");
	return init(0) || create(&context, 0, 0);
}

int main(int argc, char **argv)
{
	stack_t aside = { .ss_sp = malloc(STACK_SIZE), .ss_size = STACK_SIZE };
	long first, second;
	char line[64], order[16];

	arguments = argv;
	if (argc != 4 || use_driver(argv[1]))
		return 2;
	sigaltstack(&aside, NULL);
	setlinebuf(stdout);
	printf("[\"%s\"", places[0].name);
	for (unsigned n = 1; n < PLACES; n++)
		printf(", \"%s\"", places[n].name);
	printf("]\n");
	while (fgets(line, sizeof(line), stdin)) {
		first = second = 0;
		if (sscanf(line, "%15s %ld %ld", order, &first, &second) >= 1)
			obey(order, first, second);
	}
	return 0;
}
