/* nccl.h: what the workloads call of the simulated NCCL. */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H

#include <cuda.h>
#include <stddef.h>

typedef struct ncclComm *ncclComm_t;
typedef struct {
	char internal[128];
} ncclUniqueId;

enum { ncclSuccess = 0, ncclInvalidArgument = 4 };
enum { ncclSum = 0 };
enum { ncclFloat16 = 6, ncclFloat32 = 7 };

/* From now on the kernels of this thread take that many microseconds: the rank waits. */
void fake_nccl_take(unsigned int us);

int ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
int ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, void *config);
int ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int ids, ncclUniqueId *id,
			     void *config);
int ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *ret, void *config);
int ncclCommDestroy(ncclComm_t comm);
int ncclCommCount(ncclComm_t comm, int *ret);
int ncclCommUserRank(ncclComm_t comm, int *ret);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, ncclComm_t comm,
		  CUstream stream);
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root,
	       ncclComm_t comm, CUstream stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
		  CUstream stream);
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, ncclComm_t comm,
		      CUstream stream);
int ncclAllGather(const void *from, void *to, size_t count, int type, ncclComm_t comm,
		  CUstream stream);
int ncclSend(const void *from, size_t count, int type, int peer, ncclComm_t comm, CUstream stream);
int ncclRecv(void *to, size_t count, int type, int peer, ncclComm_t comm, CUstream stream);

#endif
