/* What torch_calls.py does, without Python: `torch_program LIBRARY DRIVER [STEPS]` trains until its
 * input ends, so many steps a millisecond (1). */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STEP __attribute__((noinline))
#define KEPT __asm__ volatile("" ::: "memory") /* the call before it is no jump */

STEP void user_first(void);
STEP void user_second(void);
STEP void user_forward(void);

static int (*begin)(const char *driver);
static void (*call)(unsigned width, unsigned launches);
static void (*launch)(unsigned width);
static void (*backward)(void);

void user_first(void)
{
	call(1, 1);
	KEPT;
}

void user_second(void)
{
	call(2, 3);
	KEPT;
}

void user_forward(void)
{
	user_first();
	call(10, 0);
	launch(3);
	call(11, 0);
	user_second();
}

int main(int argc, char **argv)
{
	void *library = dlopen(argc > 2 ? argv[1] : "", RTLD_NOW);
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	int steps = argc > 3 ? atoi(argv[3]) : 1;
	char line[16];

	if (!library)
		return 1;
	begin = dlsym(library, "torch_begin");
	call = dlsym(library, "torch_call");
	launch = dlsym(library, "torch_launch");
	backward = dlsym(library, "torch_backward");
	if (begin(argv[2]))
		return 1;
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	while (poll(&input, 1, 1) == 0)
		for (int i = 0; i < steps; i++) {
			user_forward();
			backward();
		}
	return 0;
}
