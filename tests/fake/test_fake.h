/* Test fake: what the tests of the simulated GPU share. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/array.h"
/* cmocka wants the four above */
#include <cmocka.h>

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>

#define OK(call)	   assert_int_equal(call, CUDA_SUCCESS)
#define FAILS(call, error) assert_int_equal(call, error)
#define BYTES		   4096
#define NONSENSE	   0xdead0000

/* The objects that every test gets: a context on device 0 that is current. */
extern CUcontext context;
extern CUmodule module;
extern CUfunction kernel;

int with_context(void **state);
int without_context(void **state);

/* A gate holds up the stream it is put in until it is opened. One at a time. */
void gate_close(CUstream stream);
void gate_open(void);

CUdeviceptr filled(unsigned char value);
/* The byte that all of the BYTES at ptr have, or -1. */
int uniform(CUdeviceptr ptr);
CUresult launch(CUstream stream);

int run_stream_tests(void);
int run_memory_tests(void);
int run_graph_tests(void);
int run_api_tests(void);
int run_hook_tests(void);
