/* The ledger: what is missed is told while it goes on, once as new, and by whoever holds it to the
 * end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/ledger.h"

#define TOLD_MAX 16

struct told {
	uint32_t pid;
	enum loss_reason reason;
	uint64_t since_ns, until_ns;
	bool first, last, certain;
};

static struct told told[TOLD_MAX];
static uint32_t count;
static bool matters = true;
static struct ledger *ends; /* all of a process, as soon as some of it does */

static bool on_tell(void *data, const struct ledger_entry *entry, uint64_t until_ns, bool last)
{
	assert_true(count < TOLD_MAX);
	told[count++] = (struct told){ entry->pid,   entry->reason, entry->since_ns, until_ns,
				       !entry->told, last,	    entry->certain };
	if (ends && last)
		ledger_end(ends, entry->pid, until_ns);
	return matters;
}

static void begin(struct ledger *ledger)
{
	ledger_init(ledger, on_tell, NULL);
	count = 0;
	matters = true;
	ends = NULL;
}

#define ASSERT_TOLD(n, PID, SINCE, UNTIL, FIRST, LAST)                                             \
	do {                                                                                       \
		assert_int_equal(told[n].pid, PID);                                                \
		assert_int_equal(told[n].since_ns, SINCE);                                         \
		assert_int_equal(told[n].until_ns, UNTIL);                                         \
		assert_int_equal(told[n].first, FIRST);                                            \
		assert_int_equal(told[n].last, LAST);                                              \
	} while (0)

static void what_goes_on_is_told_each_time(void **state)
{
	struct ledger ledger;

	begin(&ledger);
	ledger_open(&ledger, 7, LOSS_GAP, LEDGER_LINKS, 100);
	ledger_open(&ledger, 8, LOSS_WINDOWS, LEDGER_PRICE, 150);
	ledger_tell(&ledger, 100);
	assert_int_equal(count, 0);
	ledger_tell(&ledger, 200);
	assert_int_equal(count, 2);
	ASSERT_TOLD(0, 7, 100, 200, true, false);
	ASSERT_TOLD(1, 8, 150, 200, true, false);
	assert_false(told[0].certain);
	assert_true(told[1].certain);
	ledger_tell(&ledger, 300);
	ASSERT_TOLD(2, 7, 100, 300, false, false);
	ledger_close(&ledger, 7, LOSS_GAP, LEDGER_LINKS, 400);
	assert_int_equal(count, 5);
	ASSERT_TOLD(4, 7, 100, 400, false, true);
	/* It is not open any more. */
	ledger_close(&ledger, 7, LOSS_GAP, LEDGER_LINKS, 500);
	ledger_close(&ledger, 8, LOSS_GAP, LEDGER_PRICE, 500);
	ledger_close(&ledger, 8, LOSS_WINDOWS, LEDGER_FLOOD, 500);
	assert_int_equal(count, 5);
	ledger_release(&ledger);
}

static void it_lasts_until_the_last_holder_lets_go(void **state)
{
	struct ledger ledger;

	begin(&ledger);
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 100);
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 90);
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_PRICE, 120);
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_PRICE, 130); /* again */
	ledger_close(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 200);
	ledger_close(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 210);
	assert_int_equal(count, 0);
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 220);
	ledger_close(&ledger, 7, LOSS_WINDOWS, LEDGER_PRICE, 230);
	ledger_drop(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS);
	assert_int_equal(count, 0);
	/* Once told, it has its start. */
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 300);
	ledger_tell(&ledger, 310);
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_COPY, 250);
	ledger_close(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 320);
	ledger_close(&ledger, 7, LOSS_WINDOWS, LEDGER_COPY, 330);
	assert_int_equal(count, 2);
	ASSERT_TOLD(1, 7, 300, 330, false, true);
	ledger_release(&ledger);
}

static void what_does_not_matter_yet_is_new_later(void **state)
{
	struct ledger ledger;

	begin(&ledger);
	matters = false;
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 100);
	ledger_tell(&ledger, 200);
	matters = true;
	ledger_tell(&ledger, 300);
	ledger_tell(&ledger, 400);
	assert_int_equal(count, 3);
	ASSERT_TOLD(0, 7, 100, 200, true, false);
	ASSERT_TOLD(1, 7, 100, 300, true, false);
	ASSERT_TOLD(2, 7, 100, 400, false, false);
	ledger_release(&ledger);
	assert_int_equal(count, 3);
}

static void an_end_closes_all_of_a_process(void **state)
{
	struct ledger ledger;

	begin(&ledger);
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 100);
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_FLOOD, 110);
	ledger_open(&ledger, 7, LOSS_GAP, LEDGER_COPY, 120);
	ledger_open(&ledger, 8, LOSS_GAP, LEDGER_COPY, 130);
	ledger_end(&ledger, 7, 200);
	assert_int_equal(count, 2);
	ASSERT_TOLD(0, 7, 100, 200, true, true);
	ASSERT_TOLD(1, 7, 120, 200, true, true);
	/* Whoever held it lets go in vain. */
	ledger_close(&ledger, 7, LOSS_WINDOWS, LEDGER_FLOOD, 300);
	ledger_close(&ledger, 7, LOSS_GAP, LEDGER_COPY, 300);
	assert_int_equal(count, 2);
	ledger_tell(&ledger, 300);
	ASSERT_TOLD(2, 8, 130, 300, true, false);
	ledger_release(&ledger);
}

static void an_end_within_an_end_is_one(void **state)
{
	struct ledger ledger;

	begin(&ledger);
	for (int i = 0; i < 2; i++) {
		ends = NULL;
		ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 100);
		ledger_open(&ledger, 7, LOSS_GAP, LEDGER_COPY, 120);
		ends = &ledger;
		if (i == 0)
			ledger_end(&ledger, 7, 200);
		else
			ledger_close(&ledger, 7, LOSS_GAP, LEDGER_COPY, 200);
		assert_int_equal(count, 2 * (i + 1));
	}
	ledger_release(&ledger);
}

static void what_a_child_had_from_its_parent_is_forgotten(void **state)
{
	struct ledger ledger;

	begin(&ledger);
	ledger_open(&ledger, 7, LOSS_WINDOWS, LEDGER_LINKS, 100)->child = true;
	ledger_open(&ledger, 7, LOSS_GAP, LEDGER_LINKS, 110);
	ledger_open(&ledger, 8, LOSS_GAP, LEDGER_LINKS, 120)->child = true;
	ledger_forget_child(&ledger, 7);
	ledger_end(&ledger, 7, 200);
	assert_int_equal(count, 1);
	ASSERT_TOLD(0, 7, 110, 200, true, true);
	/* Not what has been told. */
	ledger_tell(&ledger, 200);
	ledger_forget_child(&ledger, 8);
	ledger_end(&ledger, 8, 300);
	assert_int_equal(count, 3);
	ASSERT_TOLD(2, 8, 120, 300, false, true);
	ledger_release(&ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_on_is_told_each_time),
		cmocka_unit_test(it_lasts_until_the_last_holder_lets_go),
		cmocka_unit_test(what_does_not_matter_yet_is_new_later),
		cmocka_unit_test(an_end_closes_all_of_a_process),
		cmocka_unit_test(an_end_within_an_end_is_one),
		cmocka_unit_test(what_a_child_had_from_its_parent_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
