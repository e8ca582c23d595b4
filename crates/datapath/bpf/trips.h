/* Round trips of connections that pass, for a controller whose probes nobody answers.
 *
 * Principles: only those that an answer ends at once: of a handshake, and of what moves much; the
 * latest push out the oldest, so that nobody has to listen.
 * Non-goals: what they say of the line (`evenkeel_core::control`).
 */
#pragma once

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__type(value, struct trip);
	__uint(max_entries, TRIPS);
} ek_trips SEC(".maps");

/* What arrives now answers something that left `took` ns ago. */
static __always_inline void tell_trip(const struct flow *f, const struct packet *p, __u64 took,
				      __u64 now)
{
	if (!(p->tcp_flags & TCP_SYN) && !f->way[UP].heavy && !f->way[DOWN].heavy)
		return;
	struct trip t = {
		.came = now,
		.took = took / 1000,
		/* Empty acknowledgements are too little to wait. */
		.waits = f->way[UP].heavy && f->way[UP].stamp_data,
	};

	__builtin_memcpy(t.remote, p->key.remote, sizeof(t.remote));
	bpf_map_push_elem(&ek_trips, &t, BPF_EXIST);
}
