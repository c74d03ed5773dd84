/* identity.h: what a process is part of in a cluster, from its control group and some variables of
 * its environment. Pure: nobody is asked.
 *
 * Sources: Slurm's and torchrun's documentation of the variables that they set, Open MPI's and
 * MPICH's likewise; control groups as the kubelet (both drivers) and Slurm name them. */
#ifndef TS_CLIENT_IDENTITY_H
#define TS_CLIENT_IDENTITY_H

#include <stdint.h>

#define IDENTITY_TEXT_BYTES 256

struct identity {
	char pod[IDENTITY_TEXT_BYTES], name_space[IDENTITY_TEXT_BYTES];
	char slurm_job[IDENTITY_TEXT_BYTES], slurm_step[IDENTITY_TEXT_BYTES];
	char job[IDENTITY_TEXT_BYTES]; /* by which a fleet is asked for all of its processes */
	int32_t rank, local_rank;      /* -1: unknown */
	int32_t world_size;	       /* 0: unknown */
};

/* `environment`: lines KEY=VALUE; "": unknown. */
void identity_find(const char *cgroup, const char *environment, struct identity *ret);

#endif
