/* Nccl: NVIDIA's library of collectives (libnccl): communicators, and what is called on them.
 *
 * Argument positions are those of nccl.h of NCCL 2, which never changes them. A communicator is
 * known across processes by the unique id that it is made of, 128 bytes by value: so they lie on
 * the caller's stack. Counts are of elements, in some calls of one rank's part: the model knows
 * which. A call returns when its kernel is launched; in a group that is when the outermost group
 * ends.
 */
#include "core/base/array.h"
#include "daemon/library/library.h"

/* clang-format off */
#define TO(field)	  (uint8_t) offsetof(struct ts_api, field)
#define ARG(n, field)	  { PROBE_ARG, n, 8, TO(field), 0 }
#define ARG32(n, field)	  { PROBE_ARG, n, 4, TO(field), 0 }
/* The pointer is kept in the field from entry to return: IN must put it there. */
#define AT(n, field)	  { PROBE_FIELD, n, 8, TO(field), 0 }
#define AT32(n, field)	  { PROBE_FIELD, n, 4, TO(field), 0 }
#define IN(...)		  .slot = { __VA_ARGS__ }
#define OUT(...)	  .out = { __VA_ARGS__ }
#define ROW(row, symbol, does, what, how, ...)                                                     \
	{ .number = row,                                                                           \
	  .model.name = symbol,                                                                    \
	  .model.kind = OP_MEMORY, /* no op is made of it */                                       \
	  .model.effect = EFFECT_##does,                                                           \
	  .model.detail = what,                                                                    \
	  .flags = how,                                                                            \
	  __VA_ARGS__ }
#define COLLECTIVE(row, symbol, what, how, ...)                                                    \
	ROW(row, symbol, COLLECTIVE, COLLECTIVE_##what, PROBE_RETURN | (how), IN(__VA_ARGS__))

static const struct library_function nccl_function[] = {
	ROW(330, "ncclCommInitRank", COMM_INIT, 0, PROBE_RETURN,
	    IN(ARG(0, handle), ARG32(1, size), ARG32(2, rank)), OUT(AT(0, handle)),
	    .id_at = PROBE_ID_ON_STACK),
	ROW(331, "ncclCommInitRankConfig", COMM_INIT, 0, PROBE_RETURN,
	    IN(ARG(0, handle), ARG32(1, size), ARG32(2, rank)), OUT(AT(0, handle)),
	    .id_at = PROBE_ID_ON_STACK),
	ROW(332, "ncclCommInitRankScalable", COMM_INIT, 0, PROBE_RETURN,
	    IN(ARG(0, handle), ARG32(1, size), ARG32(2, rank)), OUT(AT(0, handle)),
	    .id_at = PROBE_ID_AT_FIFTH),
	ROW(333, "ncclCommSplit", COMM_SPLIT, 0, PROBE_RETURN,
	    IN(ARG(0, source), ARG32(1, color), ARG32(2, key), ARG(3, handle)),
	    OUT(AT(3, handle))),
	ROW(334, "ncclCommDestroy", COMM_END, 0, PROBE_ALWAYS, IN(ARG(0, handle))),
	ROW(335, "ncclCommAbort", COMM_END, 0, PROBE_ALWAYS, IN(ARG(0, handle))),
	ROW(336, "ncclCommCount", COMM_SIZE, 0, PROBE_RETURN, IN(ARG(0, handle), ARG(1, bytes)),
	    OUT(AT32(1, bytes))),
	ROW(337, "ncclCommUserRank", COMM_RANK, 0, PROBE_RETURN,
	    IN(ARG(0, handle), ARG(1, bytes)), OUT(AT32(1, bytes))),
	ROW(338, "ncclGroupStart", GROUP_START, 0, PROBE_ALWAYS),
	ROW(339, "ncclGroupEnd", GROUP_END, 0, PROBE_RETURN),

	COLLECTIVE(340, "ncclAllReduce", ALL_REDUCE, PROBE_SPILLED, ARG(2, bytes), ARG32(3, type),
		   ARG32(4, reduction), ARG(5, handle), ARG(6, stream)),
	COLLECTIVE(341, "ncclReduce", REDUCE, PROBE_SPILLED, ARG(2, bytes), ARG32(3, type),
		   ARG32(4, reduction), ARG32(5, peer), ARG(6, handle), ARG(7, stream)),
	COLLECTIVE(342, "ncclBroadcast", BROADCAST, PROBE_SPILLED, ARG(2, bytes), ARG32(3, type),
		   ARG32(4, peer), ARG(5, handle), ARG(6, stream)),
	COLLECTIVE(343, "ncclBcast", BROADCAST, 0, ARG(1, bytes), ARG32(2, type), ARG32(3, peer),
		   ARG(4, handle), ARG(5, stream)),
	COLLECTIVE(344, "ncclReduceScatter", REDUCE_SCATTER, PROBE_SPILLED, ARG(2, bytes),
		   ARG32(3, type), ARG32(4, reduction), ARG(5, handle), ARG(6, stream)),
	COLLECTIVE(345, "ncclAllGather", ALL_GATHER, 0, ARG(2, bytes), ARG32(3, type),
		   ARG(4, handle), ARG(5, stream)),
	COLLECTIVE(346, "ncclSend", SEND, 0, ARG(1, bytes), ARG32(2, type), ARG32(3, peer),
		   ARG(4, handle), ARG(5, stream)),
	COLLECTIVE(347, "ncclRecv", RECV, 0, ARG(1, bytes), ARG32(2, type), ARG32(3, peer),
		   ARG(4, handle), ARG(5, stream)),
	COLLECTIVE(348, "ncclAlltoAll", ALL_TO_ALL, 0, ARG(2, bytes), ARG32(3, type),
		   ARG(4, handle), ARG(5, stream)),
	COLLECTIVE(349, "ncclGather", GATHER, PROBE_SPILLED, ARG(2, bytes), ARG32(3, type),
		   ARG32(4, peer), ARG(5, handle), ARG(6, stream)),
	COLLECTIVE(350, "ncclScatter", SCATTER, PROBE_SPILLED, ARG(2, bytes), ARG32(3, type),
		   ARG32(4, peer), ARG(5, handle), ARG(6, stream)),
};
/* clang-format on */

const struct library_row library_nccl = {
	.name = "nccl",
	.files = "libnccl.so*",
	.places = "",
	.by_choice = true,
	.gap = LOSS_GAP_NCCL,
	.function = nccl_function,
	.count = ARRAY_SIZE(nccl_function),
};
