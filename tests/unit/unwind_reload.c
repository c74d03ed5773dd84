/* unwind_reload: two libraries of it differ only in how large their frame is, so that one loaded
 * where the other was has other rules at the same addresses. */
void call_back(void (*function)(void));

__attribute__((visibility("default"))) void call_back(void (*function)(void))
{
	volatile char bytes[FRAME_BYTES];

	bytes[0] = 1;
	function();
	bytes[1] = bytes[0];
}
