/* Reissue, kernels: PTX, which the driver compiles for the present device. The names come from a
 * recording, so only valid C names are accepted. Our own symbols have names that are invalid in C,
 * since the assembler crashes on a kernel named like a register. */
#include "client/reissue/kernel.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

#define NAME_BYTES_MAX 1000

/* The first line tells the tests' simulated GPU what these kernels are. */
static const char head[] = "// TraceSmith timed kernels: gpu_kernel_arguments\n"
			   ".version 6.0\n"
			   ".target sm_60\n"
			   ".address_size 64\n";

/* The first thread of a block waits, the others exit: a block keeps its place until its last thread
 * exits. This must not prolong short blocks, so there is at most one memory access and no
 * division. */
static const char body[] =
	".func $tracesmith_wait(.param .u64 $duration, .param .u64 $slot, .param .u64 $old,"
	" .param .f32 $block_waves, .param .f32 $wave_part)\n"
	"{\n"
	"	.reg .pred %p, %q;\n"
	"	.reg .u32 %a, %x, %y, %z;\n"
	"	.reg .u64 %now, %start, %begin, %limit, %at, %n;\n"
	"	.reg .f32 %f, %g, %wave, %wave_ns;\n"
	"	mov.u32 %a, %tid.x;\n"
	"	mov.u32 %y, %tid.y;\n"
	"	mov.u32 %z, %tid.z;\n"
	"	or.b32 %a, %a, %y;\n"
	"	or.b32 %a, %a, %z;\n"
	"	setp.ne.u32 %p, %a, 0;\n"
	"	@%p bra $done;\n"
	"	mov.u64 %now, %globaltimer;\n"
	"	ld.param.u64 %n, [$duration];\n"
	"	ld.param.u64 %at, [$slot];\n"
	"	ld.param.u64 %limit, [$old];\n"
	"	cvt.rn.f32.u64 %wave_ns, %n;\n"
	"	ld.param.f32 %f, [$wave_part];\n"
	"	mul.f32 %wave_ns, %wave_ns, %f;\n"
	/* wave = floor((x + grid_x * (y + grid_y * z) + 0.5) * block_waves) */
	"	mov.u32 %x, %ctaid.x;\n"
	"	mov.u32 %y, %ctaid.y;\n"
	"	mov.u32 %z, %ctaid.z;\n"
	"	mov.u32 %a, %nctaid.y;\n"
	"	cvt.rn.f32.u32 %f, %a;\n"
	"	cvt.rn.f32.u32 %g, %z;\n"
	"	cvt.rn.f32.u32 %wave, %y;\n"
	"	fma.rn.f32 %wave, %f, %g, %wave;\n"
	"	mov.u32 %a, %nctaid.x;\n"
	"	cvt.rn.f32.u32 %f, %a;\n"
	"	cvt.rn.f32.u32 %g, %x;\n"
	"	fma.rn.f32 %wave, %f, %wave, %g;\n"
	"	add.f32 %wave, %wave, 0f3F000000;\n"
	"	ld.param.f32 %f, [$block_waves];\n"
	"	mul.f32 %wave, %wave, %f;\n"
	"	cvt.rmi.f32.f32 %wave, %wave;\n"
	/* As far as the block can tell. */
	"	mul.f32 %f, %wave, %wave_ns;\n"
	"	cvt.rzi.u64.f32 %n, %f;\n"
	"	sub.u64 %start, %now, %n;\n"
	/* Blocks of a first wave below 1000 ns do not look. */
	"	setp.lt.f32 %p, %wave, 0f3F800000;\n"
	"	setp.lt.and.f32 %p, %wave_ns, 0f447A0000, %p;\n"
	"	@%p bra $note;\n"
	"	ld.volatile.global.u64 %begin, [%at];\n"
	"	setp.eq.u64 %p, %begin, 0;\n"
	"	@%p bra $note;\n"
	"	sub.u64 %n, %now, %begin;\n"
	"	setp.gt.u64 %p, %n, %limit;\n"
	"	@%p bra $note;\n"
	"	mov.u64 %start, %begin;\n"
	"	bra $wait;\n"
	"$note:\n"
	"	or.b32 %a, %x, %y;\n"
	"	or.b32 %a, %a, %z;\n"
	"	setp.ne.u32 %q, %a, 0;\n"
	"	@%q bra $wait;\n"
	"	st.volatile.global.u64 [%at], %now;\n"
	"$wait:\n"
	"	add.f32 %f, %wave, 0f3F800000;\n"
	"	mul.f32 %f, %f, %wave_ns;\n"
	"	cvt.rzi.u64.f32 %n, %f;\n"
	"	add.u64 %limit, %start, %n;\n"
	"$busy:\n"
	"	mov.u64 %now, %globaltimer;\n"
	"	setp.lt.u64 %p, %now, %limit;\n"
	"	@%p bra $busy;\n"
	"$done:\n"
	"	ret;\n"
	"}\n";

/* After ".visible .entry NAME". */
static const char kernel[] = "(.param .u64 $duration, .param .u64 $slot, .param .u64 $old,"
			     " .param .f32 $block_waves, .param .f32 $wave_part)\n"
			     "{\n"
			     "	.reg .u64 %a, %b, %c;\n"
			     "	.reg .f32 %e, %f;\n"
			     "	ld.param.u64 %a, [$duration];\n"
			     "	ld.param.u64 %b, [$slot];\n"
			     "	ld.param.u64 %c, [$old];\n"
			     "	ld.param.f32 %e, [$block_waves];\n"
			     "	ld.param.f32 %f, [$wave_part];\n"
			     "	{\n"
			     "	.param .u64 $d;\n"
			     "	.param .u64 $s;\n"
			     "	.param .u64 $o;\n"
			     "	.param .f32 $w;\n"
			     "	.param .f32 $p;\n"
			     "	st.param.u64 [$d], %a;\n"
			     "	st.param.u64 [$s], %b;\n"
			     "	st.param.u64 [$o], %c;\n"
			     "	st.param.f32 [$w], %e;\n"
			     "	st.param.f32 [$p], %f;\n"
			     "	call $tracesmith_wait, ($d, $s, $o, $w, $p);\n"
			     "	}\n"
			     "	ret;\n"
			     "}\n";

bool gpu_kernel_named(const char *symbol)
{
	size_t size = strlen(symbol);

	if (size == 0 || size > NAME_BYTES_MAX || strcmp(symbol, GPU_KERNEL_NAMELESS) == 0 ||
	    strcmp(symbol, "WARP_SZ") == 0)
		return false;
	/* A lone underscore is not a name, and a name cannot start with a digit. */
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
	FILE *out = text_open(&text, &size);

	if (!out)
		return NULL;
	fputs(head, out);
	fputs(body, out);
	fprintf(out, ".visible .entry %s%s", GPU_KERNEL_NAMELESS, kernel);
	for (size_t i = 0; i < count; i++)
		fprintf(out, ".visible .entry %s%s", symbol[i], kernel);
	if (text_close(out) < 0) {
		free(text);
		return NULL;
	}
	return text;
}
