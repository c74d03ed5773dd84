/* Test cupti inject: a library for CUDA_INJECTION64_PATH that counts what CUPTI tells it of the
 * whole process. It adds a line for its start and one for its end to the file FAKE_TEST_COUNTS. */
#include <cupti_abi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"

#define NAMES_MAX    32
#define BUFFER_BYTES (64 << 10)

int InitializeInjection(void);

static struct {
	pthread_mutex_t lock;
	struct {
		const char *name;
		unsigned long count;
	} names[NAMES_MAX];
	unsigned long copies[16], bytes[16], sets, set_bytes, calls, nodes, markers, devices;
	unsigned long unjoined; /* kernels without a call */
	uint8_t called[1 << 20];
	int pid;
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t on_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void on_request(uint8_t **buffer, size_t *size, size_t *records_max)
{
	*buffer = aligned_alloc(8, BUFFER_BYTES);
	*size = BUFFER_BYTES;
	*records_max = 0;
}

static void see_kernel(const struct cupti_kernel *k)
{
	size_t i = 0;

	while (i < NAMES_MAX - 1 && seen.names[i].name && strcmp(seen.names[i].name, k->name) != 0)
		i++;
	seen.names[i].name = k->name;
	seen.names[i].count++;
	seen.nodes += k->node != 0;
	seen.called[k->correlation % sizeof(seen.called)] |= 1;
}

static void see(const struct cupti_record *record)
{
	const struct cupti_copy *copy = (const void *)record;
	const struct cupti_set *set = (const void *)record;
	const struct cupti_api *call = (const void *)record;

	switch (record->kind) {
	case CUPTI_KIND_CONCURRENT_KERNEL:
		see_kernel((const void *)record);
		break;
	case CUPTI_KIND_COPY:
	case CUPTI_KIND_PEER_COPY:
		/* Both begin alike. */
		seen.copies[copy->copy_kind]++;
		seen.bytes[copy->copy_kind] += copy->bytes;
		break;
	case CUPTI_KIND_SET:
		seen.sets++;
		seen.set_bytes += set->bytes;
		break;
	case CUPTI_KIND_DRIVER:
		seen.calls++;
		seen.called[call->correlation % sizeof(seen.called)] |= 2;
		break;
	case CUPTI_KIND_MARKER:
		seen.markers++;
		break;
	case CUPTI_KIND_DEVICE:
		seen.devices++;
		break;
	}
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	struct cupti_record *record = NULL;

	(void)context;
	(void)stream;
	(void)size;
	pthread_mutex_lock(&seen.lock);
	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK)
		see(record);
	pthread_mutex_unlock(&seen.lock);
	free(buffer);
}

static void say_end(void)
{
	FILE *out = fopen(getenv("FAKE_TEST_COUNTS"), "a");

	if (!out || seen.pid != getpid())
		return; /* a forked child: CUPTI is lost to it */
	cuptiActivityFlushAll(0);
	for (size_t i = 0; i < sizeof(seen.called); i++)
		seen.unjoined += seen.called[i] == 1;
	fprintf(out, "{\"pid\":%d,\"kernels\":{", seen.pid);
	for (size_t i = 0; i < NAMES_MAX && seen.names[i].name; i++)
		fprintf(out, "%s\"%s\":%lu", i ? "," : "", seen.names[i].name, seen.names[i].count);
	fprintf(out,
		"},\"copies\":{\"htod\":%lu,\"dtoh\":%lu,\"dtod\":%lu,\"ptop\":%lu},"
		"\"copy_bytes\":{\"htod\":%lu,\"dtoh\":%lu,\"dtod\":%lu,\"ptop\":%lu},"
		"\"sets\":%lu,\"set_bytes\":%lu,\"nodes\":%lu,\"calls\":%lu,\"unjoined\":%lu,"
		"\"markers\":%lu,\"device_records\":%lu}\n",
		seen.copies[1], seen.copies[2], seen.copies[8], seen.copies[10], seen.bytes[1],
		seen.bytes[2], seen.bytes[8], seen.bytes[10], seen.sets, seen.set_bytes, seen.nodes,
		seen.calls, seen.unjoined, seen.markers, seen.devices);
	fclose(out);
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
	static const uint32_t kinds[] = { CUPTI_KIND_CONCURRENT_KERNEL,
					  CUPTI_KIND_COPY,
					  CUPTI_KIND_PEER_COPY,
					  CUPTI_KIND_SET,
					  CUPTI_KIND_DEVICE,
					  CUPTI_KIND_MARKER };
	static const uint32_t calls[] = { 307, 514 }; /* cuLaunchKernel, cuGraphLaunch */
	FILE *out = fopen(getenv("FAKE_TEST_COUNTS"), "a");
	int bad = 0;

	if (!out)
		return 0;
	seen.pid = getpid();
	bad |= cuptiActivityRegisterTimestampCallback(on_time);
	bad |= cuptiActivityRegisterCallbacks(on_request, on_complete);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		bad |= cuptiActivityEnable(kinds[i]);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		bad |= cuptiActivityEnableDriverApi(calls[i], 1);
	fprintf(out, "{\"pid\":%d,\"injected\":%d}\n", seen.pid, bad);
	fclose(out);
	atexit(say_end);
	return 1;
}
