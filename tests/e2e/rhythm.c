/* rhythm.c LIBRARY SEED MILLISECONDS [fork|exec|storm|KIND]: a program of a random rhythm. It says
 * in the end what it called and when, a line of JSON for each process, and for each program that it
 * ran:
 *   {"pid": PID, "calls": {FUNCTION: [[FIRST_NS, LAST_NS, COUNT], ...], ...}}
 * with times of CLOCK_MONOTONIC. fork, exec: in the middle, and both go on; storm: without a pause;
 * KIND: of one kind of rhythm, as in tests/unit/test_query_rhythms.c. With RHYTHM_WORK set the
 * calls do something on a real GPU; else they are made, and fail.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS   UINT64_C(1000000)
#define SLICES	    (1 << 18)
#define PHASE_MS    800 /* at most */
#define PER_MS	    60	/* launches */
#define STORM_CALLS 10000

enum phase { EVEN, RAMP, BURSTS, PAUSE, WAITS, PHASES };
enum function { LAUNCH, COPY, ALLOCATE, WAIT, WAIT_EVENT, COPY_ASYNC, FUNCTIONS };
#define ARGUMENTS 11
#define BYTES	  4096 /* of memory */

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry empty()\n{\n\tret;\n}\n";

static const char *const names[FUNCTIONS] = {
	[LAUNCH] = "cuLaunchKernel",	     [COPY] = "cuMemcpyHtoD_v2",
	[ALLOCATE] = "cuMemAlloc_v2",	     [WAIT] = "cuCtxSynchronize",
	[WAIT_EVENT] = "cuEventSynchronize", [COPY_ASYNC] = "cuMemcpyHtoDAsync_v2",
};

struct slice {
	uint64_t first_ns, last_ns;
	uint32_t count;
};

static int (*function[FUNCTIONS])(long, ...);
static long argument[FUNCTIONS][ARGUMENTS];
static struct slice slice[FUNCTIONS][SLICES];
static uint32_t slices[FUNCTIONS];
static uint64_t state;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000 * NS_PER_MS + (uint64_t)time.tv_nsec;
}

/* D. Knuth: MMIX. */
static uint32_t random_below(uint32_t n)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

static void call(enum function which, uint32_t count)
{
	struct slice *at = &slice[which][slices[which]];
	const long *a = argument[which];

	if (!count)
		return;
	at->first_ns = now();
	for (uint32_t i = 0; i < count; i++)
		function[which](a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
	at->last_ns = now();
	at->count = count;
	if (++slices[which] == SLICES) {
		fputs("rhythm: too long\n", stderr);
		exit(1);
	}
}

static int call_by_name(void *driver, const char *name, long a, long b, long c)
{
	int (*called)(long, ...) = (int (*)(long, ...))dlsym(driver, name);

	return called ? called(a, b, c) : -1;
}

/* Memory is not freed. */
static bool prepare_work(void *driver)
{
	static char host[BYTES];
	static long context, module, kernel, memory;

	if (call_by_name(driver, "cuDevicePrimaryCtxRetain", (long)&context, 0, 0) ||
	    call_by_name(driver, "cuCtxSetCurrent", context, 0, 0) ||
	    call_by_name(driver, "cuModuleLoadData", (long)&module, (long)ptx, 0) ||
	    call_by_name(driver, "cuModuleGetFunction", (long)&kernel, module, (long)"empty"))
		return false;
	memcpy(argument[LAUNCH], (long[ARGUMENTS]){ kernel, 1, 1, 1, 1, 1, 1 },
	       sizeof(argument[LAUNCH]));
	memcpy(argument[ALLOCATE], (long[ARGUMENTS]){ (long)&memory, BYTES },
	       sizeof(argument[ALLOCATE]));
	call(ALLOCATE, 1);
	memcpy(argument[COPY], (long[ARGUMENTS]){ memory, (long)host, BYTES },
	       sizeof(argument[COPY]));
	return memory != 0;
}

static uint32_t launches(enum phase phase, uint32_t rate, uint32_t turn)
{
	switch (phase) {
	case EVEN:
		return rate;
	case RAMP:
		return turn * rate / 32 % 100;
	case BURSTS:
		return random_below(20) ? 0 : rate * 20;
	default:
		return 0;
	}
}

static void play_phase(enum phase phase, uint64_t end_ns)
{
	uint32_t rate = 1 + random_below(PER_MS), many;

	for (uint32_t turn = 0; now() < end_ns; turn++) {
		if (phase != PAUSE) {
			many = launches(phase, rate, turn);
			call(LAUNCH, many);
			call(COPY, many / 4);
			call(ALLOCATE, turn % 8 == 0);
			call(WAIT, 1);
		}
		usleep(1000);
	}
}

static void play(uint64_t end_ns)
{
	while (now() < end_ns) {
		uint64_t until_ns = now() + (5 + random_below(PHASE_MS)) * NS_PER_MS;

		play_phase(random_below(PHASES), until_ns < end_ns ? until_ns : end_ns);
	}
}

static double between(double least, double most)
{
	return least + (most - least) * random_below(1 << 20) / (1 << 20);
}

/* As many each time as it is larger. */
static double spread(double least, double most)
{
	return least * exp(log(most / least) * between(0, 1));
}

/* Of one kind: `level` is how much it calls, the others hold for a phase. */
static struct {
	double level, rate, wait_ms;
	bool other;
	uint64_t until_ns;
} kind;

static bool is_next(double least_ms, double most_ms)
{
	uint64_t now_ns = now();

	if (now_ns < kind.until_ns)
		return false;
	kind.until_ns = now_ns + (uint64_t)(between(least_ms, most_ms) * NS_PER_MS);
	kind.other = !kind.other;
	return true;
}

static double steady(void)
{
	return kind.level;
}

static double phases(void)
{
	if (is_next(50, 1500))
		kind.rate = random_below(5) ? between(1, 2 * kind.level) : 0;
	return kind.rate;
}

static double ramps(void)
{
	kind.rate += kind.level / 500;
	if (kind.rate > 2 * kind.level)
		kind.rate = 0;
	return kind.rate;
}

static double bursts(void)
{
	return random_below(20) ? 0 : 20 * kind.level;
}

static double pauses(void)
{
	kind.wait_ms = 1;
	if (is_next(200, 1000) && kind.other)
		kind.wait_ms = between(300, 2000);
	return kind.level;
}

static double steps(void)
{
	if (is_next(200, 2000))
		kind.wait_ms = spread(2, 60);
	return 10 * kind.level;
}

static double events(void)
{
	if (is_next(200, 2000))
		kind.wait_ms = spread(0.3, 3);
	return between(0, 2 * kind.level);
}

static double alternating(void)
{
	is_next(100, 400);
	kind.wait_ms = kind.other ? 1 : 0.2;
	return kind.other ? kind.level : kind.level / 5;
}

static double walk(void)
{
	kind.rate = fmin(fmax(kind.rate + between(-3, 3), 0), 3 * kind.level);
	return kind.rate;
}

static const struct {
	const char *name;
	double (*calls)(void);
	enum function hot, cold;
	bool two; /* threads, of which the other one launches in phases and never waits */
} kinds[] = {
	{ "steady", steady, LAUNCH, WAIT, false },
	{ "phases", phases, LAUNCH, WAIT, false },
	{ "ramps", ramps, LAUNCH, WAIT, false },
	{ "bursts", bursts, LAUNCH, WAIT, false },
	{ "pauses", pauses, LAUNCH, WAIT, false },
	{ "steps", steps, LAUNCH, WAIT, false },
	{ "events", events, LAUNCH, WAIT_EVENT, false },
	{ "alternating", alternating, LAUNCH, WAIT, false },
	{ "walk", walk, LAUNCH, WAIT, false },
	{ "threads", steady, COPY_ASYNC, WAIT, true },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void *launch_in_phases(void *data)
{
	const uint64_t *end_ns = data;
	unsigned int seed = (unsigned int)*end_ns;
	uint64_t until_ns = 0;
	uint32_t rate = 0;

	for (; now() < *end_ns; usleep(1000)) {
		if (now() >= until_ns) {
			rate = (uint32_t)rand_r(&seed) % (uint32_t)(2 * kind.level);
			until_ns = now() + (50 + (uint32_t)rand_r(&seed) % 1450) * NS_PER_MS;
		}
		call(LAUNCH, rate);
	}
	return NULL;
}

static void play_kind(size_t which, uint64_t end_ns)
{
	pthread_t thread;

	kind.level = spread(8, 60);
	kind.rate = between(0, 2 * kind.level);
	kind.wait_ms = 1;
	if (kinds[which].two)
		pthread_create(&thread, NULL, launch_in_phases, &end_ns);
	while (now() < end_ns) {
		call(kinds[which].hot, (uint32_t)kinds[which].calls());
		call(kinds[which].cold, 1);
		usleep((useconds_t)(kind.wait_ms * between(800, 1200)));
	}
	if (kinds[which].two)
		pthread_join(thread, NULL);
}

static void say(void)
{
	printf("{\"pid\": %d, \"calls\": {", getpid());
	for (int i = 0; i < FUNCTIONS; i++) {
		printf("%s\"%s\": [", i ? ", " : "", names[i]);
		for (uint32_t k = 0; k < slices[i]; k++)
			printf("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu32 "]", k ? ", " : "",
			       slice[i][k].first_ns, slice[i][k].last_ns, slice[i][k].count);
		printf("]");
	}
	puts("}}");
	fflush(stdout);
	memset(slices, 0, sizeof(slices));
}

/* Its parent waits for it: their lines are not mixed. */
static void go_on_in_two(uint64_t end_ns)
{
	pid_t child = fork();

	if (child == 0)
		memset(slices, 0, sizeof(slices));
	state += (uint64_t)child;
	play(end_ns);
	if (child > 0)
		waitpid(child, NULL, 0);
}

static void go_on_in_another(char **argv)
{
	char seed[24];
	char *rest[] = { argv[0], argv[1], seed, argv[3], NULL };

	snprintf(seed, sizeof(seed), "%" PRIu64, state >> 1);
	say();
	execv("/proc/self/exe", rest);
	exit(1);
}

int main(int argc, char **argv)
{
	void *driver = argc >= 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
	const char *how = argc > 4 ? argv[4] : "";
	uint64_t length_ns, end_ns;
	size_t which = 0;

	if (!driver) {
		fputs("Usage: rhythm LIBRARY SEED MILLISECONDS [fork|exec|storm|KIND]\n", stderr);
		return 1;
	}
	for (int i = 0; i < FUNCTIONS; i++)
		function[i] = (int (*)(long, ...))dlsym(driver, names[i]);
	state = strtoull(argv[2], NULL, 0);
	length_ns = strtoull(argv[3], NULL, 0) * NS_PER_MS;
	call_by_name(driver, "cuInit", 0, 0, 0);
	if (getenv("RHYTHM_WORK") && !prepare_work(driver)) {
		fputs("rhythm: no GPU that works\n", stderr);
		return 1;
	}
	end_ns = now() + length_ns;
	while (which < KINDS && strcmp(kinds[which].name, how))
		which++;
	if (which < KINDS) {
		play_kind(which, end_ns);
		say();
		return 0;
	}
	while (!strcmp(how, "storm") && now() < end_ns)
		call(LAUNCH, STORM_CALLS);
	play(end_ns);
	if (!strcmp(how, "fork"))
		go_on_in_two(end_ns + length_ns);
	else if (!strcmp(how, "exec"))
		go_on_in_another(argv);
	say();
	return 0;
}
