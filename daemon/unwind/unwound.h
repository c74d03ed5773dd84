/* unwound.h: what a miss is answered with. */
#ifndef TS_UNWOUND_H
#define TS_UNWOUND_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "bpf/probe.h"

/* A whole stack, for the id that the miss had. */
struct unwound {
	uint64_t miss_id;
	uint32_t tgid, tid;
	uint64_t time_ns;
	uint64_t id; /* as if the programs had walked it */
	enum ts_stack_end end;
	bool linked;
	uint32_t count, python_count;
	uint64_t frame[TS_STACK_FRAMES_MAX];
	struct ts_python_frame python[TS_STACK_PYTHON_MAX]; /* as the programs have read them */
};

/* What is known before the walk; `count` stays 0. */
static inline void unwound_begin(struct unwound *unwound, const struct probe_miss *miss)
{
	*unwound = (struct unwound){
		.miss_id = miss->id,
		.tgid = miss->tgid,
		.tid = miss->tid,
		.time_ns = miss->time_ns,
	};
	memcpy(unwound->frame, miss->frame, miss->frame_count * sizeof(unwound->frame[0]));
	unwound->python_count = miss->python_count;
	memcpy(unwound->python, miss->python, miss->python_count * sizeof(unwound->python[0]));
}

/* And after it. */
static inline void unwound_end(struct unwound *unwound, uint64_t seed)
{
	unwound->id = stack_id_of(seed, unwound->frame, unwound->count, unwound->end);
	unwound->id = stack_id_with_python(unwound->id, unwound->python, unwound->python_count);
}

#endif
