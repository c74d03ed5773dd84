/* test_yield: another module calls CUPTI, and we have left it before the call arrives. */
#include "cupti_fixture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "core/base/clock.h"
#include "inject/got.h"
#include "inject/launcher.h"
#include "inject/yield.h"
#include "tests/unit/yield_cupti.h"
#include "tests/unit/yield_slow.h"

#define QUIET_NS 400000000ull

static struct {
	void *library, *user;
	struct yield_log *log;
	struct cupti cupti;
	int (*subscribe)(void), (*switch_on)(void), (*start)(void), (*stop)(void);
	int (*unsubscribe)(void), (*finalize)(void);
	void *(*slot)(void);
} world;
static unsigned aside_count, aside_at; /* where the log was */
static char aside_who[64];
static void *our_handle;

static void our_callback(void *data, uint32_t domain, uint32_t cbid, const void *call)
{
}

/* As cupti.c does it. */
static void take(void)
{
	assert_true(yield_lock());
	yield_take();
	assert_int_equal(world.cupti.subscribe(&our_handle, our_callback, NULL), CUPTI_OK);
	yield_unlock();
}

static void aside(const char *who)
{
	aside_count++;
	aside_at = world.log->count;
	snprintf(aside_who, sizeof(aside_who), "%s", who);
	world.cupti.unsubscribe(our_handle);
	yield_give();
}

static void load_user(void)
{
	world.user = dlopen(YIELD_USER, RTLD_NOW | RTLD_LOCAL);
	if (!world.user)
		fail_msg("%s", dlerror());
#define FIND(field, symbol) *(void **)&world.field = dlsym(world.user, symbol)
	FIND(subscribe, "user_subscribe");
	FIND(switch_on, "user_switch");
	FIND(start, "user_start");
	FIND(stop, "user_stop");
	FIND(unsubscribe, "user_unsubscribe");
	FIND(finalize, "user_finalize");
	FIND(slot, "user_slot");
#undef FIND
}

static int setup(void **state)
{
	world.library = dlopen(YIELD_CUPTI, RTLD_NOW | RTLD_GLOBAL);
	if (!world.library)
		fail_msg("%s", dlerror());
	load_user();
	world.log = dlsym(world.library, "yield_log");
	memset(world.log, 0, sizeof(*world.log));
	world.cupti = (struct cupti){ .handle = world.library };
	*(void **)&world.cupti.subscribe = dlsym(world.library, "cuptiSubscribe");
	*(void **)&world.cupti.unsubscribe = dlsym(world.library, "cuptiUnsubscribe");
	aside_count = 0;
	yield_watch(&world.cupti, aside);
	return 0;
}

static int teardown(void **state)
{
	assert_true(yield_unwatch());
	assert_ptr_equal(world.slot(), dlsym(world.library, "cuptiActivityEnable"));
	dlclose(world.user);
	dlclose(world.library);
	return 0;
}

static bool log_has(enum yield_call call, unsigned from)
{
	for (unsigned i = from; i < world.log->count; i++)
		if (world.log->entry[i].call == call)
			return true;
	return false;
}

static bool is_free_at(uint64_t now_ns)
{
	bool r;

	assert_true(yield_lock());
	r = yield_is_free(now_ns);
	yield_unlock();
	return r;
}

static bool is_free(void)
{
	return is_free_at(clock_ns(CLOCK_MONOTONIC));
}

/* Once he has been quiet long enough. */
static bool is_free_later(void)
{
	return is_free_at(clock_ns(CLOCK_MONOTONIC) + QUIET_NS);
}

static void slots_are_turned_and_turned_back(void **state)
{
	void *real = dlsym(world.library, "cuptiActivityEnable");

	assert_ptr_not_equal(world.slot(), real);
	assert_true(yield_unwatch());
	assert_ptr_equal(world.slot(), real);
	yield_watch(&world.cupti, aside);
	assert_ptr_not_equal(world.slot(), real);
}

static void module_that_comes_later_is_seen_in_the_next_look(void **state)
{
	dlclose(world.user);
	load_user();
	yield_watch(&world.cupti, aside);
	take();
	assert_int_equal(world.start(), 0);
	assert_int_equal(aside_count, 1);
}

static void a_module_that_may_use_cupti_is_expected_once(void **state)
{
	char who[64] = "";

	assert_false(yield_expects(&world.cupti, who, sizeof(who)));
	dlclose(world.user);
	load_user();
	assert_true(yield_expects(&world.cupti, who, sizeof(who)));
	assert_non_null(strstr(who, "yield_user"));
	assert_false(yield_expects(&world.cupti, who, sizeof(who)));
	assert_true(yield_lock());
	yield_expect(clock_ns(CLOCK_MONOTONIC));
	yield_unlock();
	assert_false(is_free());
	assert_true(is_free_later());
}

static sem_t slow_is_there;

static void *load_slow(void *unused)
{
	return dlopen(YIELD_SLOW, RTLD_LAZY | RTLD_LOCAL);
}

static int slow_calls;

static int slow_called(unsigned kind)
{
	slow_calls++;
	return 0;
}

static void turn_slow(void)
{
	const struct got_hook hook = { "cuptiActivityEnable", (void *)slow_called };

	got_turn(&hook, 1, (const void *)world.cupti.subscribe);
}

/* A thread that is made while the loader is at work would wait for it. */
static void *watch_slow(void *done)
{
	char who[64];

	sem_wait(&slow_is_there);
	/* It is in the list already. */
	assert_true(yield_expects(&world.cupti, who, sizeof(who)));
	turn_slow();
	__atomic_store_n((int *)done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void slots_that_are_not_filled_in_yet_are_left_alone(void **state)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	pthread_t loader, watcher;
	int there[2], go_on[2], done = 0;
	int (*start)(void);
	void *slow = NULL;
	char byte = 0;

	assert_true(yield_unwatch());
	assert_int_equal(pipe(there) | pipe(go_on), 0);
	assert_int_equal(dup2(there[1], YIELD_SLOW_IS_THERE), YIELD_SLOW_IS_THERE);
	assert_int_equal(dup2(go_on[0], YIELD_SLOW_MAY_GO_ON), YIELD_SLOW_MAY_GO_ON);
	sem_init(&slow_is_there, 0, 0);
	assert_int_equal(pthread_create(&watcher, NULL, watch_slow, &done), 0);
	assert_int_equal(pthread_create(&loader, NULL, load_slow, NULL), 0);
	assert_int_equal(read(there[0], &byte, 1), 1);
	sem_post(&slow_is_there);
	/* It waits for the loader, or has done something wrong at once. */
	for (int ms = 0; ms < 200 && !__atomic_load_n(&done, __ATOMIC_ACQUIRE); ms++)
		nanosleep(&pause, NULL);
	assert_int_equal(write(go_on[1], &byte, 1), 1);
	pthread_join(loader, &slow);
	pthread_join(watcher, NULL);
	assert_non_null(slow);
	/* One that came in between is seen in the next look. */
	turn_slow();
	*(void **)&start = dlsym(slow, "slow_start");
	assert_int_equal(start(), 0);
	assert_int_equal(slow_calls, 1);
	got_restore();
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(go_on[i]);
	}
	close(YIELD_SLOW_IS_THERE);
	close(YIELD_SLOW_MAY_GO_ON);
	dlclose(slow);
}

static void we_leave_before_his_first_call_arrives(void **state)
{
	uint64_t before_ns;

	take();
	assert_true(is_free());
	assert_int_equal(world.subscribe(), 0);
	assert_int_equal(aside_count, 1);
	assert_non_null(strstr(aside_who, "yield_user"));
	assert_false(log_has(YIELD_REGISTER, 0));
	assert_ptr_not_equal(world.log->callback, (void *)our_callback);
	assert_int_equal(world.start(), 0);
	assert_int_equal(aside_count, 1);
	assert_false(is_free());
	before_ns = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(world.stop(), 0);
	assert_int_equal(world.unsubscribe(), 0);
	assert_false(is_free_at(before_ns)); /* he was here just now */
	assert_true(is_free_later());
	assert_true(yield_is_used()); /* his buffer callbacks are CUPTI's still */
}

static void while_he_records_cupti_is_never_free(void **state)
{
	assert_int_equal(world.start(), 0);
	assert_false(is_free_later());
	world.stop();
	assert_true(is_free_later());
}

static void what_he_holds_idly_is_put_away_and_given_back(void **state)
{
	void *callback, *request, *handle;
	unsigned mark;

	assert_int_equal(world.subscribe(), 0);
	assert_int_equal(world.switch_on(), 0);
	assert_int_equal(world.start(), 0);
	assert_int_equal(world.stop(), 0);
	callback = world.log->callback;
	request = world.log->request;
	handle = world.log->subscriber;
	assert_true(is_free_later());
	take();
	assert_ptr_equal(world.log->callback, (void *)our_callback);
	world.log->request = NULL; /* ours now */
	mark = world.log->count;
	/* With the handle that he knows. */
	assert_int_equal(world.switch_on(), 0);
	assert_int_equal(aside_count, 1);
	assert_ptr_equal(world.log->callback, callback);
	assert_ptr_equal(world.log->request, request);
	assert_ptr_not_equal(world.log->subscriber, handle);
	assert_true(log_has(YIELD_SUBSCRIBE, mark) && log_has(YIELD_SWITCH, mark));
	assert_int_equal(world.start(), 0);
	assert_int_equal(world.stop(), 0);
	assert_int_equal(world.unsubscribe(), 0);
	assert_null(world.log->subscriber);
}

static void what_he_switches_off_while_we_record_stays_on_for_us(void **state)
{
	unsigned mark;

	world.subscribe();
	assert_true(is_free_later());
	take();
	mark = world.log->count;
	assert_int_equal(world.stop(), 0);
	assert_int_equal(world.unsubscribe(), 0);
	assert_int_equal(world.log->count, mark);
	assert_int_equal(aside_count, 0);
	assert_ptr_equal(world.log->callback, (void *)our_callback);
}

static void who_was_seen_to_register_will_do_so_again(void **state)
{
	assert_false(yield_registers_anew());
	assert_true(got_is_in("libyield_user"));
	assert_false(got_is_in("libtorch_"));
	assert_int_equal(world.start(), 0);
	assert_true(yield_registers_anew());
	world.stop();
}

static void he_finalizes_cupti_only_after_we_have_left(void **state)
{
	take();
	assert_int_equal(world.finalize(), 0);
	assert_int_equal(aside_count, 1);
	assert_true(log_has(YIELD_FINALIZE, aside_at));
	assert_true(is_free_later());
	assert_false(yield_is_used());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(slots_are_turned_and_turned_back),
		TEST(module_that_comes_later_is_seen_in_the_next_look),
		TEST(a_module_that_may_use_cupti_is_expected_once),
		TEST(slots_that_are_not_filled_in_yet_are_left_alone),
		TEST(we_leave_before_his_first_call_arrives),
		TEST(while_he_records_cupti_is_never_free),
		TEST(what_he_holds_idly_is_put_away_and_given_back),
		TEST(what_he_switches_off_while_we_record_stays_on_for_us),
		TEST(who_was_seen_to_register_will_do_so_again),
		TEST(he_finalizes_cupti_only_after_we_have_left),
	};

	return cmocka_run_group_tests_name("yield", tests, NULL, NULL);
}
