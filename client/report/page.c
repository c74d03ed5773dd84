/* Page: what both forms share. */
#include "client/report/page.h"

#include "proto/control.pb-c.h"

bool page_is_number(const struct report_answer *answer, size_t column)
{
	return answer->type[column] != TRACESMITH__V1__COLUMNS__TYPE__TEXT &&
	       answer->type[column] != TRACESMITH__V1__COLUMNS__TYPE__STACK;
}
