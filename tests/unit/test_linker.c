/* test_linker: who waits for links holds up neither the loop nor its pool, and what was asked for
 * is done before the loop ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/probe/linker.h"

#define STUCK 12 /* more than it has threads, and more than the pool has */

static uv_sem_t lets_go;
static uv_thread_t loops;
static uint32_t runs, dones;
static uv_mutex_t lock;

static void run_later(struct linking *linking)
{
	uv_sem_wait(&lets_go);
	uv_mutex_lock(&lock);
	runs++;
	uv_mutex_unlock(&lock);
}

static void done(struct linking *linking)
{
	uv_thread_t self = uv_thread_self();

	assert_true(uv_thread_equal(&self, &loops));
	dones++;
}

static void let_go(void)
{
	for (uint32_t i = 0; i < STUCK; i++)
		uv_sem_post(&lets_go);
}

static void nothing(uv_work_t *work)
{
}

/* The pool is free: only now may they go on. */
static void on_nothing(uv_work_t *work, int status)
{
	assert_int_equal(dones, 0);
	let_go();
}

static void begin(uv_loop_t *loop, struct linker **ret)
{
	loops = uv_thread_self();
	runs = dones = 0;
	assert_int_equal(uv_sem_init(&lets_go, 0), 0);
	assert_int_equal(uv_mutex_init(&lock), 0);
	assert_int_equal(uv_loop_init(loop), 0);
	assert_int_equal(linker_new(loop, ret), 0);
}

static void end(uv_loop_t *loop, struct linker *linker)
{
	assert_int_equal(uv_run(loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(loop), 0);
	linker_free(linker);
	uv_mutex_destroy(&lock);
	uv_sem_destroy(&lets_go);
}

static void test_the_pool_has_its_turn(void **state)
{
	struct linking stuck[STUCK];
	struct linker *linker;
	uv_work_t work;
	uv_loop_t loop;

	begin(&loop, &linker);
	for (uint32_t i = 0; i < STUCK; i++)
		assert_int_equal(linker_add(linker, &stuck[i], run_later, done), 0);
	assert_int_equal(uv_queue_work(&loop, &work, nothing, on_nothing), 0);
	/* It ends by itself when all is done. */
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(runs, STUCK);
	assert_int_equal(dones, STUCK);
	linker_close(linker);
	end(&loop, linker);
}

static void test_what_it_has_is_done_when_it_is_closed(void **state)
{
	struct linking stuck[STUCK], late;
	struct linker *linker;
	uv_loop_t loop;

	begin(&loop, &linker);
	for (uint32_t i = 0; i < STUCK; i++)
		assert_int_equal(linker_add(linker, &stuck[i], run_later, done), 0);
	linker_close(linker);
	assert_int_equal(linker_add(linker, &late, run_later, done), -ECANCELED);
	let_go();
	end(&loop, linker);
	assert_int_equal(dones, STUCK);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_pool_has_its_turn),
		cmocka_unit_test(test_what_it_has_is_done_when_it_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
