/* Replay on a GPU, kernels: PTX, which the driver compiles for the device that there is. The names
 * come from a recording, so only what can be a name of C is let in. */
#include "client/replay_gpu_kernel.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 1000

/* The first line tells the simulated GPU of the tests what these kernels are. */
static const char head[] = "// TraceSmith timed kernels: duration_ns, slot, resident, again\n"
			   ".version 6.0\n"
			   ".target sm_60\n"
			   ".address_size 64\n";

/* The first thread of a block waits, the others wait for it. */
static const char body[] =
	".func tracesmith_wait(.param .u64 duration, .param .u64 slot, .param .u64 resident,"
	" .param .u64 again)\n"
	"{\n"
	"	.reg .pred p, q;\n"
	"	.reg .u32 a, b, c, x, y, z;\n"
	"	.reg .u64 now, begin, duration_ns, slot_at, at_once, more;\n"
	"	.reg .u64 block, blocks, wave, waves, n;\n"
	"	mov.u32 a, %tid.x;\n"
	"	mov.u32 b, %tid.y;\n"
	"	mov.u32 c, %tid.z;\n"
	"	or.b32 a, a, b;\n"
	"	or.b32 a, a, c;\n"
	"	setp.ne.u32 q, a, 0;\n"
	"	@q bra done;\n"
	"	ld.param.u64 duration_ns, [duration];\n"
	"	ld.param.u64 slot_at, [slot];\n"
	"	ld.param.u64 at_once, [resident];\n"
	"	ld.param.u64 more, [again];\n"
	"	mov.u64 now, %globaltimer;\n"
	"	ld.volatile.global.u64 begin, [slot_at];\n"
	"	setp.ne.u64 p, begin, 0;\n"
	"	@p bra known;\n"
	"	atom.global.cas.b64 begin, [slot_at], 0, now;\n"
	"	setp.eq.u64 p, begin, 0;\n"
	"	selp.u64 begin, now, begin, p;\n"
	"known:\n"
	/* block = x + grid_x * (y + grid_y * z) */
	"	mov.u32 y, %ctaid.y;\n"
	"	mov.u32 z, %ctaid.z;\n"
	"	mov.u32 b, %nctaid.y;\n"
	"	cvt.u64.u32 n, y;\n"
	"	mul.wide.u32 block, b, z;\n"
	"	add.u64 block, block, n;\n"
	"	mov.u32 a, %nctaid.x;\n"
	"	cvt.u64.u32 n, a;\n"
	"	mul.lo.u64 block, block, n;\n"
	"	mov.u32 x, %ctaid.x;\n"
	"	cvt.u64.u32 n, x;\n"
	"	add.u64 block, block, n;\n"
	/* blocks = grid_x * grid_y * grid_z */
	"	mov.u32 c, %nctaid.z;\n"
	"	mul.wide.u32 blocks, b, c;\n"
	"	cvt.u64.u32 n, a;\n"
	"	mul.lo.u64 blocks, blocks, n;\n"
	/* until begin + duration * (block / at_once + 1) / ((blocks - 1) / at_once + 1) */
	"	div.u64 wave, block, at_once;\n"
	"	add.u64 wave, wave, 1;\n"
	"	sub.u64 waves, blocks, 1;\n"
	"	div.u64 waves, waves, at_once;\n"
	"	add.u64 waves, waves, 1;\n"
	"	mul.lo.u64 n, duration_ns, wave;\n"
	"	div.u64 n, n, waves;\n"
	"	add.u64 n, n, begin;\n"
	"busy:\n"
	"	mov.u64 now, %globaltimer;\n"
	"	setp.lt.u64 p, now, n;\n"
	"	@p bra busy;\n"
	/* The last block to leave. */
	"	setp.eq.u64 p, more, 0;\n"
	"	@p bra done;\n"
	"	atom.global.add.u64 n, [slot_at + 8], 1;\n"
	"	add.u64 n, n, 1;\n"
	"	setp.ne.u64 p, n, blocks;\n"
	"	@p bra done;\n"
	"	st.volatile.global.u64 [slot_at], 0;\n"
	"	st.volatile.global.u64 [slot_at + 8], 0;\n"
	"done:\n"
	"	bar.sync 0;\n"
	"	ret;\n"
	"}\n";

static const char kernel[] =
	".visible .entry %s(.param .u64 duration, .param .u64 slot, .param .u64 resident,"
	" .param .u64 again)\n"
	"{\n"
	"	.reg .u64 a, b, c, e;\n"
	"	ld.param.u64 a, [duration];\n"
	"	ld.param.u64 b, [slot];\n"
	"	ld.param.u64 c, [resident];\n"
	"	ld.param.u64 e, [again];\n"
	"	{\n"
	"	.param .u64 d;\n"
	"	.param .u64 s;\n"
	"	.param .u64 r;\n"
	"	.param .u64 m;\n"
	"	st.param.u64 [d], a;\n"
	"	st.param.u64 [s], b;\n"
	"	st.param.u64 [r], c;\n"
	"	st.param.u64 [m], e;\n"
	"	call tracesmith_wait, (d, s, r, m);\n"
	"	}\n"
	"	ret;\n"
	"}\n";

bool gpu_kernel_named(const char *symbol)
{
	size_t size = strlen(symbol);

	if (size == 0 || size > NAME_BYTES_MAX || strcmp(symbol, "tracesmith_wait") == 0)
		return false;
	/* A lone underscore is none, and a digit cannot begin one. */
	if (!isalpha((unsigned char)symbol[0]) && (symbol[0] != '_' || size == 1))
		return false;
	for (size_t i = 0; i < size; i++)
		if (!isascii((unsigned char)symbol[i]) ||
		    (!isalnum((unsigned char)symbol[i]) && symbol[i] != '_' && symbol[i] != '$'))
			return false;
	return true;
}

char *gpu_kernel_text(const char *const *symbol, size_t count)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fputs(head, out);
	fputs(body, out);
	fprintf(out, kernel, GPU_KERNEL_NAMELESS);
	for (size_t i = 0; i < count; i++)
		fprintf(out, kernel, symbol[i]);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
