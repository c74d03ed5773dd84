/* cupti_find.h: the driver and the CUPTI of the process that we are in. */
#ifndef TS_CUPTI_FIND_H
#define TS_CUPTI_FIND_H

#include <limits.h>
#include <stdbool.h>

#include "inject/cupti_abi.h"

/* CUPTI's functions; those that are not necessary may be NULL. */
struct cupti {
	void *handle;
	uint32_t version;
	char path[256];
	const char *lacks; /* why this one, the last that was looked at, cannot be used */
#define X(need, field, symbol, parameters) int(*field) parameters;
	CUPTI_FUNCTIONS(X)
#undef X
};

/* The path of a library that is mapped and whose file name begins with `prefix`. */
bool mapped_library(const char *prefix, char *path, size_t size);

/* The major version of CUDA that fits the process, 0: cannot be told. `driver_version` is as
 * cuDriverGetVersion has it, 0: not known. */
unsigned cuda_major(int driver_version);

/* 0, or a negative errno and in `why` a sentence that says what to do. Takes milliseconds. */
int cupti_find(unsigned major, struct cupti *ret, char *why, size_t size);

#endif
