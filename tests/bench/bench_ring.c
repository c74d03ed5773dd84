/* Bench_ring: what a record costs on its way through the ring: its writers, alone and at one time,
 * its reader, and both through the daemon's copy. Prints a table; each figure is the median of
 * several rounds. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/inject/ring.h"
#include "daemon/limits.h"
#include "tests/bench/load.h"

#define ROUNDS	    5
#define PER_ROUND   2000000
#define WRITERS_MAX 4
#define PAIRS	    20000
#define PUTS	    8	      /* a turn */
#define OWN_BYTES   (1 << 20) /* what a program uses itself: */
#define OWN_STRIDE  (1 << 16) /* this much between two records */
#define LINE_BYTES  64

static uint64_t told;

static bool take(void *data, void *record, size_t size)
{
	told += ((const struct ts_event *)record)->start_ns;
	return true;
}

struct writer {
	const struct ts_ring *ring;
	uint32_t count;
	uint64_t full;
};

static void *write_records(void *data)
{
	struct writer *writer = data;
	struct ts_event event = { .kind = TS_EVENT_KERNEL };

	for (uint32_t i = 0; i < writer->count; i++) {
		event.start_ns = i;
		while (ts_ring_put(writer->ring, &event, sizeof(event)) < 0) {
			writer->full++;
			sched_yield();
		}
	}
	return NULL;
}

/* One thread fills the ring, then empties it, in turn: what either costs by itself. */
static void alone(struct inject_ring *ring, double *ret_put_ns, double *ret_get_ns)
{
	struct writer writer = { &ring->reader.ring, LIMIT_INJECT_SLOTS, 0 };
	double put = 0, get = 0, start;
	uint32_t done = 0;

	for (; done < PER_ROUND; done += LIMIT_INJECT_SLOTS) {
		start = now_ns();
		write_records(&writer);
		put += now_ns() - start;
		start = now_ns();
		inject_ring_read(ring, LIMIT_INJECT_SLOTS, take, NULL);
		get += now_ns() - start;
	}
	*ret_put_ns = put / done;
	*ret_get_ns = get / done;
}

static void use_own_memory(uint8_t *own, uint32_t number)
{
	uint8_t *part = own + (size_t)number * OWN_STRIDE % OWN_BYTES;

	for (size_t i = 0; i < OWN_STRIDE; i += LINE_BYTES)
		part[i]++;
}

/* Ns of a turn with or without its puts. */
static double turn(const struct inject_ring *ring, uint8_t *own, uint32_t first, size_t bytes)
{
	struct ts_event event = { .kind = TS_EVENT_KERNEL };
	double start = now_ns();

	for (uint32_t i = 0; i < PUTS; i++) {
		use_own_memory(own, first + i);
		if (bytes)
			ts_ring_put(&ring->reader.ring, &event, bytes);
	}
	return now_ns() - start;
}

/* What a put of `bytes` costs in a program that uses its caches: pairs of turns with and without.
 */
static double in_place(struct inject_ring *ring, size_t bytes)
{
	static uint8_t own[OWN_BYTES];
	static double more[PAIRS];

	for (uint32_t i = 0; i < PAIRS; i++) {
		double first = turn(ring, own, 2 * i * PUTS, i % 2 ? bytes : 0);
		double second = turn(ring, own, (2 * i + 1) * PUTS, i % 2 ? 0 : bytes);

		more[i] = (i % 2 ? first - second : second - first) / PUTS;
		if (i % (LIMIT_INJECT_SLOTS / PUTS) == 0)
			inject_ring_read(ring, LIMIT_INJECT_SLOTS, take, NULL);
	}
	inject_ring_read(ring, LIMIT_INJECT_SLOTS, take, NULL);
	return median(more, PAIRS);
}

/* Writers on threads of their own while we read; ns a record from end to end. */
static double together(struct inject_ring *ring, uint32_t writers, uint64_t *full)
{
	struct writer writer[WRITERS_MAX];
	pthread_t thread[WRITERS_MAX];
	uint32_t left = PER_ROUND / writers * writers;
	double start = now_ns();

	for (uint32_t i = 0; i < writers; i++) {
		writer[i] = (struct writer){ &ring->reader.ring, PER_ROUND / writers, 0 };
		if (pthread_create(&thread[i], NULL, write_records, &writer[i]))
			abort();
	}
	while (left) {
		uint32_t n = inject_ring_read(ring, LIMIT_EVENTS_PER_TURN, take, NULL);

		left -= n;
		if (!n)
			sched_yield();
	}
	start = now_ns() - start;
	for (uint32_t i = 0; i < writers; i++) {
		pthread_join(thread[i], NULL);
		*full += writer[i].full;
	}
	return start / (PER_ROUND / writers * writers);
}

static void print(const char *load, double ns, uint64_t full)
{
	printf("%-40s %10.1f %12.2f %10llu\n", load, ns, 1e3 / ns, (unsigned long long)full);
}

int main(void)
{
	double put[ROUNDS], get[ROUNDS], both[ROUNDS];
	struct inject_ring ring;
	int fd;

	if (inject_ring_open(LIMIT_INJECT_SLOTS, &ring, &fd) < 0)
		return 1;
	for (int r = 0; r < ROUNDS; r++)
		alone(&ring, &put[r], &get[r]);
	printf("%-40s %10s %12s %10s\n", "load", "ns/record", "million/s", "full");
	print("one writer, nobody else", median(put, ROUNDS), 0);
	print("the daemon's copy, nobody else", median(get, ROUNDS), 0);
	print("a record in place", in_place(&ring, sizeof(struct ts_event)), 0);
	print("32 bytes of it in place", in_place(&ring, sizeof(struct ts_event) / 4), 0);
	for (uint32_t writers = 1; writers <= WRITERS_MAX; writers *= 2) {
		uint64_t full = 0;
		char load[64];

		for (int r = 0; r < ROUNDS; r++)
			both[r] = together(&ring, writers, &full);
		snprintf(load, sizeof(load), "%u writer%s into the daemon's copy", writers,
			 writers > 1 ? "s" : "");
		print(load, median(both, ROUNDS), full);
	}
	inject_ring_close(&ring);
	close(fd);
	return told == 0;
}
