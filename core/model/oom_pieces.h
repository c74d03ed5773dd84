/* oom_pieces.h: what lies free between a framework's blocks, for an autopsy. */
#ifndef TS_CORE_OOM_PIECES_H
#define TS_CORE_OOM_PIECES_H

#include "core/model/core.h"

struct process;

/* Of more blocks or segments it is not known: sorting them takes 10 ms. */
#define OOM_PIECES_MAX 65536

/* Fills the fields of `row` that say so, if each block is known. */
void oom_pieces(const struct process *process, struct core_oom *row);

#endif
