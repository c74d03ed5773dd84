/* Memory: takes and gives back memory in the ways that are easily miscounted, and says at each point
 * what the driver holds for this process, by kind. Waits for a line of input at each. A child, which
 * uses the memory of its parent, does likewise. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRY(call)                                                                                  \
	do {                                                                                       \
		CUresult result = (call);                                                          \
		if (result != CUDA_SUCCESS) {                                                      \
			fprintf(stderr, "%s: %d\n", #call, (int)result);                           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)
#define MIB (1024ull * 1024)

static void at(const char *where, unsigned long long device, unsigned long long physical,
	       unsigned long long pool)
{
	char line[8];

	printf("{\"pid\": %d, \"at\": \"%s\", \"device\": %llu, \"physical\": %llu, \"pool\": %llu}\n",
	       getpid(), where, device, physical, pool);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static CUcontext begin(void)
{
	CUcontext context;

	TRY(cuInit(0));
	TRY(cuDevicePrimaryCtxRetain(&context, 0));
	TRY(cuCtxSetCurrent(context));
	return context;
}

static void child(int from, int done)
{
	CUipcMemHandle handle;
	CUdeviceptr opened;

	if (read(from, &handle, sizeof(handle)) != sizeof(handle))
		exit(1);
	begin();
	TRY(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	at("child: opened", 0, 0, 0);
	TRY(cuIpcCloseMemHandle(opened));
	at("child: closed", 0, 0, 0);
	if (write(done, "", 1) != 1)
		exit(1);
	exit(0);
}

static void share(int to, int done)
{
	CUipcMemHandle handle;
	CUdeviceptr memory;
	char byte;

	TRY(cuMemAlloc(&memory, 3 * MIB));
	TRY(cuIpcGetMemHandle(&handle, memory));
	if (write(to, &handle, sizeof(handle)) != sizeof(handle) || read(done, &byte, 1) != 1)
		exit(1);
	at("shared", 8 * MIB, 0, 0);
	TRY(cuMemFree(memory));
}

static void map(void)
{
	CUmemAllocationProp prop;
	CUmemGenericAllocationHandle handle, again, imported;
	CUdeviceptr address;
	CUmemAccessDesc access;
	int file;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	TRY(cuMemCreate(&handle, 8 * MIB, &prop, 0));
	TRY(cuMemAddressReserve(&address, 8 * MIB, 0, 0, 0));
	TRY(cuMemMap(address, 8 * MIB, 0, handle, 0));
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	TRY(cuMemSetAccess(address, 8 * MIB, &access, 1));
	TRY(cuMemRelease(handle));
	at("released while mapped", 5 * MIB, 8 * MIB, 0);
	TRY(cuMemRetainAllocationHandle(&again, (void *)address));
	TRY(cuMemExportToShareableHandle(&file, again, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					 0));
	TRY(cuMemUnmap(address, 8 * MIB));
	at("retained", 5 * MIB, 8 * MIB, 0);
	TRY(cuMemImportFromShareableHandle(&imported, (void *)(long)file,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(file);
	TRY(cuMemRelease(imported));
	TRY(cuMemRelease(again));
	at("unmapped and released", 5 * MIB, 0, 0);
	TRY(cuMemAddressFree(address, 8 * MIB));
}

static void pool(CUdeviceptr *ret)
{
	CUmemPoolProps props;
	CUmemoryPool made;
	CUstream stream;

	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	TRY(cuMemPoolCreate(&made, &props));
	TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	TRY(cuMemAllocFromPoolAsync(ret, 4 * MIB, made, stream));
	TRY(cuStreamSynchronize(stream));
	at("from a pool", 5 * MIB, 0, 4 * MIB);
	TRY(cuMemFreeAsync(*ret, stream));
	TRY(cuStreamSynchronize(stream));
	TRY(cuMemPoolDestroy(made));
}

int main(void)
{
	CUcontext context, second;
	CUdeviceptr memory, pooled;
	int to[2], done[2];
	pid_t pid;

	if (pipe(to) || pipe(done))
		return 1;
	pid = fork();
	if (pid == 0)
		child(to[0], done[1]);
	context = begin();
	TRY(cuMemAlloc(&memory, 5 * MIB));
	share(to[1], done[0]);
	waitpid(pid, NULL, 0);
	map();
	pool(&pooled);
	TRY(cuDevicePrimaryCtxRetain(&second, 0));
	TRY(cuDevicePrimaryCtxRelease(0));
	at("released once of twice", 5 * MIB, 0, 0);
	TRY(cuDevicePrimaryCtxRelease(0));
	at("released for good", 0, 0, 0);
	return context == second ? 0 : 1;
}
