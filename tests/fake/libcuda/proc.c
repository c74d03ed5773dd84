/* Proc: finds exported functions by name, CUDA version and kind of default stream. */
#include "fake.h"

#include <string.h>

struct proc {
	const char *name;
	int since;
	bool per_thread;
	void *fn;
};

static const struct proc procs[] = {
#define F(since, name, need, params, args, call) { #name, since, false, (void *)name },
#define S(since, name, need, params, args, call)                                                   \
	{ #name, since, false, (void *)name }, { #name "_ptsz", since, true, (void *)name##_ptsz },
#define D(since, name, need, params, args, call)                                                   \
	{ #name, since, false, (void *)name }, { #name "_ptds", since, true, (void *)name##_ptds },
#include "api.def"
};

const char *proc_name(enum fake_function function)
{
	if (function <= FAKE_FN_INVALID || function >= FAKE_FN_COUNT)
		return NULL;
	return procs[function - 1].name;
}

/* cuMemAlloc_v2 is the form of cuMemAlloc; so is cuMemcpy_v2_ptds one of cuMemcpy. */
static bool proc_is_form_of(const struct proc *proc, const char *base)
{
	size_t length = strlen(base);
	const char *rest = proc->name + length;

	if (strncmp(proc->name, base, length) != 0)
		return false;
	if (rest[0] == '_' && rest[1] == 'v' && rest[2] >= '2' && rest[2] <= '9')
		rest += 3;
	return *rest == '\0' || (proc->per_thread && strncmp(rest, "_pt", 3) == 0);
}

static const struct proc *proc_newest(const char *base, int version, bool per_thread, bool *known)
{
	const struct proc *best = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(procs); i++) {
		const struct proc *p = &procs[i];

		if (p->per_thread != per_thread || !proc_is_form_of(p, base))
			continue;
		*known = true;
		if (p->since <= version && (!best || p->since >= best->since))
			best = p;
	}
	return best;
}

CUresult proc_find(const char *symbol, void **fn, int version, cuuint64_t flags,
		   CUdriverProcAddressQueryResult *status)
{
	const struct proc *found = NULL;
	bool known = false;

	if (!symbol || !fn)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		found = proc_newest(symbol, version, true, &known);
	if (!found)
		found = proc_newest(symbol, version, false, &known);
	*fn = found ? found->fn : NULL;
	if (status)
		*status = found	  ? CU_GET_PROC_ADDRESS_SUCCESS
			  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	/* A caller that can read the status gets it, not an error. */
	return found || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
