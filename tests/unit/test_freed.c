/* test_freed: a process is counted while it frees few code objects, and never without a probe. The
 * linker and the probes are doubles. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/limits.h"
#include "daemon/probe/freed.h"

#define PID    4242
#define USER   1000
#define OFFSET 0x1234
#define PUSH   0x55
#define MOV    0x89
#define BEGIN  (UINT64_MAX / 2) /* later than the clock */

static struct world {
	bool single;
	uint8_t code[8]; /* of the function */
	uint64_t offset; /* of the probe in it */
	int error;	 /* of the next probe */
	uint32_t told;
	uint32_t stubs, made;
	struct probe_freed count[PROBE_FREED_MAX];
	struct linking *linking[PROBE_FREED_MAX + 1];
	uint32_t linkings;
} world;

struct probe_stub {
	uint32_t place;
};

void probe_stats(struct probe *probe, struct probe_stats *ret, struct probe_counters *per_cpu,
		 uint32_t max)
{
	*ret = (struct probe_stats){ .single = world.single };
}

struct probe_freed *probe_freed(struct probe *probe)
{
	return world.count;
}

int probe_freed_new(struct probe *probe, int fd, uint64_t offset, uint32_t pid, uint32_t place,
		    struct probe_stub **ret)
{
	assert_true(fd >= 0 && fcntl(fd, F_GETFD) >= 0);
	assert_int_equal(offset, OFFSET + world.offset);
	assert_int_equal(world.count[place].owner, 0);
	if (world.error)
		return world.error;
	*ret = calloc(1, sizeof(**ret));
	assert_non_null(*ret);
	(*ret)->place = place;
	world.stubs++;
	world.made++;
	return 0;
}

struct probe_stub *probe_stub_end(struct probe_stub *stub, struct remover *remover)
{
	if (stub)
		assert_int_equal(world.count[stub->place].owner, 0);
	world.stubs -= stub != NULL;
	free(stub);
	return NULL;
}

int linker_add(struct linker *linker, struct linking *linking, void (*run)(struct linking *linking),
	       void (*done)(struct linking *linking))
{
	linking->run = run;
	linking->done = done;
	world.linking[world.linkings++] = linking;
	return 0;
}

static void link_all(void)
{
	uint32_t count = world.linkings;

	world.linkings = 0;
	for (uint32_t i = 0; i < count; i++) {
		world.linking[i]->run(world.linking[i]);
		world.linking[i]->done(world.linking[i]);
	}
}

static void on_counted(void *data, uint32_t pid, uint32_t objects)
{
	assert_int_equal(pid, PID);
	world.told += objects;
}

static struct freed *begin(bool single)
{
	struct freed *freed;

	world = (struct world){ .single = single, .code = { PUSH, PUSH } };
	assert_int_equal(freed_new(NULL, NULL, NULL, on_counted, NULL, &freed), 0);
	return freed;
}

static uint16_t add(struct freed *freed, uint32_t pid)
{
	int file = memfd_create("python", MFD_CLOEXEC);
	uint16_t place;

	assert_int_equal(pwrite(file, world.code, sizeof(world.code), OFFSET), sizeof(world.code));
	place = freed_add(freed, pid, USER, file, OFFSET);

	assert_true(place || fcntl(file, F_GETFD) < 0);
	return place;
}

static void end(struct freed *freed)
{
	freed_close(freed);
	link_all();
	assert_int_equal(world.stubs, 0);
	for (uint32_t i = 0; i < PROBE_FREED_MAX; i++)
		assert_int_equal(world.count[i].owner, 0);
	assert_int_equal(add(freed, PID), 0);
	freed_free(freed);
}

static uint32_t counted(const struct freed *freed)
{
	struct freed_stats stats;

	freed_stats(freed, &stats);
	return stats.counted;
}

static void a_process_is_counted_from_its_probe_to_its_end(void **state)
{
	struct freed *freed = begin(true);
	struct probe_freed *count;
	uint16_t place = add(freed, PID);
	uint64_t before;

	assert_true(place > 0);
	count = &world.count[place - 1];
	assert_int_equal(count->owner, 0);
	link_all();
	assert_int_equal((uint32_t)count->owner, PID);
	assert_int_equal(counted(freed), 1);
	before = count->owner;
	freed_forget(freed, PID + 1);
	assert_int_equal(count->owner, before);
	freed_forget(freed, PID);
	assert_int_equal(count->owner, 0);
	assert_int_equal(world.stubs, 0);
	/* Another program of the same process: what threads still hold is of the one before. */
	add(freed, PID);
	link_all();
	assert_int_not_equal(count->owner, before);
	end(freed);
}

static void who_has_ended_before_his_probe_is_on_is_not_counted(void **state)
{
	struct freed *freed = begin(true);
	uint16_t place = add(freed, PID);

	freed_forget(freed, PID);
	link_all();
	assert_int_equal(world.made, 1);
	assert_int_equal(world.stubs, 0);
	assert_int_equal(world.count[place - 1].owner, 0);
	end(freed);
}

static void who_frees_too_many_is_not_counted_for_a_while(void **state)
{
	struct freed *freed = begin(true);
	struct probe_freed *count = &world.count[add(freed, PID) - 1];
	uint64_t now_ns = BEGIN;
	struct freed_stats stats;

	link_all();
	freed_tick(freed, now_ns);
	for (uint32_t i = 0; i < 4; i++) {
		count->count += LIMIT_PYTHON_FREED_PER_S;
		freed_tick(freed, now_ns += NS_PER_S);
		assert_int_equal(world.stubs, 1);
	}
	count->count += LIMIT_PYTHON_FREED_PER_S + 1;
	freed_tick(freed, now_ns += NS_PER_S / 8);
	assert_int_equal(count->owner, 0);
	assert_int_equal(world.stubs, 0);
	freed_tick(freed, now_ns + LIMIT_PYTHON_UNCOUNTED_MIN_NS - 1);
	assert_int_equal(world.linkings, 0);
	freed_tick(freed, now_ns + LIMIT_PYTHON_UNCOUNTED_MIN_NS);
	link_all();
	assert_int_equal(world.stubs, 1);
	assert_int_equal((uint32_t)count->owner, PID);
	freed_stats(freed, &stats);
	assert_int_equal(stats.paused, 1);
	assert_int_equal(world.told, 5 * LIMIT_PYTHON_FREED_PER_S + 1);
	end(freed);
}

/* How long it is then not counted. */
static uint64_t free_too_many(struct freed *freed, struct probe_freed *count, uint64_t *now_ns)
{
	uint64_t paused_ns;

	freed_tick(freed, *now_ns);
	count->count += LIMIT_PYTHON_FREED_PER_S + 1;
	freed_tick(freed, *now_ns);
	assert_int_equal(world.stubs, 0);
	for (paused_ns = 0; !world.linkings; paused_ns += NS_PER_S)
		freed_tick(freed, *now_ns += NS_PER_S);
	link_all();
	assert_int_equal(world.stubs, 1);
	return paused_ns;
}

static void who_goes_on_is_not_counted_for_longer_each_time(void **state)
{
	struct freed *freed = begin(true);
	struct probe_freed *count = &world.count[add(freed, PID) - 1];
	uint64_t now_ns = BEGIN, pause_ns = LIMIT_PYTHON_UNCOUNTED_MIN_NS;

	link_all();
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(free_too_many(freed, count, &now_ns), pause_ns);
		pause_ns = pause_ns < LIMIT_PYTHON_UNCOUNTED_MAX_NS / 2
				   ? 2 * pause_ns
				   : LIMIT_PYTHON_UNCOUNTED_MAX_NS;
	}
	freed_tick(freed, now_ns);
	now_ns += LIMIT_PYTHON_UNCOUNTED_MAX_NS + NS_PER_S;
	freed_tick(freed, now_ns);
	assert_int_equal(free_too_many(freed, count, &now_ns), LIMIT_PYTHON_UNCOUNTED_MIN_NS);
	end(freed);
}

static void a_lock_that_is_kept_is_waited_for(void **state)
{
	struct freed *freed = begin(true);
	uint16_t place = add(freed, PID);

	world.error = -EBUSY;
	link_all();
	assert_int_equal(world.count[place - 1].owner, 0);
	world.error = 0;
	freed_tick(freed, BEGIN);
	link_all();
	assert_int_equal((uint32_t)world.count[place - 1].owner, PID);
	end(freed);
}

static void a_probe_that_is_refused_is_not_tried_again(void **state)
{
	struct freed *freed = begin(true);

	add(freed, PID);
	world.error = -EPERM;
	link_all();
	world.error = 0;
	freed_tick(freed, BEGIN);
	assert_int_equal(world.linkings, 0);
	assert_int_equal(counted(freed), 0);
	end(freed);
}

static void a_probe_is_never_single_stepped(void **state)
{
	const uint8_t passed[] = { 0xf3, 0x0f, 0x1e, 0xfa, PUSH, PUSH };
	struct freed *freed = begin(true);

	memcpy(world.code, passed, sizeof(passed));
	world.offset = 4;
	add(freed, PID);
	link_all();
	assert_int_equal(counted(freed), 1);
	world.code[4] = MOV;
	add(freed, PID);
	link_all();
	assert_int_equal(counted(freed), 0);
	assert_int_equal(world.made, 1);
	end(freed);
}

static void a_user_has_half_of_the_places(void **state)
{
	struct freed *freed = begin(true);
	uint32_t count = 0;

	while (count < PROBE_FREED_MAX && add(freed, PID + count))
		count++;
	assert_int_equal(count, PROBE_FREED_MAX / 2);
	link_all();
	assert_int_equal(counted(freed), count);
	freed_forget(freed, PID);
	assert_true(add(freed, PID));
	end(freed);
}

static void without_links_to_one_process_nobody_is_counted(void **state)
{
	struct freed *freed = begin(false);

	assert_int_equal(add(freed, PID), 0);
	assert_int_equal(world.linkings, 0);
	end(freed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_is_counted_from_its_probe_to_its_end),
		cmocka_unit_test(who_has_ended_before_his_probe_is_on_is_not_counted),
		cmocka_unit_test(who_frees_too_many_is_not_counted_for_a_while),
		cmocka_unit_test(who_goes_on_is_not_counted_for_longer_each_time),
		cmocka_unit_test(a_lock_that_is_kept_is_waited_for),
		cmocka_unit_test(a_probe_that_is_refused_is_not_tried_again),
		cmocka_unit_test(a_probe_is_never_single_stepped),
		cmocka_unit_test(a_user_has_half_of_the_places),
		cmocka_unit_test(without_links_to_one_process_nobody_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
