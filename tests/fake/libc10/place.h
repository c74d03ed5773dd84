/* place.h: a place in the code that can be probed (USDT), with the note that sys/sdt.h would write,
 * and a semaphore that says whether anybody looks. Operands are numbered as the compiler does: the
 * note has them in the words of the assembler. */
#ifndef FAKE_PLACE_H
#define FAKE_PLACE_H

#define PLACE_SEMAPHORE(provider, name)                                                            \
	__attribute__((                                                                            \
		section(".probes"), used,                                                          \
		visibility("hidden"))) volatile unsigned short provider##_##name##_semaphore

#define PLACE_BASE                                                                                 \
	".ifndef _.stapsdt.base\n"                                                                 \
	".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"                \
	".weak _.stapsdt.base\n"                                                                   \
	".hidden _.stapsdt.base\n"                                                                 \
	"_.stapsdt.base: .space 1\n"                                                               \
	".size _.stapsdt.base, 1\n"                                                                \
	".popsection\n"                                                                            \
	".endif\n"

/* `arguments` are of the note, such as "8@%0 -4@%1"; the rest is what they are. */
#define PLACE(provider, name, arguments, ...)                                                      \
	__asm__ volatile("990: nop\n"                                                              \
			 ".pushsection .note.stapsdt, \"\", @note\n"                               \
			 ".balign 4\n"                                                             \
			 ".4byte 992f - 991f, 994f - 993f, 3\n"                                    \
			 "991: .asciz \"stapsdt\"\n"                                               \
			 "992: .balign 4\n"                                                        \
			 "993: .8byte 990b, _.stapsdt.base, " #provider "_" #name "_semaphore\n"   \
			 ".asciz \"" #provider "\", \"" #name "\", \"" arguments "\"\n"            \
			 "994: .balign 4\n"                                                        \
			 ".popsection\n" PLACE_BASE ::__VA_ARGS__)

#endif
