/* Entry: what every function of the simulated libcupti starts with, and those about the library.
 *
 *   FAKE_CUPTI_VERSION   what cuptiGetVersion answers, and what depends on it (130001, or 20)
 *   FAKE_CUPTI_ODD       see odd.c */
#include "fake_cupti.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VERSION_DEFAULT (FAKE_CUPTI_MAJOR >= 13 ? 130001 : 20)

struct cupti cupti = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.delivery = PTHREAD_MUTEX_INITIALIZER,
	.closed_end = &cupti.closed,
	.per_thread = FAKE_CUPTI_MAJOR >= 13,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

void cupti_abort(const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "simulated libcupti: ");
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

static void forked(void)
{
	atomic_store(&cupti.forked, true);
}

static void setup(void)
{
	const char *version = getenv("FAKE_CUPTI_VERSION");

	cupti.version = version && *version ? (uint32_t)atoi(version) : VERSION_DEFAULT;
	cupti.process = (uint32_t)getpid();
	odd_read(&cupti.odd);
	pthread_atfork(NULL, NULL, forked);
	if (cupti.odd.gone)
		atexit(attach_gone);
}

void cupti_begin(const char *function)
{
	pthread_once(&once, setup);
	if (atomic_load(&cupti.forked))
		cupti_abort("%s called in a forked child, the real one hangs here", function);
}

void cupti_overhead(uint32_t kind, uint64_t start_ns, uint64_t end_ns)
{
	struct owner *self = owner_self();
	struct cupti_overhead record = {
		.kind = CUPTI_KIND_OVERHEAD,
		.overhead_kind = kind,
		.object_kind = CUPTI_OBJECT_THREAD,
		.object.pt = { cupti.process, owner_thread(self) },
		.start = clock_stamp(start_ns),
		.end = clock_stamp(end_ns),
	};

	if (kind_enabled(CUPTI_KIND_OVERHEAD, CUPTI_NONE))
		buffer_put(&cupti.device, &record, sizeof(record));
}

int cuptiGetVersion(uint32_t *version)
{
	pthread_once(&once, setup);
	if (!version)
		return CUPTI_E_INVALID_PARAMETER;
	*version = cupti.version;
	return CUPTI_OK;
}

int cuptiGetResultString(int result, const char **text)
{
	static const struct {
		int result;
		const char *text;
	} texts[] = {
		{ CUPTI_OK, "CUPTI_SUCCESS" },
		{ CUPTI_E_INVALID_PARAMETER, "CUPTI_ERROR_INVALID_PARAMETER" },
		{ CUPTI_E_INVALID_CONTEXT, "CUPTI_ERROR_INVALID_CONTEXT" },
		{ CUPTI_E_INVALID_OPERATION, "CUPTI_ERROR_INVALID_OPERATION" },
		{ CUPTI_E_OUT_OF_MEMORY, "CUPTI_ERROR_OUT_OF_MEMORY" },
		{ CUPTI_E_PARAMETER_SIZE, "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT" },
		{ CUPTI_E_MAX_LIMIT_REACHED, "CUPTI_ERROR_MAX_LIMIT_REACHED" },
		{ CUPTI_E_NOT_COMPATIBLE, "CUPTI_ERROR_NOT_COMPATIBLE" },
		{ CUPTI_E_NOT_INITIALIZED, "CUPTI_ERROR_NOT_INITIALIZED" },
		{ CUPTI_E_QUEUE_EMPTY, "CUPTI_ERROR_QUEUE_EMPTY" },
		{ CUPTI_E_INVALID_STREAM, "CUPTI_ERROR_INVALID_STREAM" },
		{ CUPTI_E_INVALID_KIND, "CUPTI_ERROR_INVALID_KIND" },
		{ CUPTI_E_NOT_SUPPORTED, "CUPTI_ERROR_NOT_SUPPORTED" },
		{ CUPTI_E_MULTIPLE_SUBSCRIBERS, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" },
	};

	if (!text)
		return CUPTI_E_INVALID_PARAMETER;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (texts[i].result != result)
			continue;
		*text = texts[i].text;
		return CUPTI_OK;
	}
	*text = "<unknown>";
	return CUPTI_E_INVALID_PARAMETER;
}

int cuptiGetErrorMessage(int result, const char **text)
{
	return cuptiGetResultString(result, text);
}

int cuptiGetLastError(void)
{
	return CUPTI_OK;
}

int cuptiGetTimestamp(uint64_t *stamp)
{
	cupti_begin(__func__);
	if (!stamp)
		return CUPTI_E_INVALID_PARAMETER;
	*stamp = clock_stamp(clock_ns());
	return CUPTI_OK;
}

int cuptiGetThreadIdType(uint32_t *type)
{
	cupti_begin(__func__);
	if (!type)
		return CUPTI_E_INVALID_PARAMETER;
	*type = atomic_load(&cupti.thread_type);
	return CUPTI_OK;
}

int cuptiSetThreadIdType(uint32_t type)
{
	cupti_begin(__func__);
	if (type > CUPTI_THREAD_SYSTEM)
		return CUPTI_E_NOT_SUPPORTED;
	atomic_store(&cupti.thread_type, type);
	return CUPTI_OK;
}

int cuptiComputeCapabilitySupported(int major, int minor, int *support)
{
	(void)minor;
	if (!support)
		return CUPTI_E_INVALID_PARAMETER;
	*support = major >= 7 ? 1 : 0;
	return CUPTI_OK;
}

int cuptiDeviceSupported(int device, int *support)
{
	(void)device;
	return cuptiComputeCapabilitySupported(9, 0, support);
}
