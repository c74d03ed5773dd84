/* chrome.h: the threads of the Chrome export, which its parts share.
 *
 * The format has only processes and threads, so streams, devices, ranges and losses are threads of
 * their process. A thread is named right before the first event that needs it. */
#ifndef TS_CLIENT_EXPORT_CHROME_H
#define TS_CLIENT_EXPORT_CHROME_H

#include "client/export/export.h"
#include "client/export/lane.h"
#include "client/output/out.h"

enum what {
	WHAT_PROCESS,
	WHAT_THREAD,
	WHAT_STACK,
	/* Rows of lanes: */
	WHAT_KERNELS,
	WHAT_COPIES,
	WHAT_RANGES,
	WHAT_OVERHEAD,
	WHAT_LOSS,
};

struct exporter {
	const struct meta *meta;
	struct out *out;
	struct map seen;
	struct rows rows;
	struct used_stack *used;
	uint32_t lane_count;
	uint64_t thread; /* of the last call, as a key of `seen` */
	bool comma;	 /* not the first item */
};

/* Starts an event, up to its thread: the caller continues with ",". */
int chrome_event_open(struct exporter *x, const char *phase, uint32_t pid, uint32_t tid);

/* These return a thread, and name it on first use. */
int chrome_call_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid);
int chrome_work_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
		       uint32_t *ret_tid);
int chrome_range_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
			uint32_t *ret_tid);
int chrome_state_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
			uint32_t *ret_tid);
int chrome_loss_thread(struct exporter *x, const struct meta_loss *loss, uint32_t *ret_pid,
		       uint32_t *ret_tid);

#endif
