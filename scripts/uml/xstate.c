/*
 * Lets User Mode Linux run on CPUs whose extended state is larger than it knows (AMX).
 *
 * User Mode Linux keeps 2696 bytes of extended registers for each of its processes (HOST_FP_SIZE,
 * arch/x86/um/user-offsets.c, until Linux 6.15) and hands as many back. The host takes a whole
 * standard-format XSAVE area or none (xstateregs_set, arch/x86/kernel/fpu/regset.c), and with AMX
 * that has 11008 bytes: the guest's first process dies with "ptrace set fp regs failed, errno =
 * 14". Preloaded into the guest's kernel, this fills the rest with what the process has now, which
 * is AMX's initial state: no guest asks for permission to use AMX.
 *
 * Principles: nothing changes where the sizes agree. Non-goal: AMX in guests.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* More than any CPU's XSAVE area has today: 11008 bytes with AMX. */
#define MOST 32768

static _Alignas(64) unsigned char area[MOST];

/* As libc's, but -1 and errno also where a word was asked for: those requests give it in `data`. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list rest;

	va_start(rest, request);
	pid_t pid = va_arg(rest, pid_t);
	void *addr = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);

	if (request == PTRACE_SETREGSET && addr == (void *)NT_X86_XSTATE) {
		const struct iovec *given = data;
		struct iovec whole = { .iov_base = area, .iov_len = sizeof(area) };

		if (!syscall(SYS_ptrace, PTRACE_GETREGSET, pid, addr, &whole) &&
		    whole.iov_len > given->iov_len) {
			memcpy(area, given->iov_base, given->iov_len);
			return syscall(SYS_ptrace, request, pid, addr, &whole);
		}
	}
	if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
		long word;

		/* The system call, unlike libc, gives the word by a pointer. */
		if (syscall(SYS_ptrace, request, pid, addr, &word))
			return -1;
		errno = 0;
		return word;
	}
	return syscall(SYS_ptrace, request, pid, addr, data);
}
