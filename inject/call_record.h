/* call_record.h: CALL records where another user of CUPTI keeps its only subscription. */
#ifndef TS_CALL_RECORD_H
#define TS_CALL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "inject/cupti_find.h"

/* Starts or stops CUPTI's records of the calls that submit work. Returns what CUPTI refused, or
 * CUPTI_OK. */
int call_record_enable(const struct cupti *cupti, bool enable);
/* Whether this function of the runtime, or of the driver, is one of them. */
bool call_record_is_wanted(bool runtime, uint32_t cbid);

#endif
