/* paths DRIVER: launches nothing, by calls of the driver that are many paths deep. Each line that
 * it reads is one order, and answered with a line:
 *
 * random SEED CALLS    on the ways of a random walk, in two threads: frames of equal and of other
 *                      sizes, with and without a frame pointer, below a signal, and chains of
 *                      equal ones below others
 * same DEPTH           always from one place; says what a call takes, in ns
 * other DEPTH          in turns from two places, one frame apart
 * outer DEPTH          from one place, but in turns below two outermost functions
 * hole DEPTH           from one place, below a page of the stack that was never touched
 * each same DEPTH      each call by itself: what the middle one takes, in ns, the 99th of 100, the
 *                      999th of 1,000, and the longest; and how many are left out, as the thread
 *                      lost its CPU meanwhile
 * each other DEPTH     likewise, in turns from two places
 * each site DEPTH      likewise, once from each of SITES places */
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
#define KEPT	 __asm__ volatile("" ::: "memory") /* the call before it is no jump */
#define LEVELS	 7
#define BATCHES	 100
#define BATCH	 200
#define SITES	 512
#define SINGLES	 20000

static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		     void *, void **, void **);

struct random {
	uint64_t state;
	long left;
};

static unsigned next(struct random *random)
{
	random->state = random->state * 6364136223846793005 + 1442695040888963407;
	return (unsigned)(random->state >> 33);
}

static NOINLINE void call(void)
{
	launch(NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL);
	KEPT;
}

static NOINLINE void chain(struct random *random, int level)
{
	if (level < LEVELS) {
		chain(random, level + 1);
	} else {
		random->left--;
		call();
	}
	KEPT;
}

static void go(struct random *random, int level);

/* The frame pointer of the last two is no register like others: their frames have no fixed size. */
#define WAY(name, room)                                                                            \
	static NOINLINE void name(struct random *random, int level)                                \
	{                                                                                          \
		room;                                                                              \
		if (next(random) & 1)                                                              \
			chain(random, LEVELS);                                                     \
		go(random, level);                                                                 \
		if (next(random) & 1)                                                              \
			go(random, level);                                                         \
		KEPT;                                                                              \
	}
#define ROOM(size)                                                                                 \
	volatile char bytes[size];                                                                 \
	bytes[0] = 1;                                                                              \
	(void)bytes[0]
#define VARIABLE                                                                                   \
	volatile char *bytes = alloca(16 + next(random) % 2 * 32);                                 \
	bytes[0] = 1
#define ALIGNED                                                                                    \
	__attribute__((aligned(64))) volatile char vector[64];                                     \
	vector[0] = 1;                                                                             \
	VARIABLE
WAY(small, ROOM(16))
WAY(twin, ROOM(16))
WAY(triplet, ROOM(16))
WAY(larger, ROOM(200))
WAY(largest, ROOM(9000); memset((char *)bytes, 1, sizeof(bytes)))
WAY(variable, VARIABLE)
WAY(variable_twin, VARIABLE)
WAY(aligned, ALIGNED)

static struct random *in_signal;
static pthread_mutex_t signals = PTHREAD_MUTEX_INITIALIZER;

static void on_signal(int number)
{
	go(in_signal, LEVELS - 2);
	KEPT;
}

static NOINLINE void interrupted(struct random *random)
{
	pthread_mutex_lock(&signals);
	in_signal = random;
	raise(SIGUSR1);
	pthread_mutex_unlock(&signals);
}

static void go(struct random *random, int level)
{
	static void (*const way[])(struct random *, int) = { small,   twin,	triplet,
							     larger,  variable, variable_twin,
							     aligned, largest };

	if (random->left <= 0)
		return;
	if (level == LEVELS) {
		/* Not unrolled: one place. */
		for (volatile unsigned n = next(random) % 4; n; n--, random->left--)
			call();
	} else if (level > 2 && next(random) % 4 == 0) {
		chain(random, level);
	} else if (level == 1 && next(random) % 64 == 0) {
		interrupted(random);
	} else {
		/* Of the outer ones there are few, so that paths come again. */
		way[level < 4 ? next(random) % 2 : next(random) % 8](random, level + 1);
	}
	KEPT;
}

static void *walk(void *data)
{
	struct random *random = data;

	while (random->left > 0)
		go(random, 0);
	return NULL;
}

static void walk_both(uint64_t seed, long calls)
{
	struct random random[2] = { { seed, calls / 2 }, { ~seed, calls / 2 } };
	pthread_t thread;

	pthread_create(&thread, NULL, walk, &random[1]);
	walk(&random[0]);
	pthread_join(thread, NULL);
	printf("done\n");
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static NOINLINE void call_too(void)
{
	launch(NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL);
	KEPT;
}

static NOINLINE void below(int depth, int calls, void (*one)(void), void (*two)(void))
{
	ROOM(64);
	if (depth > 0) {
		below(depth - 1, calls, one, two);
	} else {
		for (int i = 0; i < calls; i++)
			(i & 1 ? one : two)();
	}
	KEPT;
}

static NOINLINE void below_one(int depth)
{
	below(depth, 1, call, call);
	KEPT;
}

static NOINLINE void below_two(int depth)
{
	below(depth, 1, call, call);
	KEPT;
}

static NOINLINE void below_hole(int depth, int calls)
{
	volatile char bytes[40000];

	bytes[0] = 1;
	below(depth, calls, call, call);
	(void)bytes[0];
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void measure(const char *order, int depth)
{
	double batch[BATCHES], start;

	for (int i = 0; i < BATCHES; i++) {
		start = now_ns();
		if (!strcmp(order, "outer"))
			for (int k = 0; k < BATCH; k++)
				(k & 1 ? below_one : below_two)(depth);
		else if (!strcmp(order, "hole"))
			below_hole(depth, BATCH);
		else
			below(depth, BATCH, call, strcmp(order, "other") ? call : call_too);
		batch[i] = (now_ns() - start) / BATCH;
	}
	qsort(batch, BATCHES, sizeof(batch[0]), compare);
	printf("%.1f\n", batch[BATCHES / 2]);
}

#define SITE(n)                                                                                    \
	static NOINLINE void site_##n(void)                                                        \
	{                                                                                          \
		launch(NULL, n, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL);                               \
		KEPT;                                                                              \
	}
#define NAME(n) site_##n,
#define EIGHT(X, n)                                                                                \
	X(n##0)                                                                                    \
	X(n##1)                                                                                    \
	X(n##2)                                                                                    \
	X(n##3)                                                                                    \
	X(n##4)                                                                                    \
	X(n##5)                                                                                    \
	X(n##6)                                                                                    \
	X(n##7)
#define SIXTY_FOUR(X, n)                                                                           \
	EIGHT(X, n##0)                                                                             \
	EIGHT(X, n##1)                                                                             \
	EIGHT(X, n##2)                                                                             \
	EIGHT(X, n##3) EIGHT(X, n##4) EIGHT(X, n##5) EIGHT(X, n##6) EIGHT(X, n##7)
#define ALL(X)                                                                                     \
	SIXTY_FOUR(X, 00)                                                                          \
	SIXTY_FOUR(X, 01)                                                                          \
	SIXTY_FOUR(X, 02)                                                                          \
	SIXTY_FOUR(X, 03)                                                                          \
	SIXTY_FOUR(X, 04) SIXTY_FOUR(X, 05) SIXTY_FOUR(X, 06) SIXTY_FOUR(X, 07)
ALL(SITE)

static void (*const sites[SITES])(void) = { ALL(NAME) };
static void (*const same[])(void) = { call };
static void (*const other[])(void) = { call, call_too };

struct singles {
	void (*const *call)(void);
	size_t calls, count;
	double took[SINGLES];
	size_t used;
};

static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static NOINLINE void below_singles(int depth, struct singles *singles)
{
	ROOM(64);
	if (depth > 0) {
		below_singles(depth - 1, singles);
	} else {
		for (size_t i = 0; i < singles->count; i++) {
			long before = switches();
			double start = now_ns();

			singles->call[i % singles->calls]();
			singles->took[singles->used] = now_ns() - start;
			singles->used += switches() == before;
		}
	}
	KEPT;
}

static void measure_singles(const char *order, int depth)
{
	static struct singles singles;
	size_t used;

	if (!strcmp(order, "same"))
		singles = (struct singles){ same, 1, SINGLES };
	else if (!strcmp(order, "other"))
		singles = (struct singles){ other, 2, SINGLES };
	else
		singles = (struct singles){ sites, SITES, SITES };
	below_singles(depth, &singles);
	used = singles.used ?: 1;
	qsort(singles.took, used, sizeof(singles.took[0]), compare);
	printf("%.0f %.0f %.0f %.0f %zu\n", singles.took[used / 2], singles.took[used * 99 / 100],
	       singles.took[used * 999 / 1000], singles.took[used - 1],
	       singles.count - singles.used);
}

int main(int argc, char **argv)
{
	void *driver = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*init)(unsigned);
	unsigned long seed;
	char line[64], order[8];
	long count;

	if (!driver)
		return 2;
	launch = dlsym(driver, "cuLaunchKernel");
	init = dlsym(driver, "cuInit");
	init(0); /* which loads what `tsctl run` wants it to */
	signal(SIGUSR1, on_signal);
	setlinebuf(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "random %lu %ld", &seed, &count) == 2)
			walk_both(seed, count);
		else if (sscanf(line, "each %7s %ld", order, &count) == 2)
			measure_singles(order, (int)count);
		else if (sscanf(line, "%*s %ld", &count) == 1)
			measure(strtok(line, " "), (int)count);
	}
	return 0;
}
