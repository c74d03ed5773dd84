/* What the program `walked` loads in turns: the same code under another name. */

#ifdef __clang__
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa)) /* nor is it made into another function */
#endif
#define NAME_OF_IT(which) walked_##which
#define NAME(which)	  NAME_OF_IT(which)

ALONE static void NAME(WHICH)(void (*function)(void))
{
	function();
	__asm__ volatile("" ::: "memory");
}

__attribute__((visibility("default"))) void call_back(void (*function)(void));
void call_back(void (*function)(void))
{
	NAME(WHICH)(function);
	__asm__ volatile("" ::: "memory");
}
