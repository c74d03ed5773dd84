/* Collectives: one rank of a communicator of the simulated NCCL. Others get the same --job. Each
 * turn calls everything once, and its kernels take --us. The first line of its input makes the
 * communicators, and each one has it take its turns; it ends with its input.
 *   collectives --job 7 --rank R --size N --turns T --us U */
#include "workload.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl.h"

#define COUNT 262144 /* elements of four bytes: 1 MiB */

static struct {
	uint64_t job, rank, size, turns, us;
	bool scalable;
} settings = { .job = 1, .size = 2, .turns = 10, .us = 100 };

static const struct option_row options[] = {
	{ "job", "what all ranks have in common (1)", OPTION_NUMBER, &settings.job },
	{ "rank", "of this one (0)", OPTION_NUMBER, &settings.rank },
	{ "size", "how many there are (2)", OPTION_NUMBER, &settings.size },
	{ "turns", "of each kind of call (10)", OPTION_NUMBER, &settings.turns },
	{ "us", "that a kernel takes (100)", OPTION_NUMBER, &settings.us },
	{ "scalable", "the communicator is made the newer way", OPTION_FLAG, &settings.scalable },
};

static ncclComm_t comm, part;
static CUdeviceptr buffer;
static CUstream stream;

#define DO(call)                                                                                   \
	do {                                                                                       \
		int _r = call;                                                                     \
		if (_r)                                                                            \
			workload_die(#call, (CUresult)_r, __FILE__, __LINE__);                     \
	} while (0)

/* A job's id is anything that no other job has. */
static void start(void)
{
	ncclUniqueId id;
	int size, rank;

	memset(&id, (int)settings.job, sizeof(id));
	memcpy(id.internal + sizeof(id) - sizeof(settings.job), &settings.job,
	       sizeof(settings.job));
	if (settings.scalable)
		DO(ncclCommInitRankScalable(&comm, (int)settings.size, (int)settings.rank, 1, &id,
					    NULL));
	else
		DO(ncclCommInitRank(&comm, (int)settings.size, id, (int)settings.rank));
	DO(ncclCommSplit(comm, 3, (int)settings.rank, &part, NULL));
	DO(ncclCommCount(part, &size));
	DO(ncclCommUserRank(part, &rank));
}

static void turn(void)
{
	void *memory = (void *)(uintptr_t)buffer;
	int next = (int)((settings.rank + 1) % settings.size);

	DO(ncclAllReduce(memory, memory, COUNT, ncclFloat32, ncclSum, comm, stream));
	DO(ncclAllGather(memory, memory, COUNT, ncclFloat32, comm, stream));
	DO(ncclReduceScatter(memory, memory, COUNT, ncclFloat32, ncclSum, part, stream));
	DO(ncclBroadcast(memory, memory, COUNT, ncclFloat16, 1, comm, stream));
	DO(ncclReduce(memory, memory, COUNT, ncclFloat16, ncclSum, 1, comm, stream));
	DO(ncclGroupStart());
	DO(ncclSend(memory, COUNT, ncclFloat32, next, comm, stream));
	DO(ncclSend(memory, COUNT, ncclFloat32, next, comm, stream));
	DO(ncclRecv(memory, COUNT, ncclFloat32, next, comm, stream));
	DO(ncclGroupEnd());
	if (ncclAllReduce(memory, memory, COUNT, ncclFloat32, ncclSum, NULL, stream) !=
	    ncclInvalidArgument)
		abort();
	TRY(cuStreamSynchronize, (stream));
}

int main(int argc, char **argv)
{
	CUcontext context;

	workload_options(argc, argv, options, ARRAY_SIZE(options));
	TRY(cuInit, (0));
	TRY(cuDevicePrimaryCtxRetain, (&context, 0));
	TRY(cuCtxSetCurrent, (context));
	TRY(cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
	TRY(cuMemAlloc_v2, (&buffer, 1 << 20));
	workload_say("{\"pid\":%d,\"ready\":1}\n", (int)getpid());
	fake_nccl_take((unsigned int)settings.us);
	while (getchar() == '\n') {
		if (!comm)
			start();
		for (uint64_t i = 0; i < settings.turns; i++)
			turn();
		workload_say("{\"pid\":%d,\"done\":1}\n", (int)getpid());
	}
	DO(ncclCommDestroy(part));
	DO(ncclCommDestroy(comm));
	return 0;
}
