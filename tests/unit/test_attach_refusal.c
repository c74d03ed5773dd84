/* Attaching that is refused, or fails: with a message, and without a trace. */
#include <elf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "core/base/array.h"
#include "tests/unit/attach_story.h"

static void what_is_not_there_is_refused(void **state)
{
	struct victim victim = { .pid = 4194303 };
	struct attach_request request = { .started_ticks = 1 };
	struct remarks why = { 0 };
	int status;

	refuses(&victim, false, -ESRCH, "does not exist");
	victim.pid = fork();
	if (!victim.pid)
		_exit(0);
	while (waitid(P_PID, (id_t)victim.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT) < 0)
		;
	refuses(&victim, false, -ESRCH, "has ended");
	waitpid(victim.pid, &status, 0);
	victim.pid = 2;
	refuses(&victim, false, -ENOEXEC, "kernel");
	victim.pid = getpid();
	refuses(&victim, false, -EPERM, "itself");
	victim.pid = 1;
	refuses(&victim, false, -EPERM, "init");
	request.pid = getppid();
	assert_int_equal(attach_check(&request, &why), -ESRCH);
	assert_non_null(strstr(remarks_text(&why), "belongs to another process"));
	remarks_clear(&why);
}

static void a_program_without_cuda_is_refused(void **state)
{
	struct victim victim = { .pid = fork() };
	char path[64], exe[64];

	if (!victim.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sleep", "sleep", "60", NULL);
		_exit(1);
	}
	snprintf(path, sizeof(path), "/proc/%d/exe", victim.pid);
	do
		memset(exe, 0, sizeof(exe));
	while (readlink(path, exe, sizeof(exe) - 1) < 0 || !strstr(exe, "sleep"));
	refuses(&victim, false, -ENODEV, "CUDA");
	kill(victim.pid, SIGKILL);
	waitpid(victim.pid, NULL, 0);
}

static void a_static_program_is_refused(void **state)
{
	struct victim victim = victim_start_as(ATTACH_STATIC, "read", NULL, NULL);

	refuses(&victim, false, -ENOEXEC, "statically");
	assert_int_equal(victim_end(&victim), 0);
}

/* A copy of the program whose interpreter has another name. */
static void a_musl_program_is_refused(void **state)
{
	char musl[64], command[1024];
	struct victim victim;

	snprintf(musl, sizeof(musl), "/tmp/.ld-musl-x86-64.%06d", getpid() % 1000000);
	snprintf(command, sizeof(command),
		 "cp /lib64/ld-linux-x86-64.so.2 %s && sed "
		 "'s,/lib64/ld-linux-x86-64.so.2,%s,' '%s' > %s.bin && "
		 "chmod 755 %s.bin",
		 musl, musl, ATTACH_TARGET, musl, musl);
	assert_int_equal(strlen(musl), strlen("/lib64/ld-linux-x86-64.so.2"));
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "%s.bin", musl);
	victim = victim_start_as(command, "read", NULL, NULL);
	refuses(&victim, false, -ENOEXEC, "musl");
	assert_int_equal(victim_end(&victim), 0);
	unlink(command);
	unlink(musl);
}

/* Does nothing but pause(), in 32-bit code: push $29; pop %eax; int $0x80; jmp. */
static void a_32_bit_program_is_refused(void **state)
{
	static const struct {
		Elf32_Ehdr header;
		Elf32_Phdr segment;
		uint8_t code[16];
	} program = {
		{ .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT },
		  .e_type = ET_EXEC,
		  .e_machine = EM_386,
		  .e_version = EV_CURRENT,
		  .e_entry = 0x8048000 + sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
		  .e_phoff = sizeof(Elf32_Ehdr),
		  .e_ehsize = sizeof(Elf32_Ehdr),
		  .e_phentsize = sizeof(Elf32_Phdr),
		  .e_phnum = 1 },
		{ .p_type = PT_LOAD,
		  .p_vaddr = 0x8048000,
		  .p_filesz = sizeof(program),
		  .p_memsz = sizeof(program),
		  .p_flags = PF_R | PF_X,
		  .p_align = 4096 },
		{ 0x6a, 29, 0x58, 0xcd, 0x80, 0xeb, 0xf9 },
	};
	struct victim victim;
	char path[64], exe[64] = "", link[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/test_attach32.%d", getpid());
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	assert_int_equal(write(fd, &program, sizeof(program)), sizeof(program));
	close(fd);
	victim.pid = fork();
	if (!victim.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, path, NULL);
		_exit(127);
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", victim.pid);
	while (strcmp(exe, path) && waitpid(victim.pid, NULL, WNOHANG) == 0) {
		ssize_t n = readlink(link, exe, sizeof(exe) - 1);

		exe[n > 0 ? n : 0] = '\0';
	}
	unlink(path);
	if (strcmp(exe, path)) {
		fprintf(stderr, "this kernel runs no 32-bit programs\n");
		return;
	}
	refuses(&victim, false, -ENOEXEC, "32-bit");
	kill(victim.pid, SIGKILL);
	waitpid(victim.pid, NULL, 0);
}

static void a_traced_or_stopped_program_is_refused(void **state)
{
	struct victim victim = victim_start("read", NULL);
	siginfo_t info;

	assert_int_equal(ptrace(PTRACE_SEIZE, victim.pid, NULL, NULL), 0);
	refuses(&victim, false, -EPERM, "is traced by process");
	ptrace(PTRACE_INTERRUPT, victim.pid, NULL, NULL);
	waitpid(victim.pid, NULL, __WALL);
	ptrace(PTRACE_DETACH, victim.pid, NULL, NULL);
	kill(victim.pid, SIGSTOP);
	assert_int_equal(waitid(P_PID, (id_t)victim.pid, &info, WSTOPPED), 0);
	refuses(&victim, false, -EAGAIN, "kill -CONT");
	kill(victim.pid, SIGCONT);
	assert_int_equal(victim_end(&victim), 0);
}

static void filter_nothing(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void forbid(uint32_t number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_SIZE(code), code };

	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void filter_memfd(void)
{
	forbid(SYS_memfd_create);
}

static void same_residue(struct victim *victim, const struct residue *before)
{
	struct residue after = residue_of(victim->pid);

	if (after.ours || after.threads != before->threads ||
	    after.descriptors != before->descriptors || after.mappings != before->mappings)
		fail_msg("%s, and before %s; %s", residue_text(after), residue_text(*before),
			 victim_state(victim));
}

static void a_seccomp_filter_is_refused_unless_asked_for(void **state)
{
	struct victim victim = victim_start_as(ATTACH_TARGET, "read", NULL, filter_nothing);
	struct attach_result result;

	refuses(&victim, false, -ENOEXEC, "seccomp");
	cycle(&victim, &result);
	assert_int_equal(victim_end(&victim), 0);
}

/* What the other threads have, where the main one has none: it works for us then, whatever they
 * wait in. */
static void a_filter_of_another_thread_is_refused_by_its_name_unless_asked_for(void **state)
{
	struct victim victim = victim_start("filtered", NULL);
	struct attach_result result;

	refuses(&victim, false, -ENOEXEC, "has a seccomp filter (thread ");
	refuses(&victim, false, -ENOEXEC, ", 'filtered')");
	for (int i = 0; i < 5; i++)
		cycle(&victim, &result);
	assert_int_equal(victim_end(&victim), 0);
}

static void a_thread_in_strict_mode_is_refused(void **state)
{
	struct victim victim = victim_start("strict", NULL);

	refuses(&victim, true, -ENOEXEC, "('strict') of process");
	assert_int_equal(victim_end(&victim), 0);
}

static void a_system_call_that_is_forbidden_rolls_back(void **state)
{
	struct victim victim = victim_start_as(ATTACH_TARGET, "read", NULL, filter_memfd);
	struct residue before = residue_of(victim.pid);

	refuses(&victim, true, -EIO, "memfd_create");
	same_residue(&victim, &before);
	assert_int_equal(victim_end(&victim), 0);
}

struct attempt {
	const struct attach_request *request;
	struct remarks *why;
	int r;
};

static void *attempt_without_writing(void *data)
{
	struct attempt *attempt = data;
	struct attach_result result;

	forbid(SYS_process_vm_writev);
	attempt->r = attach_again(attempt->request, &result, attempt->why);
	return NULL;
}

/* It has not ended, as was said before. */
static void a_process_that_we_may_not_write_to_rolls_back(void **state)
{
	struct victim victim = victim_start("read", NULL);
	struct attach_request request = { .pid = victim.pid, .library = fixture_library() };
	struct residue before = residue_of(victim.pid);
	struct remarks why = { 0 };
	struct attempt attempt = { &request, &why, 0 };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, attempt_without_writing, &attempt), 0);
	pthread_join(thread, NULL);
	assert_int_equal(attempt.r, -EIO);
	assert_non_null(strstr(remarks_text(&why), "Cannot write to the memory of process"));
	assert_non_null(strstr(remarks_text(&why), "Operation not permitted"));
	remarks_clear(&why);
	same_residue(&victim, &before);
	assert_int_equal(victim_end(&victim), 0);
}

static void rolls_back(uint32_t entry_does, int error, const char *word)
{
	struct victim victim = victim_start("vectors", "alone");
	struct attach_request request = victim_request(&victim, entry_does);
	struct attach_result result;
	struct residue before;
	struct remarks why = { 0 };
	int r, tries = 10;

	cycle(&victim, &result);
	before = residue_of(victim.pid);
	do
		r = attach_run(&request, &result, &why);
	while (r == -EAGAIN && !strstr(remarks_text(&why), word) && --tries);
	if (r != error || !strstr(remarks_text(&why), word))
		fail_msg("%d, '%s' does not say %d, '%s'", r, remarks_text(&why), error, word);
	remarks_clear(&why);
	same_residue(&victim, &before);
	cycle(&victim, &result);
	assert_int_equal(victim_end(&victim), 0);
}

static void a_library_that_fails_is_taken_out(void **state)
{
	rolls_back(ENTRY_FAILS, -EIO, "Cannot allocate memory");
}

static void a_call_that_hangs_is_taken_back(void **state)
{
	rolls_back(ENTRY_HANGS, -EIO, "did not return");
}

/* How far it got is unknown, so it is not tried again. */
static void an_entry_that_waits_for_a_lock_is_taken_back(void **state)
{
	rolls_back(ENTRY_LOCKS, -EIO, "a lock was held");
}

static void a_call_that_crashes_is_taken_back(void **state)
{
	rolls_back(ENTRY_CRASHES, -EIO, "signal 11");
}

static void a_file_that_is_no_library_is_told(void **state)
{
	struct victim victim = victim_start("read", NULL);
	struct attach_result result;
	struct attach_request request = { .pid = victim.pid,
					  .library = open("/etc/passwd", O_RDONLY | O_CLOEXEC) };
	struct residue before;
	struct remarks why = { 0 };

	cycle(&victim, &result);
	before = residue_of(victim.pid);
	assert_int_equal(attach_again(&request, &result, &why), -EIO);
	assert_non_null(strstr(remarks_text(&why), "invalid ELF header"));
	remarks_clear(&why);
	same_residue(&victim, &before);
	close(request.library);
	assert_int_equal(victim_end(&victim), 0);
}

#define ROOT "/tmp/test_attach_root.%d" /* the pid of the test: it may run twice at a time */
static bool with_proc;

/* Another file system, without the library, without the test's own files. */
static void other_mounts(void)
{
	char root[64], command[1024];

	snprintf(root, sizeof(root), ROOT, getppid());
	if (unshare(CLONE_NEWNS) < 0 || (mkdir(root, 0700) < 0 && errno != EEXIST) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", root, "tmpfs", 0, NULL) < 0)
		_exit(99);
	snprintf(command, sizeof(command),
		 "cd %s && mkdir -p proc lib64 lib/x86_64-linux-gnu && "
		 "cp -L /lib64/ld-linux-x86-64.so.2 lib64 && "
		 "cp -L /lib/x86_64-linux-gnu/libc.so.6 lib/x86_64-linux-gnu && "
		 "cp '%s' prog && cp '%s' . && if %s; then mount -t proc none proc; fi",
		 root, ATTACH_TARGET, fixture_cuda(), with_proc ? "true" : "false");
	if (system(command) || chroot(root) < 0 || chdir("/") < 0)
		_exit(98);
	execl("/prog", "prog", "/libcuda.so.attach", "read", NULL);
	_exit(97);
}

static void remove_root(void)
{
	char root[64];

	snprintf(root, sizeof(root), ROOT, getpid());
	assert_int_equal(rmdir(root), 0);
}

static void a_program_with_other_mounts_needs_none_of_ours(void **state)
{
	struct attach_result result;
	struct victim victim;

	with_proc = true;
	victim = victim_start_as(ATTACH_TARGET, "read", NULL, other_mounts);
	cycle(&victim, &result);
	assert_int_equal(victim_end(&victim), 0);
	remove_root();
}

static void a_program_without_proc_is_refused(void **state)
{
	struct victim victim;

	with_proc = false;
	victim = victim_start_as(ATTACH_TARGET, "read", NULL, other_mounts);
	refuses(&victim, false, -ENOEXEC, "/proc");
	assert_int_equal(victim_end(&victim), 0);
	remove_root();
}

/* After its owner was checked, it has started a program with other privileges. */
static void a_program_that_is_another_users_by_now_is_let_go(void **state)
{
	struct victim victim = victim_start("read", NULL);
	struct residue before = residue_of(victim.pid), after;
	struct attach_request request = { .pid = victim.pid,
					  .library = fixture_library(),
					  .seccomp = true,
					  .limited = true,
					  .uid = 12345 };
	struct attach_result result;
	struct remarks why = { 0 };

	assert_int_equal(attach_again(&request, &result, &why), -EPERM);
	assert_non_null(strstr(remarks_text(&why), "changed its privileges"));
	remarks_clear(&why);
	after = residue_of(victim.pid);
	assert_memory_equal(&after, &before, sizeof(before));
	assert_int_equal(victim_end(&victim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_there_is_refused),
		cmocka_unit_test(a_program_without_cuda_is_refused),
		cmocka_unit_test(a_static_program_is_refused),
		cmocka_unit_test(a_musl_program_is_refused),
		cmocka_unit_test(a_32_bit_program_is_refused),
		cmocka_unit_test(a_traced_or_stopped_program_is_refused),
		cmocka_unit_test(a_seccomp_filter_is_refused_unless_asked_for),
		cmocka_unit_test(
			a_filter_of_another_thread_is_refused_by_its_name_unless_asked_for),
		cmocka_unit_test(a_thread_in_strict_mode_is_refused),
		cmocka_unit_test(a_system_call_that_is_forbidden_rolls_back),
		cmocka_unit_test(a_process_that_we_may_not_write_to_rolls_back),
		cmocka_unit_test(a_library_that_fails_is_taken_out),
		cmocka_unit_test(a_call_that_hangs_is_taken_back),
		cmocka_unit_test(an_entry_that_waits_for_a_lock_is_taken_back),
		cmocka_unit_test(a_call_that_crashes_is_taken_back),
		cmocka_unit_test(a_file_that_is_no_library_is_told),
		cmocka_unit_test(a_program_with_other_mounts_needs_none_of_ours),
		cmocka_unit_test(a_program_without_proc_is_refused),
		cmocka_unit_test(a_program_that_is_another_users_by_now_is_let_go),
	};

	return story_run(tests, ARRAY_SIZE(tests));
}
