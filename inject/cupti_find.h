/* cupti_find.h: finds the driver and the CUPTI of the process we are in. */
#ifndef TS_CUPTI_FIND_H
#define TS_CUPTI_FIND_H

#include <limits.h>
#include <stdbool.h>

#include "inject/cupti_abi.h"

/* CUPTI's functions; optional ones may be NULL. */
struct cupti {
	void *handle;
	uint32_t version;
	char path[256];
	const char *lacks; /* why the last candidate cannot be used */
#define X(need, field, symbol, parameters) int(*field) parameters;
	CUPTI_FUNCTIONS(X)
#undef X
};

/* The path of a mapped library whose file name starts with `prefix`. */
bool mapped_library(const char *prefix, char *path, size_t size);

/* The CUDA major version of the process, 0: unknown. `driver_version` is as returned by
 * cuDriverGetVersion, 0: unknown. */
unsigned cuda_major(int driver_version);

/* 0, or a negative errno with a sentence in `why` that says what to do. Takes milliseconds. */
int cupti_find(unsigned major, struct cupti *ret, char *why, size_t size);

#endif
