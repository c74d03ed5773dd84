/* Entry: the exported functions of the simulated libcuda, one for each row of api.def.
 * A call enters exactly one of them: none of our files calls them. Each one starts by pushing
 * the frame pointer, and no two share an address (tests/fake/test_symbols.sh looks). */
#include "fake.h"

#define EXPORT __attribute__((visibility("default"), noinline))

static inline CUresult entry_check_ANY(void)
{
	return CUDA_SUCCESS;
}

static inline CUresult entry_check_INIT(void)
{
	if (unlikely(atomic_load_explicit(&driver.state, memory_order_acquire) != DRIVER_READY))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (unlikely(thread.in_callback))
		return CUDA_ERROR_NOT_PERMITTED;
	return CUDA_SUCCESS;
}

static inline CUresult entry_check_CTX(void)
{
	CUresult r = entry_check_INIT();

	if (unlikely(r != CUDA_SUCCESS))
		return r;
	if (unlikely(thread.depth == 0 || thread.stack[thread.depth - 1] == NULL))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (unlikely(!context_current()))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return CUDA_SUCCESS;
}

/* What the call column of the rows may use */
#define DEFAULT	       entry_default
#define STREAM(handle) ((handle) ? (handle) : entry_default)
#define SYNC	       entry_default, true
#define ASYNC(handle)  handle, false
#define PTR(pointer)   ((CUdeviceptr)(uintptr_t)(pointer))
#define GRID	       gridDimX, gridDimY, gridDimZ
#define BLOCK	       blockDimX, blockDimY, blockDimZ
#define COPY_ANY       FAKE_COPY_ANY
#define COPY_HTOD      FAKE_COPY_HTOD
#define COPY_DTOH      FAKE_COPY_DTOH
#define COPY_DTOD      FAKE_COPY_DTOD

/* A list of up to 11 arguments as integers */
#define W(x)	    (uint64_t)(x)
#define W1(a)	    W(a)
#define W2(a, ...)  W(a), W1(__VA_ARGS__)
#define W3(a, ...)  W(a), W2(__VA_ARGS__)
#define W4(a, ...)  W(a), W3(__VA_ARGS__)
#define W5(a, ...)  W(a), W4(__VA_ARGS__)
#define W6(a, ...)  W(a), W5(__VA_ARGS__)
#define W7(a, ...)  W(a), W6(__VA_ARGS__)
#define W8(a, ...)  W(a), W7(__VA_ARGS__)
#define W9(a, ...)  W(a), W8(__VA_ARGS__)
#define W10(a, ...) W(a), W9(__VA_ARGS__)
#define W11(a, ...) W(a), W10(__VA_ARGS__)
/* W11 for eleven arguments, and so on */
#define W_PICK(a, b, c, d, e, f, g, h, i, j, k, name, ...) name
/* All of them */
#define WORDS(...) W_PICK(__VA_ARGS__, W11, W10, W9, W8, W7, W6, W5, W4, W3, W2, W1)(__VA_ARGS__)

/* The macro's own names must not be those of struct members. */
#define DEFINE(fn_, need_, params_, args_, call_, stream_)                                         \
	EXPORT CUresult fn_ params_                                                                \
	{                                                                                          \
		const struct fake_hooks *hooks = hooks_get();                                      \
		__attribute__((unused)) const CUstream entry_default = stream_;                    \
		CUresult r;                                                                        \
                                                                                                   \
		if (unlikely(hooks)) {                                                             \
			const uint64_t words[] = { WORDS args_ };                                  \
			struct fake_api_call api = {                                               \
				.function = FAKE_FN_##fn_,                                         \
				.name = #fn_,                                                      \
				.args = words,                                                     \
				.args_count = ARRAY_SIZE(words),                                   \
			};                                                                         \
			hooks_enter(hooks, &api);                                                  \
			r = entry_check_##need_();                                                 \
			if (r == CUDA_SUCCESS)                                                     \
				r = call_;                                                         \
			api.result = r;                                                            \
			hooks_exit(hooks, &api);                                                   \
			return r;                                                                  \
		}                                                                                  \
		r = entry_check_##need_();                                                         \
		if (likely(r == CUDA_SUCCESS))                                                     \
			r = call_;                                                                 \
		return r;                                                                          \
	}

#define F(since_, fn_, need_, params_, args_, call_)                                               \
	DEFINE(fn_, need_, params_, args_, call_, CU_STREAM_LEGACY)
#define S(since_, fn_, need_, params_, args_, call_)                                               \
	DEFINE(fn_, need_, params_, args_, call_, CU_STREAM_LEGACY)                                \
	DEFINE(fn_##_ptsz, need_, params_, args_, call_, CU_STREAM_PER_THREAD)
#define D(since_, fn_, need_, params_, args_, call_)                                               \
	DEFINE(fn_, need_, params_, args_, call_, CU_STREAM_LEGACY)                                \
	DEFINE(fn_##_ptds, need_, params_, args_, call_, CU_STREAM_PER_THREAD)
#include "api.def"
