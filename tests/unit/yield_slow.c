/* yield_slow: a user of CUPTI whose loading test_yield can stop in the middle: while its slots are
 * not filled in yet, the loader asks which of its functions to take. Nothing of it can be called
 * from there, so it tells by descriptors of fixed numbers. */
#include "tests/unit/yield_slow.h"
#include "tests/unit/yield_cupti.h"

#include <sys/syscall.h>

int slow_start(void);
int slow_chosen(void);
extern int (*volatile slow_function)(void);

static long transfer(long number, long fd)
{
	static char byte;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(fd), "S"(&byte), "d"(1)
			 : "rcx", "r11", "memory");
	return result;
}

static int chosen(void)
{
	return 1;
}

static int (*choose(void))(void)
{
	transfer(SYS_write, YIELD_SLOW_IS_THERE);
	transfer(SYS_read, YIELD_SLOW_MAY_GO_ON);
	return chosen;
}

int slow_chosen(void) __attribute__((ifunc("choose")));

/* The address is needed when it is loaded, before the slots of calls are filled in. */
int (*volatile slow_function)(void) = slow_chosen;

int slow_start(void)
{
	return slow_function() == 1 ? cuptiActivityEnable(10) : -1;
}
