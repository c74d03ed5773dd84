/* Call record: the calls that submit work, from CUPTI's own records of them: they need no
 * subscription, but cost far more than callbacks (docs/measurements.md).
 *
 * Of a call of the runtime there is only the runtime's record, so both are needed. The switches of
 * single functions alone record nothing (seen with CUPTI 13.0): first all functions are on, then
 * the others are switched off. Before the end all are on again, as the next user expects them.
 */
#include "inject/call_record.h"

#include "core/base/array.h"
#include "inject/cupti_calls.h"
#include "inject/internal.h"

#define CBIDS_MAX		      2048 /* CUPTI 13.0 has 807 and 523 */

#define CALL(name, plain, per_thread) plain, per_thread,
static const uint16_t driver[] = { CUPTI_CALLS(CALL) }, runtime[] = { CUPTI_RUNTIME_CALLS(CALL) };
#undef CALL

bool call_record_is_wanted(bool is_runtime, uint32_t cbid)
{
	const uint16_t *wanted = is_runtime ? runtime : driver;
	size_t count = is_runtime ? ARRAY_SIZE(runtime) : ARRAY_SIZE(driver);

	for (size_t i = 0; cbid && i < count; i++)
		if (wanted[i] == cbid)
			return true;
	return false;
}

/* Switches all functions but ours. */
static void switch_others(const struct cupti *cupti, bool is_runtime, bool on)
{
	uint32_t domain = is_runtime ? CUPTI_DOMAIN_RUNTIME : CUPTI_DOMAIN_DRIVER;
	int (*set)(uint32_t, uint8_t) =
		is_runtime ? cupti->enable_runtime_call : cupti->enable_driver_call;
	const char *name;

	if (!set || !cupti->callback_name)
		return;
	for (uint32_t cbid = 1; cbid < CBIDS_MAX; cbid++)
		if (!call_record_is_wanted(is_runtime, cbid) &&
		    cupti->callback_name(domain, cbid, &name) == CUPTI_OK)
			set(cbid, on);
}

int call_record_enable(const struct cupti *cupti, bool enable)
{
	static const uint32_t kinds[] = { CUPTI_KIND_DRIVER, CUPTI_KIND_RUNTIME };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		bool is_runtime = kinds[i] == CUPTI_KIND_RUNTIME;
		int r = CUPTI_OK;

		if (enable)
			r = cupti->enable(kinds[i]);
		if (r != CUPTI_OK) {
			debug_say("CUPTI refuses records of calls: error %d", r);
			return r;
		}
		switch_others(cupti, is_runtime, !enable);
		if (!enable)
			cupti->disable(kinds[i]);
	}
	return CUPTI_OK;
}
