/* test_remover: what cannot be taken off now is tried again, and nobody waits behind it. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/time.h"
#include "daemon/probe/remover.h"

#define DEADLINE_MS 60000
#define STUCK	    8 /* more than there are threads */

static atomic_bool lets_go;
static atomic_uint tries;

static bool take_off_later(struct removal *removal)
{
	tries++;
	return lets_go;
}

static bool take_off_now(struct removal *removal)
{
	return true;
}

static void wait_until(struct remover *remover, uint32_t waiting)
{
	for (uint32_t i = 0; i < DEADLINE_MS && remover_waiting(remover) > waiting; i++)
		poll(NULL, 0, 1);
	assert_int_equal(remover_waiting(remover), waiting);
}

static void test_others_have_their_turn(void **state)
{
	struct removal stuck[STUCK], other;
	struct remover *remover;

	lets_go = false;
	assert_int_equal(remover_new(&remover), 0);
	for (uint32_t i = 0; i < STUCK; i++)
		remover_add(remover, &stuck[i], take_off_later);
	remover_add(remover, &other, take_off_now);
	wait_until(remover, STUCK);
	for (uint32_t i = 0; i < DEADLINE_MS && tries <= 2 * STUCK; i++)
		poll(NULL, 0, 1);
	assert_true(tries > 2 * STUCK);
	assert_int_equal(remover_waiting(remover), STUCK);
	lets_go = true;
	wait_until(remover, 0);
	assert_int_equal(remover_free(remover, DEADLINE_MS * (uint64_t)NS_PER_MS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_others_have_their_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
