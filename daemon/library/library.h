/* library.h: the table of probed libraries.
 *
 * A row names the files that are copies of one library, and its functions. A function names its
 * symbols, says what a call does to the model (core/model/function.h), and which argument fills
 * which field of struct ts_api (bpf/probe.h).
 */
#ifndef TS_LIBRARY_H
#define TS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/probe.h"
#include "core/model/function.h"
#include "core/model/loss_row.h"

#define LIBRARY_ALIASES_MAX 2

struct library_function {
	uint16_t number;	/* stored with each op, of all libraries: never reuse one */
	struct function model;	/* `name` of a note: provider:name */
	uint16_t flags;		/* enum probe_flag */
	const char *per_thread; /* suffix of the form for per-thread default streams */
	const char *alias[LIBRARY_ALIASES_MAX]; /* other symbols, same signature and meaning */
	uint8_t device_type;			/* as in struct probe_desc */
	uint8_t id_at;				/* enum probe_id_at */
	struct probe_slot slot[PROBE_SLOTS_MAX];
	struct probe_slot out[PROBE_OUTS_MAX];
};

struct library_row {
	const char *name;
	const char *files;    /* patterns of file names, separated by spaces */
	const char *places;   /* patterns of paths where it is usually found, the same way */
	const char *devices;  /* pattern of device files, one for each device; NULL: drives none */
	bool by_choice;	      /* not among the default libraries: it has a setting of its own */
	enum loss_reason gap; /* what is lost while a copy has no probes */
	const struct library_function *function;
	size_t count;
};

extern const struct library_row library_cuda, library_range, library_torch, library_torch_cuda,
	library_nccl;

/* The n-th row, NULL after the last. */
const struct library_row *library_get(size_t n);
/* The row that `path` is a copy of by its name, NULL: of none. */
const struct library_row *library_of(const char *path);

/* The function of that number, NULL: there is none. */
const struct library_function *library_function(uint32_t number);

/* Whether calls of a copy of it in that group can be missed; NULL: of any library. */
bool library_has_group(const struct library_row *row, enum probe_group group);

/* `files` and `places` of all rows but those by choice, to be freed; NULL: no memory. */
char *library_files(void);
char *library_places(void);

/* Whether one of the patterns, separated by spaces, matches the name of the file at `path`, which
 * the kernel may have printed as deleted. */
bool library_matches(const char *path, const char *patterns);

/* The model's view of all functions, indexed by number. Owned by the table. */
struct function_table library_functions(void);
/* Functions that a program calls all the time, and without which memory, contexts and the order of
 * work are still known. */
bool library_is_hot(const struct library_function *function);
enum probe_group library_group(const struct library_function *function);
/* What the BPF programs need to know of a function. */
void library_probe_desc(const struct library_function *function, struct probe_desc *ret);

/* How many devices the host has, 0 if unknown. */
size_t library_device_count(void);

#endif
