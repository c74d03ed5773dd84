/* ask.h: what images lack is asked of a helper, and what it says is put into them, in the order of
 * the records. An image that waits for an answer is not settled: it may lack mappings.
 */
#ifndef TS_MAPS_ASK_H
#define TS_MAPS_ASK_H

#include "daemon/maps/state.h"

/* All that the process maps now. */
void maps_ask_mappings(struct maps_image *image);
/* The same, to find what it no longer maps. */
void maps_ask_refresh(struct maps_image *image);
/* One mapping. */
void maps_ask_record(struct maps_image *image, const struct maps_record *record);
/* Something else that is not settled is mapped there. */
bool maps_ask_clashes(const struct maps_image *image, const struct maps_record *record);
/* What the last records said of a process that is gone. False: nothing. */
bool maps_ask_history(struct maps_image *image);
/* Its answer goes nowhere. */
void maps_ask_forget(struct maps_image *image);
void maps_ask_cancel_all(struct maps *maps);

#endif
