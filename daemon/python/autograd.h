/* autograd.h: where PyTorch keeps which node of its autograd a thread makes or runs.
 *
 * A node is a function of the backward pass. It is made when the forward pass calls the function
 * that it belongs to, and has the next number of that thread then. The numbers of nodes and
 * threads, and which node a thread runs, are thread-local variables of libtorch_cpu, whose places
 * are read out of the code of three functions that return them.
 */
#ifndef TS_PYTHON_AUTOGRAD_H
#define TS_PYTHON_AUTOGRAD_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/probe.h"
#include "daemon/python/peek.h"

/* What a function that returns a thread-local variable says of it. */
struct autograd_code {
	uint64_t index;	 /* where its module and offset are (tls_index) */
	int32_t more;	 /* to be added to that offset */
	uint64_t called; /* index 0: where the address of another function is, that returns it */
};

/* `at`: address of the code. -ENOENT: neither is in it. */
int autograd_read_code(const uint8_t *code, size_t size, uint64_t at, struct autograd_code *ret);

/* -ENOENT: there is no PyTorch in the process, or one whose code looks otherwise. Else as
 * peek_bytes. */
int autograd_find(uint32_t pid, struct peek *peek, struct ts_autograd *ret);

#endif
