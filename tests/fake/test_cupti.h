/* Test cupti: a small client of the simulated CUPTI, and what its tests share. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/array.h"
/* cmocka wants the four above */
#include <cmocka.h>

#include <cuda.h>
#include <cupti_abi.h>
#include <stdbool.h>

#define OK(call)	   assert_int_equal(call, 0)
#define FAILS(call, error) assert_int_equal(call, error)
#define BYTES		   4096

/* A record as it came, and how. */
struct got {
	uint32_t kind, buffer; /* the how manieth buffer */
	uint32_t thread;       /* that handed it over */
	union {
		struct cupti_kernel kernel;
		struct cupti_copy copy;
		struct cupti_peer_copy peer;
		struct cupti_set set;
		struct cupti_api api;
		struct cupti_memory memory;
		struct cupti_pool pool;
		struct cupti_device device;
		struct cupti_context context;
		struct cupti_stream stream;
		struct cupti_sync sync;
		struct cupti_event event;
		struct cupti_overhead overhead;
		struct cupti_marker marker;
		struct cupti_external external;
		struct cupti_graph_trace graph;
		uint8_t bytes[512];
	};
};

/* What the client does and has seen; zeroed before each test. */
extern struct client {
	size_t buffer_bytes, records_max;
	bool refuse; /* gives NULL */
	_Atomic uint32_t requested, completed;
	size_t count;
	struct got got[8192];
} client;

extern CUcontext context;
extern CUfunction kernel;
extern CUstream stream;

/* cuInit, a context that is current, a kernel, a stream; CUPTI with a clock and callbacks. */
int cupti_up(void **state);
int cupti_down(void **state);
void client_register(void);
uint64_t client_clock(void);
size_t client_kind(uint32_t kind);
/* The number-th of the kind; fails if there are not so many. */
const struct got *client_get(uint32_t kind, size_t number);
void client_clear(void);
/* Until so many of the kind have come by themselves; fails after some seconds. */
void client_wait(uint32_t kind, size_t count);

void launch(CUstream to);
/* Holds up the stream until it is opened. */
void gate_close(CUstream at);
void gate_open(void);

int run_record_tests(void);
int run_hazard_tests(const char *program);
/* In a process of its own, with the environment that it needs. */
int run_scenario(const char *name);
