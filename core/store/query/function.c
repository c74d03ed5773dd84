/* Function: what SQL can call besides SQLite's own functions. */
#include <errno.h>
#include <math.h>

#include "core/base/array.h"
#include "core/store/query/answer.h"
#include "core/store/query/growth.h"
#include "core/store/query/oom.h"

/* The driver's result codes (CUresult of cuda.h). Numbers are the driver's interface and never
 * change. */
static const struct {
	int code;
	const char *name;
} results[] = {
	{ 0, "CUDA_SUCCESS" },
	{ 1, "CUDA_ERROR_INVALID_VALUE" },
	{ 2, "CUDA_ERROR_OUT_OF_MEMORY" },
	{ 3, "CUDA_ERROR_NOT_INITIALIZED" },
	{ 4, "CUDA_ERROR_DEINITIALIZED" },
	{ 34, "CUDA_ERROR_STUB_LIBRARY" },
	{ 46, "CUDA_ERROR_DEVICE_UNAVAILABLE" },
	{ 100, "CUDA_ERROR_NO_DEVICE" },
	{ 101, "CUDA_ERROR_INVALID_DEVICE" },
	{ 200, "CUDA_ERROR_INVALID_IMAGE" },
	{ 201, "CUDA_ERROR_INVALID_CONTEXT" },
	{ 205, "CUDA_ERROR_MAP_FAILED" },
	{ 206, "CUDA_ERROR_UNMAP_FAILED" },
	{ 209, "CUDA_ERROR_NO_BINARY_FOR_GPU" },
	{ 214, "CUDA_ERROR_ECC_UNCORRECTABLE" },
	{ 217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" },
	{ 218, "CUDA_ERROR_INVALID_PTX" },
	{ 220, "CUDA_ERROR_NVLINK_UNCORRECTABLE" },
	{ 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" },
	{ 300, "CUDA_ERROR_INVALID_SOURCE" },
	{ 301, "CUDA_ERROR_FILE_NOT_FOUND" },
	{ 304, "CUDA_ERROR_OPERATING_SYSTEM" },
	{ 400, "CUDA_ERROR_INVALID_HANDLE" },
	{ 401, "CUDA_ERROR_ILLEGAL_STATE" },
	{ 500, "CUDA_ERROR_NOT_FOUND" },
	{ 600, "CUDA_ERROR_NOT_READY" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS" },
	{ 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" },
	{ 702, "CUDA_ERROR_LAUNCH_TIMEOUT" },
	{ 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" },
	{ 705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED" },
	{ 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE" },
	{ 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED" },
	{ 710, "CUDA_ERROR_ASSERT" },
	{ 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" },
	{ 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" },
	{ 714, "CUDA_ERROR_HARDWARE_STACK_ERROR" },
	{ 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION" },
	{ 716, "CUDA_ERROR_MISALIGNED_ADDRESS" },
	{ 719, "CUDA_ERROR_LAUNCH_FAILED" },
	{ 720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" },
	{ 800, "CUDA_ERROR_NOT_PERMITTED" },
	{ 801, "CUDA_ERROR_NOT_SUPPORTED" },
	{ 802, "CUDA_ERROR_SYSTEM_NOT_READY" },
	{ 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" },
	{ 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
	{ 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" },
	{ 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" },
	{ 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" },
	{ 909, "CUDA_ERROR_TIMEOUT" },
	{ 999, "CUDA_ERROR_UNKNOWN" },
};

static void result_name(sqlite3_context *context, int count, sqlite3_value **value)
{
	int code = sqlite3_value_int(value[0]);

	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		if (results[i].code == code)
			sqlite3_result_text(context, results[i].name, -1, SQLITE_STATIC);
}

/* share(part, whole): in millionths; NULL if the whole is 0 or the result is impossible. */
static void share(sqlite3_context *context, int count, sqlite3_value **value)
{
	double part = 1e6 * sqlite3_value_double(value[0]);
	double whole = sqlite3_value_double(value[1]);

	if (sqlite3_value_type(value[0]) == SQLITE_NULL || !(whole > 0))
		return;
	part /= whole;
	if (part > -1e18 && part < 1e18)
		sqlite3_result_int64(context, (int64_t)(part < 0 ? part - 0.5 : part + 0.5));
}

/* window_error(windows, missed, ms, missed², missed · ms, ms²), all sums over windows: how far the
 * sum of `missed` may be off at 90 %, if it is in proportion to `ms`, or to all that was missed,
 * but for chance (the variance of a ratio estimate: W. G. Cochran, Sampling Techniques, 3rd
 * edition, 6.4). Student's distribution is bounded by 1.645 + 4 / n from 3 windows on. */
static void window_error(sqlite3_context *context, int count, sqlite3_value **value)
{
	double windows = sqlite3_value_double(value[0]);
	double missed = sqlite3_value_double(value[1]), ms = sqlite3_value_double(value[2]);
	double ratio = ms > 0 ? missed / ms : 0, squares;

	squares = sqlite3_value_double(value[3]) - 2 * ratio * sqlite3_value_double(value[4]) +
		  ratio * ratio * sqlite3_value_double(value[5]);
	if (windows < 3)
		sqlite3_result_double(context, missed);
	else
		sqlite3_result_double(context,
				      (1.645 + 4 / windows) *
					      sqrt(fmax(squares, 0) * windows / (windows - 1)));
}

/* both(a, b): errors of causes that have nothing to do with each other. */
static void both(sqlite3_context *context, int count, sqlite3_value **value)
{
	if (sqlite3_value_type(value[0]) != SQLITE_NULL &&
	    sqlite3_value_type(value[1]) != SQLITE_NULL)
		sqlite3_result_double(context, hypot(sqlite3_value_double(value[0]),
						     sqlite3_value_double(value[1])));
}

/* root(x): its square root, 0 below 0. */
static void root(sqlite3_context *context, int count, sqlite3_value **value)
{
	if (sqlite3_value_type(value[0]) != SQLITE_NULL)
		sqlite3_result_double(context, sqrt(fmax(sqlite3_value_double(value[0]), 0)));
}

int function_register(sqlite3 *db)
{
	static const struct {
		const char *name;
		int arguments;
		void (*run)(sqlite3_context *, int, sqlite3_value **);
	} functions[] = {
		{ "result_name", 1, result_name },
		{ "share", 2, share },
		{ "window_error", 6, window_error },
		{ "both", 2, both },
		{ "root", 1, root },
		{ "growth_why", 10, growth_why },
		{ "oom_why", 10, oom_why },
	};

	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (sqlite3_create_function(db, functions[i].name, functions[i].arguments,
					    SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
					    functions[i].run, NULL, NULL) != SQLITE_OK)
			return -ENOMEM;
	return 0;
}
