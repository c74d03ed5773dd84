/* Counts: calls every function of the driver, each another number of times, and prints how often
 * it called which and what came back. What a trace says is to be compared with that exactly. */
#include "counts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The calls of a thread that has no context put their results here. */
static struct world b;

#define C(name, args)                                                                              \
	static void call_##name(void)                                                              \
	{                                                                                          \
		T(name, args);                                                                     \
	}
#define CS(name, args) C(name, args) C(name##_ptsz, args)
#define CD(name, args) C(name, args) C(name##_ptds, args)
#define CB(name, args) C(name, args)
#include "counts_calls.def"
#undef C
#undef CS
#undef CD
#undef CB

struct counted {
	enum tally_function function;
	void (*call)(void);
	bool bare; /* in a thread without a context */
	uint64_t calls;
};

static struct counted counted[] = {
#define C(name, args)  { TALLY_##name, call_##name, false, 0 },
#define CS(name, args) C(name, args) C(name##_ptsz, args)
#define CD(name, args) C(name, args) C(name##_ptds, args)
#define CB(name, args) { TALLY_##name, call_##name, true, 0 },
#include "counts_calls.def"
};

_Static_assert(ARRAY_SIZE(counted) == TALLY_COUNT, "a call for every function of api.def");

static int compare_calls(const void *left, const void *right)
{
	const struct counted *l = left, *r = right;

	return l->calls != r->calls ? (l->calls > r->calls) - (l->calls < r->calls)
				    : (int)l->function - (int)r->function;
}

static void *pad_bare(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(counted); i++)
		while (counted[i].bare && tally_calls(counted[i].function) < counted[i].calls)
			counted[i].call();
	return NULL;
}

/* Adds calls until no two functions have the same number of them. */
static void pad(uint64_t rounds)
{
	pthread_t thread;
	uint64_t last = 0;

	for (size_t i = 0; i < ARRAY_SIZE(counted); i++)
		counted[i].calls = tally_calls(counted[i].function);
	qsort(counted, ARRAY_SIZE(counted), sizeof(counted[0]), compare_calls);
	for (size_t i = 0; i < ARRAY_SIZE(counted); i++) {
		if (counted[i].calls < last + rounds)
			counted[i].calls = last + rounds;
		last = counted[i].calls;
	}
	for (size_t i = 0; i < ARRAY_SIZE(counted); i++)
		while (!counted[i].bare && tally_calls(counted[i].function) < counted[i].calls)
			counted[i].call();
	pthread_create(&thread, NULL, pad_bare, NULL);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	uint64_t rounds = 1, total = 0;
	bool hold = false;
	const struct option_row options[] = {
		{ "rounds", "do it all so many times (1)", OPTION_NUMBER, &rounds },
		{ "hold", "wait for a newline before and after the calls", OPTION_FLAG, &hold },
	};

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	if (hold) {
		workload_say("{\"pid\":%d,\"ready\":1}\n", (int)getpid());
		workload_hold(-1);
	}
	world_make();
	for (uint64_t i = 0; i < rounds; i++)
		stories_tell();
	/* What world_end calls is to be in the numbers that pad() makes different. */
	world_end();
	world_make();
	pad(rounds);
	for (size_t i = 0; i < TALLY_COUNT; i++)
		total += tally_calls((enum tally_function)i);
	tally_print();
	workload_say("{\"pid\":%d,\"functions\":%d,\"calls\":%lu}\n", (int)getpid(),
		     (int)TALLY_COUNT, (unsigned long)total);
	if (hold)
		workload_hold(-1);
	return 0;
}
