/* What the program `walked` loads in turns: the same code under another name. */
#define NAME_OF_IT(which) walked_##which
#define NAME(which)	  NAME_OF_IT(which)

__attribute__((noipa)) static void NAME(WHICH)(void (*function)(void))
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
