/* What ends with a context, what outlives it, and which context a thread is in. */
#include "core_fixture.h"

#define A 0xa000
#define B 0xb000
#define P 0xf00d
#define H 0x1000

static uint64_t live(void)
{
	return stats().allocations;
}

/* The last report of a kind on a device. */
static const struct core_memory *account(uint8_t kind, int16_t device)
{
	static const struct core_memory none;

	for (size_t i = seen.memories; i > 0; i--)
		if (seen.memory[i - 1].kind == kind && seen.memory[i - 1].device == device)
			return &seen.memory[i - 1];
	return &none;
}

static int on_pool(enum fn fn, uint64_t start_ns, uint64_t handle, uint32_t device)
{
	struct ts_event event = call_event(fn, start_ns, start_ns + 1);

	event.api.handle = handle;
	event.api.device = device;
	return give(&event);
}

static int from_pool(uint64_t start_ns, uint64_t address, uint64_t handle)
{
	struct ts_event event = call_event(FN_ALLOC_POOL, start_ns, start_ns + 1);

	event.api.address = address;
	event.api.bytes = 1000;
	event.api.handle = handle;
	return give(&event);
}

/* A process all of whose calls are seen. */
static void begin(void)
{
	struct ts_event event = call_event(FN_INIT, 2, 9);

	announce();
	give(&event);
}

static void context_primary_ends_with_its_last_release(void **state)
{
	begin();
	on_context(FN_RETAIN, 10, 0xc1, 0);
	on_context(FN_RETAIN, 12, 0xc1, 0);
	on_context(FN_CTX_SET, 14, 0xc1, 0);
	on_memory(FN_ALLOC, 20, 21, A, 1000);
	on_context(FN_RELEASE, 30, 0, 0);
	assert_int_equal(live(), 1);
	on_context(FN_RELEASE, 40, 0, 0);
	assert_int_equal(live(), 0);
	/* It comes back under its handle, and is current where it was. */
	on_context(FN_RETAIN, 50, 0xc1, 0);
	on_memory(FN_ALLOC, 60, 61, A, 1000);
	assert_int_equal(last_op(FN_ALLOC)->device, 0);
	on_context(FN_RELEASE, 70, 0, 0);
	assert_int_equal(live(), 0);
	core_checkpoint(core, 80);
	assert_int_equal(account(MEMORY_DEVICE, 0)->live_bytes, 0);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

static void context_primary_of_another_device_stays(void **state)
{
	begin();
	on_context(FN_RETAIN, 10, 0xc1, 0);
	on_context(FN_RETAIN, 12, 0xc2, 1);
	on_context(FN_CTX_SET, 14, 0xc2, 0);
	on_memory(FN_ALLOC, 20, 21, A, 1000);
	on_context(FN_RELEASE, 30, 0, 0);
	assert_int_equal(live(), 1);
}

static void context_primary_under_a_new_handle_is_another_one(void **state)
{
	begin();
	on_context(FN_RETAIN, 10, 0xc1, 0);
	on_context(FN_CTX_SET, 14, 0xc1, 0);
	on_memory(FN_ALLOC, 20, 21, A, 1000);
	on_context(FN_RESET, 22, 0, 0);
	assert_int_equal(live(), 0);
	/* A reset releases nothing: the driver counts two now. */
	on_context(FN_RETAIN, 30, 0xc2, 0);
	on_context(FN_CTX_SET, 32, 0xc2, 0);
	on_memory(FN_ALLOC, 40, 41, B, 1000);
	on_context(FN_RELEASE, 50, 0, 0);
	assert_int_equal(live(), 1);
	on_context(FN_RELEASE, 60, 0, 0);
	assert_int_equal(live(), 0);
}

static void context_retained_before_we_looked_is_not_ended(void **state)
{
	announce();
	on_context(FN_RETAIN, 10, 0xc1, 0);
	on_context(FN_CTX_SET, 12, 0xc1, 0);
	on_memory(FN_ALLOC, 20, 21, A, 1000);
	on_context(FN_RELEASE, 30, 0, 0);
	on_context(FN_RELEASE, 32, 0, 0);
	assert_int_equal(live(), 1);
}

/* Calls inside of the initialization are told before it; one before it means that it was not the
 * first. */
static void context_of_a_process_that_began_before_is_not_ended(void **state)
{
	announce();
	on_memory(FN_ALLOC, 5, 6, A, 1000);
	on_stream(FN_INIT, 10, 20, 0);
	on_context(FN_RETAIN, 30, 0xc1, 0);
	on_context(FN_CTX_SET, 32, 0xc1, 0);
	on_memory(FN_ALLOC, 40, 41, B, 1000);
	on_context(FN_RELEASE, 50, 0, 0);
	assert_int_equal(live(), 2);
	pid = 200;
	announce();
	on_context(FN_RETAIN, 105, 0xc1, 0);
	on_stream(FN_INIT, 100, 110, 0);
	on_context(FN_CTX_SET, 112, 0xc1, 0);
	on_memory(FN_ALLOC, 120, 121, B, 1000);
	on_context(FN_RELEASE, 130, 0, 0);
	pid = 100;
	assert_int_equal(live(), 2);
}

static void context_refused_is_not_current(void **state)
{
	begin();
	on_context(FN_RETAIN, 10, 0xc1, 1);
	on_context(FN_CTX_SET, 12, 0xc1, 0);
	on_context(FN_CTX_SET, 14, 0xbad, 0);
	on_context(FN_CTX_PUSH, 16, 0xbad, 0);
	on_memory(FN_ALLOC, 20, 21, A, 1000);
	assert_int_equal(last_op(FN_ALLOC)->device, 1);
	on_context(FN_CTX_CREATE, 30, 0xc2, 0);
	on_context(FN_CTX_DESTROY, 32, 0xc2, 0);
	on_context(FN_CTX_PUSH, 34, 0xc2, 0);
	on_memory(FN_ALLOC, 40, 41, B, 1000);
	assert_int_equal(last_op(FN_ALLOC)->device, 1);
}

static void context_of_before_we_looked_is_believed(void **state)
{
	announce();
	on_context(FN_RETAIN, 10, 0xc1, 1);
	on_context(FN_CTX_SET, 12, 0xc1, 0);
	on_context(FN_CTX_PUSH, 14, 0xc9, 0);
	on_memory(FN_ALLOC, 20, 21, A, 1000);
	assert_int_equal(last_op(FN_ALLOC)->device, DEVICE_UNKNOWN);
}

static void pool_memory_is_on_the_device_of_its_pool(void **state)
{
	begin();
	on_context(FN_CTX_CREATE, 10, 0xc1, 0);
	on_pool(FN_POOL_KNOWN, 12, P, 1);
	from_pool(14, A, P);
	assert_int_equal(last_op(FN_ALLOC_POOL)->device, 1);
	from_pool(16, B, 0xbad);
	assert_int_equal(last_op(FN_ALLOC_POOL)->device, DEVICE_UNKNOWN);
	on_pool(FN_POOL_DESTROY, 18, P, 0);
	on_context(FN_CTX_DESTROY, 20, 0xc1, 0);
	assert_int_equal(live(), 2); /* both outlive pool and context */
	core_checkpoint(core, 30);
	assert_int_equal(account(MEMORY_POOL, 1)->live_bytes, 1000);
	on_memory(FN_FREE, 40, 41, A, 0);
	assert_int_equal(last_op(FN_FREE)->device, 1);
	core_checkpoint(core, 50);
	assert_int_equal(account(MEMORY_POOL, 1)->live_bytes, 0);
	/* Its handle is given out again, by another device. */
	on_pool(FN_POOL_KNOWN, 60, P, 0);
	from_pool(62, A, P);
	assert_int_equal(last_op(FN_ALLOC_POOL)->device, 0);
}

static void pool_of_the_host_is_on_no_device(void **state)
{
	struct ts_event event = call_event(FN_POOL_KNOWN, 12, 13);

	begin();
	on_context(FN_CTX_CREATE, 10, 0xc1, 0);
	event.api.handle = P;
	event.api.value = 3;
	event.api.device = 0; /* a NUMA node */
	give(&event);
	from_pool(14, A, P);
	assert_int_equal(last_op(FN_ALLOC_POOL)->device, DEVICE_UNKNOWN);
}

static void physical_memory_is_on_the_device_it_is_made_for(void **state)
{
	struct ts_event event = call_event(FN_MEM_CREATE, 12, 13);

	begin();
	on_context(FN_CTX_CREATE, 10, 0xc1, 0);
	event.api.address = H;
	event.api.bytes = 4096;
	event.api.value = 1;
	event.api.device = 1;
	give(&event);
	assert_int_equal(last_op(FN_MEM_CREATE)->device, 1);
	on_context(FN_CTX_DESTROY, 20, 0xc1, 0);
	assert_int_equal(live(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(context_primary_ends_with_its_last_release),
		STORY(context_primary_of_another_device_stays),
		STORY(context_primary_under_a_new_handle_is_another_one),
		STORY(context_retained_before_we_looked_is_not_ended),
		STORY(context_of_a_process_that_began_before_is_not_ended),
		STORY(context_refused_is_not_current),
		STORY(context_of_before_we_looked_is_believed),
		STORY(pool_memory_is_on_the_device_of_its_pool),
		STORY(pool_of_the_host_is_on_no_device),
		STORY(physical_memory_is_on_the_device_it_is_made_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
