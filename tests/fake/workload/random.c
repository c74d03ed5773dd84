/* Random: makes calls at random, right ones and wrong ones, and says what the simulated driver has
 * in its books, so that a tracer's answer can be compared with them.
 *   random --seed S --steps N --rounds R: after each round the books, and a wait for a newline */
#include "random.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcuda/hooks.h"

static struct {
	uint64_t seed, steps, rounds, pause_us;
} settings = { .seed = 1, .steps = 100000, .rounds = 4, .pause_us = 1000 };

static const struct option_row options[] = {
	{ "seed", "of the random numbers (1)", OPTION_NUMBER, &settings.seed },
	{ "steps", "in all (100000)", OPTION_NUMBER, &settings.steps },
	{ "rounds", "after each of which it waits (4)", OPTION_NUMBER, &settings.rounds },
	{ "pause-us", "after every hundredth step (1000)", OPTION_NUMBER, &settings.pause_us },
};

#define PAUSE_STEPS 100

struct world w;
static uint64_t state;

uint32_t random_below(uint32_t below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % below;
}

uint64_t slots_pick(const struct slots *slots, uint64_t *ret_extra)
{
	uint32_t first = random_below(SLOTS);

	if (random_below(50) == 0)
		return 0xdead0000 + random_below(4096);
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t at = (first + i) % SLOTS;

		if (!slots->value[at])
			continue;
		if (ret_extra)
			*ret_extra = slots->extra[at];
		return slots->value[at];
	}
	return 0;
}

uint64_t slots_any(const struct slots *slots)
{
	return slots_pick(slots, NULL);
}

void slots_failed(struct slots *slots, uint64_t value)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		if (slots->value[i] == value && random_below(3))
			slots->value[i] = 0;
}

uint64_t slots_take(struct slots *slots, uint64_t *ret_extra)
{
	uint32_t first = random_below(SLOTS);

	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t at = (first + i) % SLOTS;
		uint64_t value = slots->value[at];

		if (!value)
			continue;
		if (ret_extra)
			*ret_extra = slots->extra[at];
		if (random_below(40))
			slots->value[at] = 0;
		return value;
	}
	return 0;
}

/* Where all are in use the thing is forgotten: it stays until its context or the process ends. */
void slots_add(struct slots *slots, uint64_t value, uint64_t extra)
{
	uint32_t at = random_below(SLOTS);

	for (uint32_t i = 0; slots->value[at] && i < SLOTS; i++)
		at = (at + 1) % SLOTS;
	if (slots->value[at])
		return;
	slots->value[at] = value;
	slots->extra[at] = extra;
}

static const struct step *const families[] = { memory_steps, work_steps, context_steps };

static void step_once(void)
{
	static unsigned int total;
	static bool settled;
	unsigned int pick;

	for (size_t f = 0; f < ARRAY_SIZE(families) && !settled; f++)
		for (const struct step *step = families[f]; step->run; step++)
			total += step->weight;
	settled = true;
	pick = random_below(total);
	for (size_t f = 0; f < ARRAY_SIZE(families); f++)
		for (const struct step *step = families[f]; step->run; step++) {
			if (pick < step->weight) {
				step->run();
				return;
			}
			pick -= step->weight;
		}
}

static void say_books(const struct fake_driver *driver, uint64_t round)
{
	static const char *const kinds[] = {
		"device", "managed", "pool", "host", "registered", "physical", "reserved", "mapped",
	};
	struct fake_books books;
	const char *comma = "";
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		abort();
	driver->books(&books);
	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++)
		for (int device = 0; device < FAKE_BOOK_DEVICES; device++) {
			const struct fake_book_entry *entry = &books.live[kind][device];

			if (!entry->count)
				continue;
			fprintf(out, "%s[\"%s\",%d,%lu,%lu]", comma, kinds[kind],
				device == FAKE_BOOK_DEVICES - 1 ? -1 : device,
				(unsigned long)entry->bytes, (unsigned long)entry->count);
			comma = ",";
		}
	fclose(out);
	workload_say("{\"pid\":%d,\"seed\":%lu,\"round\":%lu,\"live\":[%s],\"kernels\":%lu,"
		     "\"copies\":%lu,\"sets\":%lu,\"captured\":%lu}\n",
		     (int)getpid(), (unsigned long)settings.seed, (unsigned long)round, text,
		     (unsigned long)books.done[FAKE_OP_KERNEL],
		     (unsigned long)books.done[FAKE_OP_COPY],
		     (unsigned long)books.done[FAKE_OP_SET], (unsigned long)books.done[0]);
	free(text);
}

/* What is queued is done before the books are read. */
static void drain(void)
{
	CUgraph graph;

	if (w.capturing && T(cuStreamEndCapture, (w.capturing, &graph)) == CUDA_SUCCESS)
		slots_add(&w.graphs, (uint64_t)(uintptr_t)graph, 0);
	w.capturing = NULL;
	for (size_t i = 0; i < SLOTS; i++)
		if (w.contexts.value[i])
			T(cuCtxSynchronize_v2, ((CUcontext)(uintptr_t)w.contexts.value[i]));
}

int main(int argc, char **argv)
{
	const CUuuid id = FAKE_DRIVER_UUID;
	const struct fake_driver *driver;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	state = settings.seed;
	TRY(cuInit, (0));
	TRY(cuDeviceGetCount, (&w.devices));
	TRY(cuGetExportTable, ((const void **)&driver, &id));
	for (uint64_t round = 1; round <= settings.rounds; round++) {
		for (uint64_t i = 0; i < settings.steps / settings.rounds; i++) {
			step_once();
			if (settings.pause_us && i % PAUSE_STEPS == 0)
				workload_sleep_until(workload_now() + settings.pause_us * 1000);
		}
		drain();
		if (round == settings.rounds)
			tally_print();
		say_books(driver, round);
		workload_hold(-1);
	}
	return 0;
}
