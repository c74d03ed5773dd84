/* section.h: the tables of a report: one row of the list for each. */
#ifndef TS_CLIENT_REPORT_SECTION_H
#define TS_CLIENT_REPORT_SECTION_H

#include <stdbool.h>
#include <stdint.h>

/* identifier, title, query, rows at most, QueryRequest.by, whether it has a window, whether a
 * recording answers it, columns */
#define SECTIONS(X)                                                                                \
	X(PROCESSES, "Processes", "processes", 20, 0, true, true,                                  \
	  "pid user comm state tier container live_bytes peak_bytes calls errors command")         \
	X(IDLE, "What each device did", "idle", 60, 0, true, true,                                 \
	  "pid comm device state total_ns share observed_ns text")                                 \
	X(KERNELS, "Kernels", "kernels", 15, 0, true, true,                                        \
	  "pid comm count total_ns share mean_ns p99_ns delay_ns where name")                      \
	X(LAUNCHES, "Launches by line", "launches", 15, 3, true, true,                             \
	  "pid comm fn device calls plus_minus where")                                             \
	X(SYNCS, "Waits for the device", "syncs", 10, 0, true, true,                               \
	  "pid comm fn calls total_ns mean_ns max_ns where")                                       \
	X(TRANSFERS, "Copies and sets", "transfers", 12, 0, true, true,                            \
	  "pid comm kind calls errors bytes total_ns bytes_per_s times where")                     \
	X(OVERLAP, "Copies beside kernels", "overlap", 12, 0, true, true,                          \
	  "pid comm device kernels_ns copies_ns both_ns hidden mean_kernels max_kernels")          \
	X(PAGEABLE, "Copies of pageable memory", "pageable", 10, 3, true, true,                    \
	  "pid comm kind count total_ns bytes bytes_per_s call_ns where")                          \
	X(WASTE, "What could have been saved", "waste", 10, 3, true, true,                         \
	  "pid comm pattern certainty kind fn device count bytes lost_ns held_ns where advice")    \
	X(APIS, "Driver calls", "apis", 15, 0, true, true,                                         \
	  "fn kind calls plus_minus errors total_ns mean_ns max_ns bytes")                         \
	X(MEMORY, "Memory", "memory", 20, 0, false, true,                                          \
	  "pid comm device kind live_bytes live_count peak_bytes reserved_bytes")                  \
	X(FRAGMENTATION, "Fragmentation of memory", "fragmentation", 10, 0, false, true,           \
	  "pid comm device kind pool index reserved_bytes used_bytes free_bytes pieces "           \
	  "largest_bytes unusable")                                                                \
	X(OOM, "Out of memory", "oom", 10, 0, true, true,                                          \
	  "oom time_ns pid comm device outcome fn bytes failures held_bytes own_bytes "            \
	  "cached_bytes free_bytes fragmentation where enough")                                    \
	X(LEAKS, "Leaks and growth", "leaks", 10, 0, false, true,                                  \
	  "pid comm verdict kind fn device bytes count bytes_per_hour full_ns where why")          \
	X(ERRORS, "Failed calls", "errors", 10, 0, true, true,                                     \
	  "pid comm fn code name calls where")                                                     \
	X(COST, "What tracing costs", "cost", 10, 0, true, false,                                  \
	  "pid comm part cost low high budget watched measured")                                   \
	X(LOSS, "What is missing", "loss", 20, 0, true, true, "reason pid count text")

enum section_id {
#define X(id, ...) SECTION_##id,
	SECTIONS(X)
#undef X
		SECTION_COUNT
};

struct section {
	const char *title, *query;
	uint64_t limit;
	uint32_t by;
	bool windowed;
	bool recorded;
	const char *columns; /* separated by spaces */
};

extern const struct section sections[SECTION_COUNT];

#endif
