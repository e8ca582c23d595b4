/* What every part of the programs builds on: the kernel's types and helpers, units of time, how bytes
 * of a packet are read.
 *
 * Sees: no packets by itself.
 * Principles: everything works in a kernel without BTF or JIT.
 * Non-goals: what packets mean (packet.h).
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

/* ns. */
#define SECOND 1000000000ULL

/* The compiler, and so the verifier, reads memory again behind it: without it the verifier tells apart
 * all paths that lead here, and loading takes twice as long.
 */
#ifndef barrier
#define barrier() asm volatile("" ::: "memory")
#endif

/* Copies `n` bytes of a packet, from `at` on. 0, or an error if there are fewer. */
static __always_inline int load_bytes(struct __sk_buff *skb, __u32 at, void *to, __u32 n)
{
	return bpf_skb_load_bytes(skb, at, to, n);
}

/* `whole` less `part`, or 0 if that is more. */
static __always_inline __u32 saturating_sub(__u32 whole, __u32 part)
{
	return whole > part ? whole - part : 0;
}
