/* Nccl: as far as one sees NCCL from outside: a call launches a kernel on its stream before it
 * returns, or the outermost group does for all its calls at its end. Nothing is moved, and nobody
 * waits: how long the kernels take, the program says. */
#include "nccl.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default"), noinline))

struct ncclComm {
	int rank, size;
};

static _Thread_local unsigned int take_us, depth;
static _Thread_local bool called;
static _Thread_local CUstream called_on;

EXPORT void fake_nccl_take(unsigned int us)
{
	take_us = us;
}

/* "_us250" in its name is for the simulated driver. */
static int launch(CUstream stream)
{
	char name[64], image[256];
	CUfunction function;
	CUmodule module;

	snprintf(name, sizeof(name), "ncclDevKernel_AllReduce_Sum_f32_RING_LL_us%u", take_us);
	snprintf(image, sizeof(image),
		 ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry %s() { ret; }\n",
		 name);
	if (cuModuleLoadData(&module, image) || cuModuleGetFunction(&function, module, name) ||
	    cuLaunchKernel(function, 2, 1, 1, 512, 1, 1, 0, stream, NULL, NULL))
		return ncclInvalidArgument;
	return ncclSuccess;
}

static int call(const struct ncclComm *comm, CUstream stream)
{
	if (!comm)
		return ncclInvalidArgument;
	if (!depth)
		return launch(stream);
	called = true;
	called_on = stream;
	return ncclSuccess;
}

EXPORT int ncclGroupStart(void)
{
	depth++;
	return ncclSuccess;
}

EXPORT int ncclGroupEnd(void)
{
	if (--depth || !called)
		return ncclSuccess;
	called = false;
	return launch(called_on);
}

static int comm_new(ncclComm_t *comm, int size, int rank)
{
	*comm = malloc(sizeof(**comm));
	if (!*comm)
		return ncclInvalidArgument;
	**comm = (struct ncclComm){ rank, size };
	return ncclSuccess;
}

EXPORT int ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
	(void)id;
	return comm_new(comm, nranks, rank);
}

EXPORT int ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
				  void *config)
{
	(void)id, (void)config;
	return comm_new(comm, nranks, rank);
}

EXPORT int ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int ids,
				    ncclUniqueId *id, void *config)
{
	(void)id, (void)ids, (void)config;
	return comm_new(comm, nranks, rank);
}

/* All ranks have the same color here. */
EXPORT int ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *ret, void *config)
{
	(void)key, (void)config;
	*ret = NULL;
	return color < 0 ? ncclSuccess : comm_new(ret, comm->size, comm->rank);
}

EXPORT int ncclCommDestroy(ncclComm_t comm)
{
	free(comm);
	return ncclSuccess;
}

EXPORT int ncclCommCount(ncclComm_t comm, int *ret)
{
	*ret = comm->size;
	return ncclSuccess;
}

EXPORT int ncclCommUserRank(ncclComm_t comm, int *ret)
{
	*ret = comm->rank;
	return ncclSuccess;
}

EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int op,
			 ncclComm_t comm, CUstream stream)
{
	(void)from, (void)to, (void)count, (void)type, (void)op;
	return call(comm, stream);
}

EXPORT int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root,
		      ncclComm_t comm, CUstream stream)
{
	(void)from, (void)to, (void)count, (void)type, (void)op, (void)root;
	return call(comm, stream);
}

EXPORT int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
			 ncclComm_t comm, CUstream stream)
{
	(void)from, (void)to, (void)count, (void)type, (void)root;
	return call(comm, stream);
}

EXPORT int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op,
			     ncclComm_t comm, CUstream stream)
{
	(void)from, (void)to, (void)count, (void)type, (void)op;
	return call(comm, stream);
}

EXPORT int ncclAllGather(const void *from, void *to, size_t count, int type, ncclComm_t comm,
			 CUstream stream)
{
	(void)from, (void)to, (void)count, (void)type;
	return call(comm, stream);
}

EXPORT int ncclSend(const void *from, size_t count, int type, int peer, ncclComm_t comm,
		    CUstream stream)
{
	(void)from, (void)count, (void)type, (void)peer;
	return call(comm, stream);
}

EXPORT int ncclRecv(void *to, size_t count, int type, int peer, ncclComm_t comm, CUstream stream)
{
	(void)to, (void)count, (void)type, (void)peer;
	return call(comm, stream);
}
