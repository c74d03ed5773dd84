/* config.h: the daemon's settings, from one ini-like file, with their defaults in one table. */
#ifndef TS_CONFIG_H
#define TS_CONFIG_H

#include <stdio.h>

#include "core/base/log.h"
#include "daemon/probe/probe.h"

/* Whose library reports hot calls itself. */
/* Each includes the one before. */
enum config_tensors { TENSORS_NO, TENSORS_WITHIN_BUDGET, TENSORS_YES };
enum config_light { LIGHT_NEVER, LIGHT_ON_REQUEST, LIGHT_IN_EXACT, LIGHT_AUTO };

struct config {
	char *control_socket;
	char *control_group;
	char *state_dir;
	char *inject_socket;
	char *attach_library;
	uint64_t exact_slots;
	uint64_t exact_budget_ppm;
	uint64_t log_level; /* enum log_level */

	char *libraries; /* patterns, separated by spaces, like the next */
	char *standing;
	uint64_t others; /* 1: members see only their own processes */
	uint64_t way;	 /* enum probe_way */
	char *returns;	 /* as config_returns() reads it */
	uint64_t ring_bytes;
	uint64_t stack_depth;
	uint64_t unwind; /* 0: by frame pointers, 1: by rules */
	uint64_t python; /* 1: stacks have frames of Python */
	uint64_t python_depth;
	uint64_t backward; /* 1: join stacks of PyTorch's backward pass to those of the forward one
			    */
	uint64_t tensors;  /* enum config_tensors; but for no: its library is among `libraries` */
	uint64_t tensor_bytes;	  /* smaller blocks are only added up */
	uint64_t tensor_requests; /* 1: a further library is among `libraries` */
	uint64_t nccl;		  /* likewise */
	uint64_t launch_stacks_per_s;
	uint64_t events_per_s;
	uint64_t budget_ppm;
	uint64_t trap_limit_ppm;
	uint64_t light; /* enum config_light */
	char *filter_pids, *filter_uids, *filter_cgroups;

	uint64_t keep_ns;
	uint64_t keep_bytes;
	uint64_t bounds_wait_ns;
	char *library_code;
};

/* All defaults. */
int config_new(struct config **ret);
struct config *config_free(struct config *config);

/* Reads a file over the current values. Logs each error with its line; -EINVAL. A missing file is
 * fine if `may_miss`. */
int config_read(struct config *config, const char *path, bool may_miss);

/* Which functions are probed at their return. -EINVAL: no such functions; logged. */
int config_returns(const struct config *config, struct returns *ret);

/* The probes' part. -EINVAL: that, or a filter is invalid; logged. */
int config_probe(const struct config *config, struct probe_config *ret);

/* Prints the table as a settings file with comments, for --print-config and the packaged file. */
void config_print(FILE *file);

#endif
