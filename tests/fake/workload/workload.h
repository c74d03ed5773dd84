/* Workload: what the workload programs share. Each call of the driver goes through T(), which
 * counts it and its result, so that a program can print exactly what it did.
 * Programs name the symbols themselves (cuMemAlloc_v2), not what cuda.h maps to them. */
#pragma once

#include <cuda.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/array.h"

#define F(since, name, need, params, args, call) TALLY_##name,
#define S(since, name, need, params, args, call) TALLY_##name, TALLY_##name##_ptsz,
#define D(since, name, need, params, args, call) TALLY_##name, TALLY_##name##_ptds,
enum tally_function {
#include "api.def"
	TALLY_COUNT,
};

/* Calls a driver function, counts call and result, and gives the result. */
#define T(function, args) tally_note(TALLY_##function, function args)

/* The same where a failure means that the program itself is wrong. */
#define TRY(function, args)                                                                        \
	do {                                                                                       \
		CUresult _r = T(function, args);                                                   \
		if (_r != CUDA_SUCCESS)                                                            \
			workload_die(#function, _r, __FILE__, __LINE__);                           \
	} while (0)

#define NOINLINE __attribute__((noinline))

/* PTX, so that the same program also runs on a real GPU */
#define IMAGE_HEAD	   ".version 7.0\n.target sm_70\n.address_size 64\n"
#define IMAGE_KERNEL(name) ".visible .entry " name "() { ret; }\n"

CUresult tally_note(enum tally_function function, CUresult result);
/* For loops that count by themselves */
void tally_add(enum tally_function function, uint64_t calls);
uint64_t tally_calls(enum tally_function function);
const char *tally_name(enum tally_function function);
void tally_reset(void);
/* One line of JSON for each function that was called, all in one write. */
void tally_print(void);

__attribute__((noreturn)) void workload_die(const char *what, CUresult result, const char *file,
					    int line);
uint64_t workload_now(void);
void workload_sleep_until(uint64_t when_ns);
/* Until a newline (or the end) of standard input, or for this long if seconds is not negative. */
void workload_hold(double seconds);
/* The one line of JSON that says who is speaking. */
__attribute__((format(printf, 1, 2))) void workload_say(const char *format, ...);

/* Reads "--name value" and "--name" options into where the table points; exits on others. */
struct option_row {
	const char *name, *help;
	enum { OPTION_FLAG, OPTION_NUMBER, OPTION_REAL, OPTION_TEXT } kind;
	void *where; /* bool, uint64_t, double, const char * */
};
void workload_options(int argc, char **argv, const struct option_row *rows, size_t count);
