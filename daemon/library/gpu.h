/* gpu.h: a GPU vendor's driver API, as rows that configure the probes and the model.
 *
 * A vendor is one table. A row names a function's symbols, says what a call does to the model
 * (core/model/function.h), and which argument fills which field of struct ts_api (bpf/probe.h).
 */
#ifndef TS_GPU_H
#define TS_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/probe.h"
#include "core/model/function.h"

#define GPU_ALIASES_MAX 2

struct gpu_function {
	uint16_t number; /* stored with each op: never reuse one */
	struct function model;
	uint16_t flags;			    /* enum probe_flag */
	const char *per_thread;		    /* suffix of the form for per-thread default streams */
	const char *alias[GPU_ALIASES_MAX]; /* other symbols of the same signature and meaning */
	struct probe_slot slot[PROBE_SLOTS_MAX];
	struct probe_slot out[PROBE_OUTS_MAX];
};

struct gpu_vendor {
	const char *name;
	const char *devices; /* pattern of the device files, one per device */
	const struct gpu_function *function;
	size_t count;
};

extern const struct gpu_vendor gpu_cuda;

/* The model's view of the table, indexed by number. Owned by the table. */
struct function_table gpu_functions(const struct gpu_vendor *vendor);
/* What the BPF programs need to know about a row. */
void gpu_probe_desc(const struct gpu_function *function, struct probe_desc *ret);

/* How many devices the host has, 0 if unknown. */
size_t gpu_device_count(const struct gpu_vendor *vendor);

#endif
