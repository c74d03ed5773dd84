/* mapper.c LIBRARY THREADS: a program that uses the driver, and whose threads do nothing but map,
 * fill and unmap memory: each waits for its lock most of the time, and so does who else wants it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (1 << 20)

static void *thread_main(void *data)
{
	for (;;) {
		void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			return NULL;
		memset(memory, 1, BYTES);
		munmap(memory, BYTES);
	}
}

int main(int argc, char **argv)
{
	void *driver = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	pthread_t thread;

	if (!driver) {
		fputs("Usage: mapper LIBRARY THREADS\n", stderr);
		return 1;
	}
	((int (*)(unsigned int))dlsym(driver, "cuInit"))(0);
	for (int i = 0; i < atoi(argv[2]); i++)
		if (pthread_create(&thread, NULL, thread_main, NULL))
			return 1;
	for (;;)
		pause();
}
